package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

const (
	parallelFetches = 200
	memoryMax       = 64 << 20 // what they may take together
)

// bodies of the full size, from harmless to hostile.
var bodies = map[string]struct {
	kind string
	body []byte
}{
	"text":       {"text/plain", bytes.Repeat([]byte("a line of text that says nothing much at all\n"), bodyMax/45)},
	"articles":   {"text/html", fill("<html><body><article>", "<p>A river is a natural flowing watercourse, usually freshwater, flowing towards an ocean, a <a href=/sea>sea</a> or a lake.</p>\n")},
	"tag soup":   {"text/html", fill("<html><body>", "<b>x</b>")},
	"wide table": {"text/html", fill("<html><body><table>", "<tr><td>1</td><td>2</td></tr>")},
	"scripts":    {"text/html", fill("<html><body><p>text</p>", "<script>var a = {'b': [1, 2, 3], c: function () { return 42 }};</script>")},
	"json":       {"application/json", fill("[1", ",{\"key\":[1,2,3],\"other\":\"text\"}")},
}

func fill(begin, again string) []byte {
	b := append([]byte(begin), bytes.Repeat([]byte(again), (bodyMax-len(begin)-1)/len(again))...)
	if begin == "[1" {
		b = append(b, ']')
	}
	return b
}

func TestTwoHundredFullPagesAtOnceTakeLittleMemory(t *testing.T) {
	n := parallelFetches
	if raced {
		n /= 5
	}
	used, took := parallel(t, n, func(i int) string {
		if i%10 == 0 { // pages that take long are a few; the benchmark has nothing but those
			return []string{"articles", "tag soup", "wide table"}[i/10%3]
		}
		return []string{"text", "json", "scripts"}[i%3]
	})
	t.Logf("%.1f MB more, %v", float64(used)/(1<<20), took.Round(time.Millisecond))
	if used > memoryMax && !raced {
		t.Errorf("%d fetches took %.1f MB more memory, at most %d are allowed", parallelFetches, float64(used)/(1<<20), memoryMax>>20)
	}
}

// parallel makes n fetches at once, the i-th of the body that which(i) names,
// and returns how much more memory
// the process took at its highest, the server's share included.
func parallel(t testing.TB, n int, which func(int) string) (used uint64, took time.Duration) {
	arrived := make(chan struct{}, n)
	all := make(chan struct{})
	check, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b := bodies[r.URL.Query().Get("body")]
		w.Header().Set("Content-Type", b.kind)
		w.Write(b.body[:heldMax])
		arrived <- struct{}{}
		<-all // every fetch is under way before one may end
		w.Write(b.body[heldMax:])
	})
	fetch := Fetch(check, Options{Whole: 2 * time.Minute, Spool: t.TempDir()})
	set := tool.NewSet(&steady{}, fetch)
	outputs := t.TempDir()
	runtime.GC()
	before := memory()
	ctx, stop := context.WithCancel(t.Context())
	var sampling sync.WaitGroup
	peak := before
	sampling.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				peak = max(peak, memory())
			}
		}
	})
	began := time.Now()
	var fetches sync.WaitGroup
	for i := range n {
		fetches.Go(func() {
			p := set.Prepare(t.Context(), tool.Call{ID: fmt.Sprint("c", i), Name: "fetch_url", Args: fmt.Appendf(nil, `{"url":"http://site.example/?body=%s"}`, url.QueryEscape(which(i))), Outputs: outputs})
			out, err := p.Run(t.Context())
			if err != nil || out.IsError {
				t.Errorf("%v, %.200s", err, out.Text)
			}
		})
	}
	for range n {
		<-arrived
	}
	close(all)
	fetches.Wait()
	took = time.Since(began)
	stop()
	sampling.Wait()
	return peak - before, took
}

// memory is what the process holds of the system's memory through Go.
func memory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() - s[1].Value.Uint64()
}

// steady is a gate for many at once.
type steady struct{}

func (*steady) Judge(context.Context, tool.Request) mercury.Judgement {
	return mercury.Judgement{Verdict: mercury.Allow}
}

func BenchmarkFetchTwoHundredFullPages(b *testing.B) {
	for name := range bodies {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				used, took := parallel(b, parallelFetches, func(int) string { return name })
				b.ReportMetric(float64(used)/(1<<20), "MB-more")
				b.ReportMetric(took.Seconds()*1000/parallelFetches, "ms/page")
			}
		})
	}
}
