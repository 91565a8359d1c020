package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/web"
)

// measureGate: what it costs to decide about a command that asks nobody.
func measureGate(ctx context.Context, b *bench) ([]Row, error) {
	dir := filepath.Join(b.dir, "gate")
	for _, name := range []string{"src/main.go", "docs/guide.md", "notes.txt"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, []byte("words\n"), 0o600); err != nil {
			return nil, err
		}
	}
	gate := permission.New(permission.Options{Fenced: true, Files: permission.Files{Home: filepath.Join(b.dir, "home")}})
	m := mercury.Mandate{Actor: mercury.Actor{Role: mercury.Owner}, Interactive: true, Workspace: dir, Scopes: []mercury.Scope{{Path: dir, Read: true, Write: true}}}
	commands := []string{"ls -la", "cat notes.txt", "grep -rn 'func main' src docs", "find . -name '*.go'", "wc -l src/main.go docs/guide.md"}
	var took []float64
	for i := range b.times(20_000) {
		q := permission.Question{Mandate: m, Tool: "run_command", Accesses: []mercury.Access{{Kind: mercury.RunCommand, Target: commands[i%len(commands)]}}}
		start := time.Now()
		j := gate.Judge(ctx, q)
		took = append(took, float64(time.Since(start).Nanoseconds())/1000)
		if j.Verdict != mercury.Allow {
			return nil, fmt.Errorf("%q is not automatic here: %s", commands[i%len(commands)], j.Why)
		}
	}
	return []Row{row("decision about a reading command", "µs", took, 50)}, nil
}

// Fetches at once, and what each of them brings.
const (
	fetchesAtOnce = 200
	pageBytes     = 2 << 20
)

// loopback lets the tool connect to this machine alone.
type loopback struct{ addr netip.AddrPort }

func (l loopback) Check(_ context.Context, url string) (web.Target, error) {
	return web.Target{URL: url, Addrs: []netip.AddrPort{l.addr}}, nil
}

func (l loopback) Follow(ctx context.Context, _ web.Target, location string) (web.Target, error) {
	return l.Check(ctx, location)
}

// allow is a gate for what the bench itself asks.
type allow struct{}

func (allow) Judge(context.Context, tool.Request) mercury.Judgement {
	return mercury.Judgement{Verdict: mercury.Allow}
}

// measureFetches: how much more memory the process needs while many pages are
// fetched at once, the server's share in the same process included.
func measureFetches(ctx context.Context, b *bench) ([]Row, error) {
	page := []byte("<html><body>" + strings.Repeat("<p>A paragraph of ordinary length about nothing in particular.</p>\n", pageBytes/68) + "</body></html>")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page) // who leaves early has had enough
	}))
	defer server.Close()
	addr, err := netip.ParseAddrPort(server.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	set := tool.NewSet(allow{}, web.Fetch(loopback{addr}, web.Options{Whole: 2 * time.Minute, Spool: b.dir}))
	runtime.GC()
	before := inUse()
	peak := before
	watch, stop := context.WithCancel(ctx)
	var sampling, fetches sync.WaitGroup
	sampling.Go(func() {
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-watch.Done():
				tick.Stop()
				return
			case <-tick.C:
				peak = max(peak, inUse())
			}
		}
	})
	failed := make(chan error, fetchesAtOnce)
	for i := range fetchesAtOnce {
		fetches.Go(func() {
			p := set.Prepare(ctx, tool.Call{ID: fmt.Sprint("c", i), Name: "fetch_url", Args: []byte(`{"url":"http://site.example/"}`), Outputs: filepath.Join(b.dir, "pages")})
			if out, err := p.Run(ctx); err != nil || out.IsError {
				failed <- fmt.Errorf("fetch: %v %.200s", err, out.Text)
			}
		})
	}
	fetches.Wait()
	stop()
	sampling.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	return []Row{row(fmt.Sprintf("memory for %d fetches of %d MB at once", fetchesAtOnce, pageBytes>>20), "MB", []float64{mb(int64(peak - before))}, 64)}, nil
}

// inUse is what the process holds of the system's memory through Go.
func inUse() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}
