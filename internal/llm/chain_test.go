package llm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mercury-agent/mercury/internal/llm"
)

// scripted is a model whose calls return errs in turn, nil meaning an answer.
type scripted struct {
	errs  []error
	asked []llm.Request
	text  string // shown before each outcome
	stall time.Duration
}

func (s *scripted) Stream(ctx context.Context, req llm.Request, show func(llm.Event)) (llm.Response, error) {
	s.asked = append(s.asked, req)
	if s.stall > 0 {
		select {
		case <-ctx.Done():
			class := llm.Canceled
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				class = llm.TimeoutTotal
			}
			return llm.Response{}, &llm.Error{Class: class, Err: ctx.Err()}
		case <-time.After(s.stall):
		}
	}
	res := llm.Response{Finish: llm.Stop, Usage: llm.Usage{Input: 10, Output: 1}}
	if s.text != "" {
		show(llm.Event{Kind: llm.TextDelta, Text: s.text})
		res.Parts = []llm.Part{{Kind: llm.Text, Text: s.text}}
	}
	if n := len(s.asked); n <= len(s.errs) && s.errs[n-1] != nil {
		res.Finish = ""
		return res, s.errs[n-1]
	}
	return res, nil
}

func fails(class llm.Class) error { return &llm.Error{Class: class, Message: string(class) + " words"} }

func times(n int, err error) []error {
	list := make([]error, n)
	for i := range list {
		list[i] = err
	}
	return list
}

func chain(opts llm.ChainOptions, clients ...*scripted) *llm.Chain {
	opts.Jitter = func() float64 { return 0 }
	names := []string{"first", "second", "third"}
	var models []llm.Model
	for i, c := range clients {
		models = append(models, llm.Model{Provider: names[i], Name: "m" + names[i], Client: c})
	}
	return llm.NewChain(models, opts)
}

func TestEachClassGoesWhereItsCureIs(t *testing.T) {
	for _, tt := range []struct {
		class         llm.Class
		first, second int // calls
		answered      bool
		took          time.Duration
	}{
		{llm.RateLimit, 3, 1, true, 1500 * time.Millisecond},
		{llm.Unavailable, 3, 1, true, 1500 * time.Millisecond},
		{llm.StreamCut, 3, 1, true, 1500 * time.Millisecond},
		{llm.Malformed, 3, 1, true, 1500 * time.Millisecond},
		{llm.TimeoutIdle, 3, 1, true, 1500 * time.Millisecond},
		{llm.Empty, 2, 1, true, 500 * time.Millisecond},
		{llm.Auth, 1, 1, true, 0},
		{llm.Quota, 1, 1, true, 0},
		{llm.UnknownModel, 1, 1, true, 0},
		{llm.TimeoutTotal, 1, 1, true, 0},
		{llm.ContextLength, 1, 0, false, 0},
		{llm.BadRequest, 1, 0, false, 0},
		{llm.ContentFiltered, 1, 0, false, 0},
	} {
		t.Run(string(tt.class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := &scripted{errs: times(9, fails(tt.class))}
				second := &scripted{}
				began := time.Now()
				res, err := chain(llm.ChainOptions{}, first, second).Stream(t.Context(), llm.Request{}, nil)
				if len(first.asked) != tt.first || len(second.asked) != tt.second {
					t.Errorf("asked %d and %d times, want %d and %d", len(first.asked), len(second.asked), tt.first, tt.second)
				}
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				if tt.answered != (err == nil) {
					t.Fatalf("error %v", err)
				}
				if len(res.Failed) != tt.first || len(res.Skipped) != 1 || res.Skipped[0].Class != tt.class || res.Skipped[0].Reason == "" {
					t.Errorf("failed %+v, skipped %+v", res.Failed, res.Skipped)
				}
				if tt.answered && (!res.Fallback || res.Provider != "second" || res.Model != "msecond" || res.Attempts != tt.first+1) {
					t.Errorf("answer %+v", res)
				}
				if !tt.answered && llm.ClassOf(err) != tt.class {
					t.Errorf("class %s", llm.ClassOf(err))
				}
			})
		})
	}
}

func TestRetryAfterIsHonouredUpToABound(t *testing.T) {
	for _, tt := range []struct {
		after, took time.Duration
		provider    string
	}{
		{7 * time.Second, 7 * time.Second, "first"},
		{100 * time.Millisecond, 500 * time.Millisecond, "first"}, // never sooner than our own delay
		{2 * time.Minute, 0, "second"},
	} {
		synctest.Test(t, func(t *testing.T) {
			first := &scripted{errs: []error{&llm.Error{Class: llm.RateLimit, RetryAfter: tt.after}}}
			c := chain(llm.ChainOptions{}, first, &scripted{})
			began := time.Now()
			res, err := c.Stream(t.Context(), llm.Request{}, nil)
			if err != nil || res.Provider != tt.provider || time.Since(began) != tt.took {
				t.Errorf("after %v: %s in %v, %v", tt.after, res.Provider, time.Since(began), err)
			}
			// While a long limit lasts, the model is not asked at all.
			if tt.provider == "second" {
				if res, _ := c.Stream(t.Context(), llm.Request{}, nil); res.Provider != "second" || len(first.asked) != 1 {
					t.Errorf("asked %d times during the pause", len(first.asked))
				}
				time.Sleep(tt.after)
				if res, _ := c.Stream(t.Context(), llm.Request{}, nil); res.Provider != "first" || res.Fallback {
					t.Errorf("the first model does not lead again: %+v", res)
				}
			}
		})
	}
}

func TestARefusedKeyIsNotKnockedAtForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &scripted{errs: times(1000, &llm.Error{Class: llm.Auth, Status: 401, Message: "bad key"})}
		breaker := llm.NewBreaker()
		c := chain(llm.ChainOptions{Breaker: breaker}, first)
		for range 24 * 60 { // a background job each minute of a day
			_, err := c.Stream(t.Context(), llm.Request{}, nil)
			var e *llm.Error
			if !errors.As(err, &e) || e.Class != llm.Auth || e.Message != "bad key" {
				t.Fatalf("%v", err)
			}
			time.Sleep(time.Minute)
		}
		if n := len(first.asked); n > 12 {
			t.Errorf("asked %d times a day", n)
		}
		n := len(first.asked)
		if _, err := c.Stream(t.Context(), llm.Request{Insist: true}, nil); err == nil || len(first.asked) != n+1 {
			t.Errorf("a person who insists was not heard")
		}
		breaker.Resume("first")
		first.errs = nil
		if _, err := c.Stream(t.Context(), llm.Request{}, nil); err != nil {
			t.Errorf("after Resume: %v", err)
		}
	})
}

func TestAForbiddenModelLeavesTheOthersOfItsProvider(t *testing.T) {
	dear := &scripted{errs: times(9, &llm.Error{Class: llm.Auth, Status: 403})}
	cheap := &scripted{}
	c := llm.NewChain([]llm.Model{{Provider: "p", Name: "dear", Client: dear}, {Provider: "p", Name: "cheap", Client: cheap}}, llm.ChainOptions{})
	for range 3 {
		if res, err := c.Stream(t.Context(), llm.Request{}, nil); err != nil || res.Model != "cheap" {
			t.Errorf("%+v %v", res, err)
		}
	}
	if len(dear.asked) != 1 {
		t.Errorf("the forbidden model was asked %d times", len(dear.asked))
	}
}

func TestWhenAllFailTheLeadingModelsTroubleIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &scripted{errs: times(9, fails(llm.Unavailable)), text: "half an "}
		second := &scripted{errs: times(9, fails(llm.BadRequest))}
		third := &scripted{errs: times(9, fails(llm.Auth))}
		res, err := chain(llm.ChainOptions{}, first, second, third).Stream(t.Context(), llm.Request{}, nil)
		if llm.ClassOf(err) != llm.Unavailable || len(res.Skipped) != 3 || res.Attempts != 5 {
			t.Errorf("%v, %+v", err, res)
		}
		if res.Text() != "half an " || res.Finish != "" {
			t.Errorf("what arrived is lost: %+v", res)
		}
		total := 0
		for _, f := range res.Failed {
			total += f.Usage.Input
		}
		if total+res.Usage.Input != 50 {
			t.Errorf("the ledger holds %d of 50 tokens", total+res.Usage.Input)
		}
	})
}

func TestAFallbackThatNeedsAShorterRequestSaysSo(t *testing.T) {
	c := chain(llm.ChainOptions{}, &scripted{errs: times(9, fails(llm.Quota))}, &scripted{errs: times(9, fails(llm.ContextLength))})
	if _, err := c.Stream(t.Context(), llm.Request{}, nil); llm.ClassOf(err) != llm.ContextLength {
		t.Errorf("%v", err)
	}
}

func TestWhatWasShownIsTakenBackBeforeAnotherTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := &scripted{errs: []error{fails(llm.StreamCut)}, text: "word "}
		var seen []string
		_, err := chain(llm.ChainOptions{}, first).Stream(t.Context(), llm.Request{}, func(ev llm.Event) {
			if ev.Kind == llm.Restart {
				seen = append(seen, "restart:"+ev.Text)
				return
			}
			seen = append(seen, ev.Text)
		})
		if got := strings.Join(seen, "|"); err != nil || got != "word |restart:stream_cut|word " {
			t.Errorf("%s, %v", got, err)
		}
	})
}

func TestCancelEndsTheWaitBetweenTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		began := time.Now()
		first, second := &scripted{errs: times(9, fails(llm.Unavailable))}, &scripted{}
		_, err := chain(llm.ChainOptions{}, first, second).Stream(ctx, llm.Request{}, nil)
		if llm.ClassOf(err) != llm.Canceled || time.Since(began) != 100*time.Millisecond || len(second.asked) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestACallThatNeverEndsGivesWayToTheNextModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res, err := chain(llm.ChainOptions{Limit: time.Minute}, &scripted{stall: time.Hour}, &scripted{}).Stream(t.Context(), llm.Request{}, nil)
		if err != nil || res.Provider != "second" || res.Skipped[0].Class != llm.TimeoutTotal {
			t.Errorf("%+v %v", res, err)
		}
	})
}

func TestForeignReasoningIsLeftOutOnce(t *testing.T) {
	first := &scripted{errs: times(9, fails(llm.ForeignReasoning))}
	req := llm.Request{Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Kind: llm.Text, Text: "hi"}}},
		{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.Reasoning, Text: "x", Signature: "s"}, {Kind: llm.Text, Text: "y"}}},
	}}
	_, err := chain(llm.ChainOptions{}, first).Stream(t.Context(), req, nil)
	if llm.ClassOf(err) != llm.ForeignReasoning || len(first.asked) != 2 {
		t.Fatalf("asked %d times, %v", len(first.asked), err)
	}
	if parts := first.asked[1].Messages[1].Parts; len(parts) != 1 || parts[0].Kind != llm.Text {
		t.Errorf("sent again with %+v", parts)
	}
	if len(req.Messages[1].Parts) != 2 {
		t.Error("the caller's request was changed")
	}
}

func TestAnEmptyChainSaysThatNoModelIsConfigured(t *testing.T) {
	if _, err := llm.NewChain(nil, llm.ChainOptions{}).Stream(t.Context(), llm.Request{}, nil); llm.ClassOf(err) != llm.Auth {
		t.Errorf("%v", err)
	}
}
