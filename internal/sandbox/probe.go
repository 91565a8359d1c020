package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// probeLimit bounds one try of a level.
const probeLimit = 10 * time.Second

// system is what a probe looks at. Tests put another one in its place.
type system struct {
	root   string // where /etc, /proc and /sys are read from; empty: here
	bwrap  string // path of bubblewrap; empty: there is none
	abi    int    // of Landlock
	id     string // changes when an earlier probe no longer counts
	levels []Level
	veils  []Veil
	// try runs a command that does nothing at a level; nil: really.
	try func(ctx context.Context, r Report) error
}

// Probe says which level works here, by running "true" inside each, the
// strongest first. It is done once; later calls, and later starts while the
// system and this program stay the same, return what was found.
func (f *Fence) Probe(ctx context.Context) Report {
	if r := f.report.Load(); r != nil {
		return *r
	}
	f.probing.Lock()
	defer f.probing.Unlock()
	if r := f.report.Load(); r != nil {
		return *r
	}
	if f.opts.Self == "" {
		return Report{Level: None, Missing: "no helper is at hand"}
	}
	id := f.identity()
	if r, ok := f.cached(id); ok {
		f.report.Store(&r)
		return r
	}
	r := f.search(ctx)
	r.Veil, r.Mounts = f.searchVeil(ctx)
	if ctx.Err() != nil && r.Level == None {
		return r // cut short: it says nothing about the system
	}
	f.report.Store(&r)
	f.keep(id, r)
	return r
}

// Known returns what a probe found, if one has been made. It never waits.
func (f *Fence) Known() (Report, bool) {
	if r := f.report.Load(); r != nil {
		return *r, true
	}
	return Report{}, false
}

// forget makes the next call probe again, since a fence could not be built.
func (f *Fence) forget() {
	f.report.Store(nil)
	if f.opts.Cache != "" {
		_ = os.Remove(f.opts.Cache) // else it is probed once more than needed
	}
}

// search tries the levels.
func (f *Fence) search(ctx context.Context) Report {
	why := map[Level]error{}
	try := f.sys.try
	if try == nil {
		try = f.try
	}
	for _, level := range f.sys.levels {
		if err := f.possible(level); err != nil {
			why[level] = err
			continue
		}
		r := Report{Level: level}
		if level != Bwrap && level != SandboxExec {
			r.ABI = f.sys.abi
		}
		for _, r.NoNested = range nestings(level) {
			if why[level] = try(ctx, r); why[level] == nil {
				r.Missing, r.Cure = f.sys.advice(level, why)
				return r
			}
		}
	}
	r := Report{Level: None, ABI: f.sys.abi}
	r.Missing, r.Cure = f.sys.advice(None, why)
	return r
}

// nestings are the ways to try a level: older bubblewraps cannot forbid
// namespaces inside.
func nestings(l Level) []bool {
	if l == Bwrap || l == BwrapLandlock {
		return []bool{true, false}
	}
	return []bool{false}
}

// try runs "true" inside the fence.
func (f *Fence) try(ctx context.Context, r Report) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	c := Command{Args: []string{"true"}, Env: []string{}, Dir: "/usr"}
	for _, path := range []string{"/usr/bin/true", "/bin/true", "/run/current-system/sw/bin/true"} {
		if _, err := os.Stat(path); err == nil {
			c.Path = path
			break
		}
	}
	if c.Path == "" {
		return errors.New("there is no program true to try it with")
	}
	p, err := f.prepare(c, Policy{}, r)
	if err != nil {
		return err
	}
	p.stale = func() {}
	var said bytes.Buffer
	p.Stdout, p.Stderr = &said, &said
	p.WaitDelay = time.Second
	err = p.Start()
	if err == nil {
		stop := context.AfterFunc(ctx, func() { _ = p.Cmd.Process.Kill() })
		err = p.Wait()
		stop()
	}
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		err = errors.New(firstLine(text))
	}
	if cerr := p.Close(); cerr != nil && (err == nil || strings.TrimSpace(said.String()) == "") {
		err = cerr
	}
	return err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// kept is a probe's answer in its file.
type kept struct {
	ID     string `json:"id"`
	Report Report `json:"report"`
}

// identity names everything an answer depends on: the boot, the kernel's
// switches, bubblewrap, this program, and who runs it.
func (f *Fence) identity() string {
	id := []string{f.sys.id, f.sys.bwrap, fmt.Sprint(os.Geteuid(), f.sys.abi, planVersion)}
	for _, path := range []string{f.opts.Self, f.sys.bwrap} {
		if info, err := os.Stat(path); err == nil {
			id = append(id, fmt.Sprint(path, info.Size(), info.ModTime().UnixNano()))
		}
	}
	return strings.Join(id, "|")
}

func (f *Fence) cached(id string) (Report, bool) {
	if f.opts.Cache == "" {
		return Report{}, false
	}
	b, err := os.ReadFile(f.opts.Cache)
	if err != nil {
		return Report{}, false
	}
	var k kept
	if json.Unmarshal(b, &k) != nil || k.ID != id || k.Report.Level == None {
		return Report{}, false // what was missing may have come
	}
	return k.Report, true
}

func (f *Fence) keep(id string, r Report) {
	if f.opts.Cache == "" {
		return
	}
	b, err := json.Marshal(kept{id, r})
	if err != nil {
		return
	}
	// Half a file is no JSON and makes the next start probe again.
	if os.MkdirAll(filepath.Dir(f.opts.Cache), 0o700) == nil {
		_ = os.WriteFile(f.opts.Cache, b, 0o600)
	}
}
