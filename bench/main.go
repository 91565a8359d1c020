// Command bench measures Mercury from outside, as the processes a person
// starts: how soon it is there, what it costs while nothing happens, what a
// message costs, and what it writes to disk. It builds the stripped program,
// gives it a scripted model that answers at once and a scripted relay, and
// prints a table beside its targets and the figures of other agents.
//
//	go run ./bench [--quick] [--only NAME,…] [--json FILE] [--strict]
//
// A missed target is no error unless --strict is given: a busy machine misses
// some. Each row is measured several times; the table shows the spread.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// flags are what the person asked for.
type flags struct {
	quick  bool
	strict bool
	only   string
	json   string
	dir    string
	binary string
}

func main() {
	var f flags
	flag.BoolVar(&f.quick, "quick", false, "fewer repetitions, a smaller million, shorter idle: a look, not a verdict")
	flag.BoolVar(&f.strict, "strict", false, "exit 1 when a target is missed")
	flag.StringVar(&f.only, "only", "", "measure only these `groups`, separated by commas: "+strings.Join(groupNames(), ", "))
	flag.StringVar(&f.json, "json", "", "write the figures to this `file`")
	flag.StringVar(&f.dir, "dir", "", "`folder` for the homes, on the disk to be measured; default the system's for temporary files")
	flag.StringVar(&f.binary, "binary", "", "measure this `program` instead of building one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, f, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		code = 1
	}
	stop()
	os.Exit(code)
}

// run measures and reports, and returns the exit code.
func run(ctx context.Context, f flags, out, progress io.Writer) (code int, err error) {
	chosen, err := choose(f.only)
	if err != nil {
		return 2, err
	}
	b, err := newBench(ctx, f, progress)
	if err != nil {
		return 1, err
	}
	defer func() {
		for _, r := range b.houses { // those of a group that failed still run
			r.kill()
		}
		err = errors.Join(err, os.RemoveAll(b.dir))
	}()
	began := time.Now()
	report := Report{Started: began.UTC(), Quick: f.quick, Machine: b.machine()}
	for _, g := range chosen {
		b.say("%s …", g.name)
		rows, err := g.measure(ctx, b)
		if ctx.Err() != nil {
			return 1, ctx.Err()
		}
		if err != nil {
			b.say("%s: %v", g.name, err)
			_, harmless := errors.AsType[skipError](err)
			rows = append(rows, Row{Name: g.name, Skipped: err.Error(), Failed: !harmless})
		}
		report.Rows = append(report.Rows, rows...)
	}
	report.Seconds = time.Since(began).Seconds()
	report.print(out)
	if f.json != "" {
		text, err := json.MarshalIndent(report, "", "  ")
		if err == nil {
			err = os.WriteFile(f.json, append(text, '\n'), 0o644)
		}
		if err != nil {
			return 1, fmt.Errorf("write the figures: %w", err)
		}
	}
	if f.strict && report.missed() > 0 {
		return 1, nil
	}
	return 0, nil
}

// A group measures rows that share a process or a home.
type group struct {
	name    string
	measure func(ctx context.Context, b *bench) ([]Row, error)
}

// groups in the order they are measured: what is short first.
func groups() []group {
	return []group{
		{"binary", measureBinary},
		{"start", measureStart},
		{"idle", measureIdle},
		{"turn", measureTurns},
		{"command", measureCommand},
		{"accept", measureAccept},
		{"million", measureMillion},
		{"recall", measureRecall},
		{"gate", measureGate},
		{"fetch", measureFetches},
	}
}

func groupNames() []string {
	var names []string
	for _, g := range groups() {
		names = append(names, g.name)
	}
	return names
}

func choose(only string) ([]group, error) {
	all := groups()
	if only == "" {
		return all, nil
	}
	var chosen []group
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(g group) bool { return g.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no group %q; there are %s", name, strings.Join(groupNames(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// bench is what the groups share.
type bench struct {
	flags    flags
	dir      string // for homes; removed at the end
	binary   string
	progress io.Writer
	houses   []*house // all that were started
}

func newBench(ctx context.Context, f flags, progress io.Writer) (*bench, error) {
	dir, err := os.MkdirTemp(f.dir, "mercury-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the homes: %w", err)
	}
	b := &bench{flags: f, dir: dir, binary: f.binary, progress: progress}
	if b.binary == "" {
		b.binary = filepath.Join(dir, "mercury")
		if err := b.build(ctx); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return b, nil
}

// say tells whoever waits what is being done.
func (b *bench) say(format string, a ...any) { fmt.Fprintf(b.progress, "bench: "+format+"\n", a...) }

// times is how often something is repeated: n, or a fifth of it with --quick.
func (b *bench) times(n int) int {
	if b.flags.quick {
		return max(n/5, 3)
	}
	return n
}
