package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

func call(round int, id string, effect mercury.Effect) StepCall {
	return StepCall{Round: round, CallID: id, Kind: "tool", Name: "probe", Effect: effect, Args: []byte(`{"a":1}`)}
}

func done(text string) func(context.Context) (StepResult, error) {
	return func(context.Context) (StepResult, error) {
		return StepResult{Output: json.RawMessage(`"` + text + `"`)}, nil
	}
}

// TestWhatWasDoneIsNotDoneAgainAfterAKill kills the process at each of several
// places of a run and looks what runs again.
func TestWhatWasDoneIsNotDoneAgainAfterAKill(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		var reads, onces, tries atomic.Int32
		killed := make(chan *Work, 1)
		handler := func(ctx context.Context, w *Work) error {
			if _, err := w.Do(ctx, call(1, "read", mercury.Read), func(ctx context.Context) (StepResult, error) {
				reads.Add(1)
				return done("r")(ctx)
			}); err != nil {
				return err
			}
			if _, err := w.Do(ctx, call(1, "once", mercury.Once), func(ctx context.Context) (StepResult, error) {
				onces.Add(1)
				return done("o")(ctx)
			}); err != nil {
				return err
			}
			c := call(2, "cut", mercury.Once)
			c.Unknown = &StepResult{Entries: []mercury.Entry{{Kind: mercury.ToolResultEntry, CallID: "cut", Text: "nobody knows"}}}
			s, err := w.Do(ctx, c, func(ctx context.Context) (StepResult, error) {
				tries.Add(1)
				killed <- w
				<-ctx.Done()
				return StepResult{}, ctx.Err()
			})
			if err != nil {
				return err
			}
			if s.State != mercury.StepUnknown || s.Error == "" {
				t.Errorf("the step that was cut off is %s (%s)", s.State, s.Error)
			}
			if len(w.Journal()) != 3 {
				t.Errorf("journal = %v", w.Journal())
			}
			return w.Settle(ctx, reply("done"), nil)
		}
		r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", handler) })
		r.settle()
		p := r.say("m1", "go")
		receive(t, killed, "the step to be cut off")
		r.kill()

		r = h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", handler) })
		run := r.untilRun(p.RunID, mercury.RunDone)
		if reads.Load() != 1 || onces.Load() != 1 || tries.Load() != 1 {
			t.Errorf("ran %d, %d, %d times, want once each", reads.Load(), onces.Load(), tries.Load())
		}
		if run.Epoch != 2 || run.Attempts != 0 {
			t.Errorf("epoch %d, attempts %d", run.Epoch, run.Attempts)
		}
		equal(t, "entries", r.texts(place), "user: go", "tool_result: nobody knows", "assistant: done")
	})
}

func TestAProbeTellsWhetherAStepHappened(t *testing.T) {
	type probe func(context.Context) (*StepResult, bool, error)
	for _, tt := range []struct {
		name  string
		probe probe
		state mercury.StepState
		runs  int32 // of the step, in both lives
	}{
		{"it happened", func(context.Context) (*StepResult, bool, error) {
			return &StepResult{Output: json.RawMessage(`"found"`)}, false, nil
		}, mercury.StepDone, 1},
		{"it did not happen", func(context.Context) (*StepResult, bool, error) { return nil, true, nil }, mercury.StepDone, 2},
		{"nobody can tell", func(context.Context) (*StepResult, bool, error) { return nil, false, nil }, mercury.StepUnknown, 1},
		{"asking failed", func(context.Context) (*StepResult, bool, error) { return nil, true, errors.New("no route") }, mercury.StepUnknown, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := sqliteHome(t)
			var runs atomic.Int32
			started := make(chan bool, 1)
			second := atomic.Bool{}
			state := make(chan mercury.StepState, 1)
			handler := func(ctx context.Context, w *Work) error {
				c := call(1, "c", mercury.Once)
				c.Probe = tt.probe
				s, err := w.Do(ctx, c, func(ctx context.Context) (StepResult, error) {
					runs.Add(1)
					if second.Load() {
						return done("again")(ctx)
					}
					started <- true
					<-ctx.Done()
					return StepResult{}, ctx.Err()
				})
				if err != nil {
					return err
				}
				state <- s.State
				return w.Settle(ctx, Outcome{}, nil)
			}
			r := h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", handler) })
			r.settle()
			r.say("m1", "go")
			receive(t, started, "the step")
			r.store.Close() // the outcome is not written
			r.stop()
			second.Store(true)
			h.rig(t, Options{}, func(e *Engine) { e.Handle("turn", handler) })
			if got := receive(t, state, "the resumed step"); got != tt.state {
				t.Errorf("state = %s, want %s", got, tt.state)
			}
			if runs.Load() != tt.runs {
				t.Errorf("it ran %d times, want %d", runs.Load(), tt.runs)
			}
		})
	}
}

// onRun runs fn as the handler of one run and returns the run when it ended.
func onRun(t *testing.T, h *home, o Options, fn Handler) (*rig, mercury.Run) {
	t.Helper()
	r := h.rig(t, o, func(e *Engine) { e.Handle("turn", fn) })
	r.settle()
	p := r.say("m1", "go")
	return r, r.untilRun(p.RunID, mercury.RunDone, mercury.RunFailed, mercury.RunDead, mercury.RunStopped)
}

func TestErrorsOfAOnceStepAreFailedWhenProvenAndUnknownOtherwise(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		_, run := onRun(t, h, Options{}, func(ctx context.Context, w *Work) error {
			for _, tt := range []struct {
				id  string
				err error
				res StepResult
				as  mercury.StepState
			}{
				{"refused", &mercury.Error{Kind: mercury.Denied, Err: errors.New("403")}, StepResult{}, mercury.StepFailed},
				{"surprise", errors.New("connection reset"), StepResult{}, mercury.StepUnknown},
				{"told", nil, StepResult{Err: "no such file"}, mercury.StepFailed},
				{"fine", nil, StepResult{}, mercury.StepDone},
			} {
				s, err := w.Do(ctx, call(1, tt.id, mercury.Once), func(context.Context) (StepResult, error) { return tt.res, tt.err })
				if err != nil || s.State != tt.as {
					t.Errorf("%s: %s, %v, want %s", tt.id, s.State, err, tt.as)
				}
			}
			boom := errors.New("boom")
			if _, err := w.Do(ctx, call(2, "read", mercury.Read), func(context.Context) (StepResult, error) { return StepResult{}, boom }); !errors.Is(err, boom) {
				t.Errorf("error of a read = %v", err)
			}
			if n := len(w.Journal()); n != 4 {
				t.Errorf("%d steps in the journal, want 4", n)
			}
			return w.Settle(ctx, Outcome{}, nil)
		})
		if run.State != mercury.RunDone {
			t.Errorf("run is %s: %s", run.State, run.Error)
		}
	})
}

func TestAResumedStepWithOtherArgumentsIsAnError(t *testing.T) {
	h := sqliteHome(t)
	onRun(t, h, Options{}, func(ctx context.Context, w *Work) error {
		if _, err := w.Do(ctx, call(1, "c", mercury.Read), done("x")); err != nil {
			return err
		}
		c := call(1, "c", mercury.Read)
		c.Args = []byte(`{"a":2}`)
		if _, err := w.Do(ctx, c, done("y")); kindOf(err) != mercury.Invalid {
			t.Errorf("other arguments: %v", err)
		}
		return w.Settle(ctx, Outcome{}, nil)
	})
}

func TestALargeOutputIsKeptAsABlobAndComesBack(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		large, err := json.Marshal(string(bytes.Repeat([]byte("x"), largeOutput)))
		if err != nil {
			t.Fatal(err)
		}
		again := false
		r, run := onRun(t, h, Options{}, func(ctx context.Context, w *Work) error {
			s, err := w.Do(ctx, call(1, "big", mercury.Read), func(context.Context) (StepResult, error) { return StepResult{Output: large}, nil })
			if err != nil {
				return err
			}
			if !again {
				again = true
				return &mercury.Error{Kind: mercury.Transient, After: 1, Err: errors.New("once more")}
			}
			if !bytes.Equal(s.Output, large) {
				t.Errorf("output of %d bytes came back as %d", len(large), len(s.Output))
			}
			return w.Settle(ctx, Outcome{}, nil)
		})
		if run.State != mercury.RunDone || run.Attempts != 1 {
			t.Errorf("run is %s after %d attempts", run.State, run.Attempts)
		}
		r.view(func(tx store.Tx) error {
			s, err := tx.Step(run.ID, 1, "big")
			if len(s.Output) != 0 || s.OutputRef == "" {
				t.Errorf("row holds %d bytes, ref %q", len(s.Output), s.OutputRef)
			}
			return err
		})
	})
}

func TestAStepCommitsAllThatBelongsToIt(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r, run := onRun(t, h, Options{}, func(ctx context.Context, w *Work) error {
			row := store.LedgerRow{ID: mercury.NewID("us"), RunID: w.Run().ID, Model: "m", Usage: mercury.Usage{Input: 10, Output: 99}}
			grant := store.Grant{ID: "gr_1", Once: true, Actor: owner}
			if err := w.Update(ctx, "test", func(t *Tx) error { grant.CreatedAt = t.Now(); return t.InsertGrant(grant) }); err != nil {
				return err
			}
			c := call(1, "c", mercury.Once)
			c.Reserve, c.Grants = &row, []string{"gr_1"}
			began := false
			c.Begin = func(*Tx) error { began = true; return nil }
			_, err := w.Do(ctx, c, func(context.Context) (StepResult, error) {
				if !began {
					t.Error("the step runs before its rights were looked at")
				}
				settled := row
				settled.Usage = mercury.Usage{Input: 10, Output: 5}
				return StepResult{
					Entries: []mercury.Entry{{Kind: mercury.ToolResultEntry, Text: "result"}},
					Usage:   settled.Usage,
					Ledger:  &settled,
					Commit:  func(t *Tx) error { return t.SetMeta("test", "joined") },
				}, nil
			})
			if err != nil {
				return err
			}
			// The grant was for one time.
			c = call(1, "again", mercury.Once)
			c.Grants = []string{"gr_1"}
			if _, err := w.Do(ctx, c, func(context.Context) (StepResult, error) {
				t.Error("it ran under a grant that was used up")
				return StepResult{}, nil
			}); !errors.Is(err, store.ErrStale) {
				t.Errorf("used grant: %v", err)
			}
			refused := errors.New("rights changed")
			c = call(2, "no", mercury.Once)
			c.Begin = func(*Tx) error { return refused }
			if _, err := w.Do(ctx, c, done("x")); !errors.Is(err, refused) {
				t.Errorf("begin refused: %v", err)
			}
			return w.Settle(ctx, Outcome{}, nil)
		})
		if run.Usage != (mercury.Usage{Input: 10, Output: 5}) {
			t.Errorf("usage of the run = %+v", run.Usage)
		}
		equal(t, "entries", r.texts(place), "user: go", "tool_result: result")
		r.view(func(tx store.Tx) error {
			if v, err := tx.MetaValue("test"); err != nil || v != "joined" {
				t.Errorf("joined commit: %q, %v", v, err)
			}
			return nil
		})
	})
}

func TestTheTextOfACutStreamIsThereAfterAKill(t *testing.T) {
	h := sqliteHome(t)
	o := Options{Spool: filepath.Join(t.TempDir(), "spool")}
	streaming := make(chan bool, 1)
	var lives atomic.Int32
	left := make(chan string, 1)
	handler := func(ctx context.Context, w *Work) error {
		life := lives.Add(1)
		if life == 2 {
			left <- w.TakePartial()
		}
		c := StepCall{Round: 1, CallID: "model", Kind: "model", Effect: mercury.Read}
		if _, err := w.Do(ctx, c, func(ctx context.Context) (StepResult, error) {
			w.Partial("Once upon ")
			w.Partial("a time")
			if life == 1 {
				streaming <- true
				<-ctx.Done()
				return StepResult{}, ctx.Err()
			}
			return StepResult{}, nil
		}); err != nil {
			return err
		}
		if text := w.TakePartial(); text != "" {
			t.Errorf("after the step there is %q", text)
		}
		return w.Settle(ctx, Outcome{}, nil)
	}
	r := h.rig(t, o, func(e *Engine) { e.Handle("turn", handler) })
	r.settle()
	p := r.say("m1", "go")
	receive(t, streaming, "the stream")
	r.kill()
	r = h.rig(t, o, func(e *Engine) { e.Handle("turn", handler) })
	if got := receive(t, left, "the second life"); got != "Once upon a time" {
		t.Errorf("left over = %q", got)
	}
	r.untilRun(p.RunID, mercury.RunDone)
	if files, _ := filepath.Glob(filepath.Join(o.Spool, "*")); len(files) != 0 {
		t.Errorf("files remain: %v", files)
	}
}

func TestStepsOfOneRoundMayRunTogether(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		_, run := onRun(t, h, Options{}, func(ctx context.Context, w *Work) error {
			errs := make(chan error, 8)
			for i := range 8 {
				go func() {
					c := call(1, fmt.Sprintf("c%d", i), mercury.Once)
					_, err := w.Do(ctx, c, func(context.Context) (StepResult, error) {
						return StepResult{Usage: mercury.Usage{Input: 1}, Entries: []mercury.Entry{{Kind: mercury.ToolResultEntry}}}, nil
					})
					errs <- err
				}()
			}
			for range 8 {
				if err := <-errs; err != nil {
					return err
				}
			}
			return w.Settle(ctx, Outcome{}, nil)
		})
		if run.State != mercury.RunDone || run.Usage.Input != 8 {
			t.Errorf("run is %s, usage %+v", run.State, run.Usage)
		}
	})
}

func TestAnAnswerNamesTheEntryItShows(t *testing.T) {
	eachStore(t, func(t *testing.T, h *home) {
		r, run := onRun(t, h, Options{}, func(ctx context.Context, w *Work) error {
			if w.Run().Attempts == 0 {
				c := StepCall{Round: 1, CallID: "m", Kind: "model"}
				if _, err := w.Do(ctx, c, func(context.Context) (StepResult, error) {
					return StepResult{Entries: []mercury.Entry{{Kind: mercury.AssistantEntry, Text: "hello", RunID: w.Run().ID}, {Kind: mercury.NoteEntry}}}, nil
				}); err != nil {
					return err
				}
				// The next claim knows the entry only from the conversation.
				return &mercury.Error{Kind: mercury.Transient, After: 1, Err: errors.New("once more")}
			}
			return w.Settle(ctx, Outcome{Answer: []mercury.Delivery{{Address: place, Text: "hello"}}}, nil)
		})
		r.view(func(tx store.Tx) error {
			ds, err := tx.RecentAnswers(place, 1)
			if len(ds) != 1 || ds[0].EntrySeq != 2 || ds[0].RunID != run.ID {
				t.Errorf("answers = %+v", ds)
			}
			return err
		})
	})
}
