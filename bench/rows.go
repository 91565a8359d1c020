package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// measureBinary: what one downloads.
func measureBinary(_ context.Context, b *bench) ([]Row, error) {
	st, err := os.Stat(b.binary)
	if err != nil {
		return nil, err
	}
	return []Row{row("binary, stripped", "MB", []float64{mb(st.Size())}, 30).others("102 + Node", "37", "94")}, nil
}

// measureStart: the commands a person types, and the runtime they start.
func measureStart(ctx context.Context, b *bench) ([]Row, error) {
	var cold []float64
	h, err := b.newHome("start")
	if err != nil {
		return nil, err
	}
	defer h.close()
	for range b.times(50) {
		took, err := timed(func() error { return h.command(ctx, "version").Run() })
		if err != nil {
			return nil, fmt.Errorf("version: %w", err)
		}
		cold = append(cold, took)
	}
	rows := []Row{row("version", "ms", cold, 6).others("302", "6.6", "30")}
	var check []float64
	for range b.times(30) {
		took, err := timed(func() error { return h.command(ctx, "config", "check").Run() })
		if err != nil {
			return rows, fmt.Errorf("config check: %w", err)
		}
		check = append(check, took)
	}
	rows = append(rows, row("config check", "ms", check, 50))

	var fresh, ready, first, warm, status []float64
	for i := range b.times(15) {
		r, took, err := h.start(ctx)
		if err != nil {
			return rows, err
		}
		if i > 0 {
			ready = append(ready, ms(took))
		}
		once, then, err := r.firstWords(ctx)
		if err != nil {
			return rows, fmt.Errorf("first turn: %w", err)
		}
		if i > 0 {
			first, warm = append(first, once), append(warm, then...)
		}
		for range 5 {
			took, err := timed(func() error { return h.command(ctx, "status").Run() })
			if err != nil {
				return rows, fmt.Errorf("status: %w", err)
			}
			status = append(status, took)
		}
		if err := r.stop(); err != nil {
			return rows, err
		}
	}
	hello := h.model.Requests()[0]
	for i := range b.times(10) {
		h, err := b.newHome(fmt.Sprintf("fresh-%d", i))
		if err != nil {
			return rows, err
		}
		r, took, err := h.start(ctx)
		if err != nil {
			return rows, err
		}
		fresh = append(fresh, ms(took))
		if err := r.stop(); err != nil {
			return rows, err
		}
		h.close()
	}
	bound := 2 * samplesOf(warm).Median
	return append(rows,
		row("status, runtime running", "ms", status, 20).others("385", "–", "–"),
		row("start to ready", "ms", ready, 60).others("382", "–", "–"),
		row("start to ready, new home", "ms", fresh, 60),
		row("first turn after start, to first token", "ms", first, bound).others("86", "–", "–").
			note("the target is twice the median of ten later turns of the same processes, %s ms", number(samplesOf(warm).Median)),
		row("hello request, default tools", "KB", []float64{kb(int64(hello.Bytes))}, 8).others("18.3", "19.6", "48"),
	), nil
}

// firstWords has turns with a Mercury that has just started, and returns the
// milliseconds to the first token of the first and of the last ten of twenty.
func (r *house) firstWords(ctx context.Context) (first float64, warm []float64, err error) {
	l, err := r.listen(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer l.close()
	t, err := l.say(ctx, "first", "hello")
	if err != nil {
		return 0, nil, err
	}
	// Each start has a conversation of its own for the rest.
	list, _, _, err := l.converse(ctx, fmt.Sprintf("warm-%d", r.pid), 19)
	if err != nil {
		return 0, nil, err
	}
	return ms(t.first), list[9:], nil
}

func timed(fn func() error) (float64, error) {
	began := time.Now()
	err := fn()
	return ms(time.Since(began)), err
}

// measureIdle: a runtime with the relay and the web interface on, after a few
// turns, while nobody says anything.
func measureIdle(ctx context.Context, b *bench) ([]Row, error) {
	span, rounds := 30*time.Second, b.times(3)
	if b.flags.quick {
		span, rounds = 5*time.Second, 1
	}
	var rss, cpu, switches, written []float64
	for i := range rounds {
		h, err := b.newHome(fmt.Sprintf("idle-%d", i))
		if err != nil {
			return nil, err
		}
		r, _, err := h.start(ctx)
		if err != nil {
			return nil, err
		}
		l, err := r.listen(ctx)
		if err != nil {
			return nil, err
		}
		if _, _, _, err := l.converse(ctx, "some", 5); err != nil {
			return nil, err
		}
		l.close()
		if err := pause(ctx, settled); err != nil {
			return nil, err
		}
		before, err := usageOf(r.pid)
		if err != nil {
			return nil, errSkip(err)
		}
		if err := pause(ctx, span); err != nil {
			return nil, err
		}
		after, err := usageOf(r.pid)
		if err != nil {
			return nil, err
		}
		rss = append(rss, mb(after.rss))
		cpu = append(cpu, (after.cpu - before.cpu).Seconds())
		switches = append(switches, float64(after.switches-before.switches)*float64(30*time.Second)/float64(span))
		written = append(written, mb(after.written-before.written)*float64(24*time.Hour)/float64(span))
		if err := r.stop(); err != nil {
			return nil, err
		}
		h.close()
	}
	return []Row{
		row("idle memory (RSS), relay and web on", "MB", rss, 25).others("79", "32", "79"),
		row(fmt.Sprintf("idle processor time in %s", span), "s", cpu, 0).others("0.00", "–", "–"),
		row("idle context switches in 30 s", "", switches, 50).others("–", "1,713", "0"),
		row("written to disk per idle day", "MB", written, 5).note("extrapolated from %s", span),
	}, nil
}

// settled is after how long a runtime that was busy counts as idle: it gives
// memory back a few seconds after its last turn.
const settled = 6 * time.Second

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// measureTurns: what a message costs, and what two hundred leave behind.
func measureTurns(ctx context.Context, b *bench) ([]Row, error) {
	h, err := b.newHome("turn")
	if err != nil {
		return nil, err
	}
	defer h.close()
	r, _, err := h.start(ctx)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	l, err := r.listen(ctx)
	if err != nil {
		return nil, err
	}
	defer l.close()
	if _, _, _, err := l.converse(ctx, "warming", 10); err != nil {
		return nil, err
	}
	first, accepted, done, err := l.converse(ctx, "warm", b.times(500))
	if err != nil {
		return nil, err
	}
	model, err := h.modelAlone(ctx, b.times(100))
	if err != nil {
		return nil, err
	}
	sync, err := b.syncTimes(b.times(200))
	if err != nil {
		return nil, err
	}
	rows := []Row{
		row("message to first token, warm, synced", "ms", first, 3).p99(10).others("6.6", "6–8", "7").
			note("from handing the message to the client to its first token at the client; the input is on disk before it is acknowledged. The scripted model alone needs %s ms of it, one sync of the disk %s ms (p99 %s)",
				number(samplesOf(model).Median), number(sync.Median), number(sync.P99)),
		row("  … to the acknowledgement", "ms", accepted, noTarget),
		row("  … to the end of the turn", "ms", done, noTarget),
	}
	grown, err := measureGrowth(ctx, b)
	return append(rows, grown...), err
}

// modelAlone asks the scripted model directly what Mercury last asked it, and
// returns the times to its first token.
func (h *home) modelAlone(ctx context.Context, n int) ([]float64, error) {
	asked := h.model.Requests()
	body := asked[len(asked)-1].Body
	var list []float64
	for range n {
		took, err := timed(func() error {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.baseURL+"/v1/chat/completions", bytes.NewReader(body))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer func() {
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}()
			var some [1]byte
			_, err = res.Body.Read(some[:])
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("ask the scripted model: %w", err)
		}
		list = append(list, took)
	}
	return list, nil
}

// measureGrowth: two hundred turns in one conversation, from the first word,
// each time in a new home.
func measureGrowth(ctx context.Context, b *bench) ([]Row, error) {
	rounds, turns := 3, 200
	if b.flags.quick {
		rounds, turns = 1, 40
	}
	var grown, from, written []float64
	for i := range rounds {
		before, after, err := b.grow(ctx, fmt.Sprintf("growth-%d", i), turns)
		if err != nil {
			return nil, err
		}
		from, grown = append(from, mb(before.rss)), append(grown, mb(after.rss-before.rss))
		written = append(written, kb(after.written-before.written)/float64(turns))
	}
	return []Row{
		row(fmt.Sprintf("memory growth over %d turns", turns), "MB", grown, 3).others("+57 in 41", "+3", "+12").
			note("from %s MB after five turns, in one conversation whose requests grow with it; measured when nothing has happened for %s", number(samplesOf(from).Median), settled),
		row("written to disk per turn", "KB", written, 200).
			note("write_bytes of /proc/PID/io over the same turns, checkpoints included"),
	}, nil
}

// grow has turns in one conversation and returns the counters of the process
// after five of them and after all, at rest.
func (b *bench) grow(ctx context.Context, name string, turns int) (before, after usage, err error) {
	h, err := b.newHome(name)
	if err != nil {
		return before, after, err
	}
	defer h.close()
	r, _, err := h.start(ctx)
	if err != nil {
		return before, after, err
	}
	defer r.stop()
	l, err := r.listen(ctx)
	if err != nil {
		return before, after, err
	}
	defer l.close()
	talk := func(n int) (usage, error) {
		for range n {
			if _, err := l.say(ctx, "long", "hello"); err != nil {
				return usage{}, err
			}
		}
		if err := pause(ctx, settled); err != nil {
			return usage{}, err
		}
		u, err := usageOf(r.pid)
		if err != nil {
			err = errSkip(err)
		}
		return u, err
	}
	if before, err = talk(5); err != nil {
		return before, after, err
	}
	after, err = talk(turns)
	return before, after, err
}
