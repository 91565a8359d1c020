package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

// skipError is a reason that is no fault: the machine cannot do it.
type skipError struct{ error }

func errSkip(err error) error { return skipError{err} }

// measureCommand: /status while a tool runs in the same conversation.
func measureCommand(ctx context.Context, b *bench) ([]Row, error) {
	h, err := b.newHome("command")
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
	if _, err := r.Send(ctx, "busy", client.Message{Text: "slow"}); err != nil {
		return nil, err
	}
	if err := l.toolRuns(ctx); err != nil {
		return nil, err
	}
	var list []float64
	for range b.times(100) {
		took, err := timed(func() error {
			sent, err := r.Send(ctx, "busy", client.Message{Text: "/status"})
			if err == nil && !strings.Contains(sent.Reply, "Working") {
				err = fmt.Errorf("/status says: %s", sent.Reply)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		list = append(list, took)
	}
	if _, err := r.Send(ctx, "busy", client.Message{Text: "/stop"}); err != nil {
		return nil, err
	}
	return []Row{row("/status while a tool runs", "ms", list, 50).others("3,300", "–", "–")}, nil
}

// toolRuns waits until a tool call is reported.
func (l *listener) toolRuns(ctx context.Context) error {
	late := time.After(patience)
	for {
		select {
		case ev := <-l.events:
			var phase struct{ Step string }
			if ev.Type == "phase" && json.Unmarshal(ev.Data, &phase) == nil && phase.Step == "tool" {
				return nil
			}
		case <-late:
			return errors.New("no tool was run")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// slowSync makes each sync of the disk take ten milliseconds longer, by
// stopping the process behind the system call; other calls run freely.
var slowSync = []string{"strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fsync,fdatasync",
	"-e", "inject=fsync,fdatasync:delay_exit=10000", "--"}

// measureAccept: how many messages a second are taken in from eight writers,
// each waiting for its acknowledgement, when a sync takes ten milliseconds.
// Each message opens a conversation and starts a turn, which competes for the
// same disk.
func measureAccept(ctx context.Context, b *bench) ([]Row, error) {
	const name = "accepted, 8 writers, 10 ms sync"
	if _, err := exec.LookPath(slowSync[0]); err != nil {
		return []Row{{Name: name, Skipped: "strace is not installed, and nothing else makes a sync slow"}}, nil
	}
	if err := exec.CommandContext(ctx, slowSync[0], append(slowSync[1:], "true")...).Run(); err != nil {
		return []Row{{Name: name, Skipped: "strace may not trace here: " + err.Error()}}, nil
	}
	h, err := b.newHome("accept")
	if err != nil {
		return nil, err
	}
	defer h.close()
	r, _, err := h.start(ctx, slowSync...)
	if err != nil {
		return nil, err
	}
	defer r.stop()
	span := 3 * time.Second
	if b.flags.quick {
		span = time.Second
	}
	var rates, acks []float64
	for round := range b.times(5) {
		list, rate, err := r.flood(ctx, fmt.Sprintf("flood-%d", round), 8, span)
		if err != nil {
			return nil, err
		}
		rates, acks = append(rates, rate), append(acks, list...)
	}
	s := samplesOf(acks)
	if s.Min < 10 {
		return nil, fmt.Errorf("a message was acknowledged after %s ms, before the disk can have synced it", number(s.Min))
	}
	return []Row{row(name, "/s", rates, 250).atLeast().
		note("every message opens a conversation and starts a turn that commits to the same disk; acknowledged after %s ms (p99 %s)", number(s.Median), number(s.P99))}, nil
}

// flood lets writers send, each one message after the other, and returns how
// long each acknowledgement took in milliseconds and how many came a second.
func (r *house) flood(ctx context.Context, name string, writers int, span time.Duration) (acks []float64, rate float64, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	began := time.Now()
	for w := range writers {
		wg.Go(func() {
			for i := 0; time.Since(began) < span; i++ {
				took, sendErr := timed(func() error {
					_, err := r.Send(ctx, fmt.Sprintf("%s-%d-%d", name, w, i), client.Message{Text: "hello"})
					return err
				})
				mu.Lock()
				if sendErr != nil {
					err = errors.Join(err, sendErr)
					mu.Unlock()
					return
				}
				acks = append(acks, took)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return acks, float64(len(acks)) / time.Since(began).Seconds(), err
}

// measureMillion: a home that has seen a million entries, beside a new one.
func measureMillion(ctx context.Context, b *bench) ([]Row, error) {
	entries := 1_000_000
	if b.flags.quick {
		entries = 100_000
	}
	old, err := b.newHome("million")
	if err != nil {
		return nil, err
	}
	defer old.close()
	b.say("million: writing %d entries", entries)
	if err := old.fill(ctx, entries); err != nil {
		return nil, fmt.Errorf("fill the home: %w", err)
	}
	var ready []float64
	for range b.times(15) {
		r, took, err := old.start(ctx)
		if err != nil {
			return nil, err
		}
		ready = append(ready, ms(took))
		if err := r.stop(); err != nil {
			return nil, err
		}
	}
	name := fmt.Sprintf("start to ready, %d entries", entries)
	rows := []Row{row(name, "ms", ready, 100)}

	young, err := b.newHome("young")
	if err != nil {
		return rows, err
	}
	defer young.close()
	var talks [2]*listener
	for i, h := range []*home{young, old} {
		r, _, err := h.start(ctx)
		if err != nil {
			return rows, err
		}
		defer r.stop()
		if talks[i], err = r.listen(ctx); err != nil {
			return rows, err
		}
		defer talks[i].close()
		if _, _, _, err := talks[i].converse(ctx, "warming", 10); err != nil {
			return rows, err
		}
	}
	// They take turns, so that what else the machine does disturbs both.
	var first [2][]float64
	for round := range b.times(25) {
		for i, l := range talks {
			list, _, _, err := l.converse(ctx, fmt.Sprintf("warm-%d", round), 10)
			if err != nil {
				return rows, err
			}
			first[i] = append(first[i], list...)
		}
	}
	bound := 1.2 * samplesOf(first[0]).Median
	return append(rows, row(fmt.Sprintf("message to first token, %d entries", entries), "ms", first[1], bound).
		note("the target is 1.2 times the %s ms of a new home, whose turns were measured in between", number(samplesOf(first[0]).Median))), nil
}

// fill writes entries into the home's database, through its own store, in
// conversations of a thousand.
func (h *home) fill(ctx context.Context, entries int) (err error) {
	s, err := sqlite.Open(ctx, h.dir, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	const each, batch = 1000, 10
	text := strings.Repeat("What was said that day was worth keeping. ", 3)
	for at := 0; at < entries; at += each * batch {
		err := s.Update(ctx, func(tx store.Tx) error {
			for i := range batch {
				id := mercury.LocalConversation(fmt.Sprintf("old-%d", at/each+i))
				if err := tx.InsertConversation(mercury.Conversation{ID: id, Kind: "chat", CreatedAt: tx.Now(), UpdatedAt: tx.Now()}); err != nil {
					return err
				}
				list := make([]mercury.Entry, each)
				for j := range list {
					list[j] = mercury.Entry{Kind: []mercury.EntryKind{mercury.UserEntry, mercury.AssistantEntry}[j%2], Text: text}
				}
				if _, err := tx.Append(id, list...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
