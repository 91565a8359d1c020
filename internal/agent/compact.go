package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// CompactKind is the kind of the runs that shorten a conversation.
const CompactKind = "compact"

// When and how far a conversation is shortened, in tokens by estimate.
const (
	keepTokens  = 20_000        // of the newest turns stay as they are
	quietTokens = 32_768        // below that nothing is shortened unasked
	leastTokens = 200           // below that nothing is shortened at all
	quietAfter  = 6 * time.Hour // from the turn that let it grow
)

// How a compaction ends, as its run's result says.
const (
	Compacted     = "compacted"
	NothingToDo   = "nothing to do"
	CompactStale  = "stale"  // the conversation was shortened or begun afresh meanwhile
	CompactFailed = "failed" // and nothing was changed
)

// compaction is the input of such a run.
type compaction struct {
	Conversation string `json:"conversation"`
	Focus        string `json:"focus,omitempty"`
	ByHand       bool   `json:"by_hand,omitempty"`
}

// CompactResult is the result of such a run.
type CompactResult struct {
	Outcome    string `json:"outcome"`
	Before     int    `json:"before,omitempty"` // tokens by estimate of what was replaced
	After      int    `json:"after,omitempty"`  // and of what stands for it
	Mechanical bool   `json:"mechanical,omitempty"`
}

func compactKey(conversation string) string { return "compact/" + conversation }

// Compaction returns the live run that shortens a conversation because a person
// asked for it, or store.ErrNotFound.
func Compaction(tx store.Tx, conversation string) (mercury.Run, error) {
	list, err := compactions(tx, conversation)
	for _, r := range list {
		if decode[compaction](r.Input).ByHand {
			return r, nil
		}
	}
	if err == nil {
		err = store.ErrNotFound
	}
	return mercury.Run{}, err
}

func compactions(tx store.Tx, conversation string) ([]mercury.Run, error) {
	list, _, err := tx.Runs(store.RunFilter{Key: compactKey(conversation), Kind: CompactKind,
		States: []mercury.RunState{mercury.RunQueued, mercury.RunRunning, mercury.RunWaiting}, Page: store.Page{Limit: 10}})
	if err != nil {
		return nil, fmt.Errorf("look for a compaction: %w", err)
	}
	return list, nil
}

// RequestCompaction queues the shortening of a conversation at a person's word.
// It runs beside the conversation and answers there when it has ended. A
// mercury.Conflict means that one is under way.
func RequestCompaction(tx *engine.Tx, conversation, focus string, by mercury.Actor) (mercury.Run, error) {
	switch r, err := Compaction(tx, conversation); {
	case err == nil:
		return r, &mercury.Error{Kind: mercury.Conflict, Err: errors.New("this conversation is being shortened already"), Help: "/stop ends that."}
	case !errors.Is(err, store.ErrNotFound):
		return r, err
	}
	return tx.Enqueue(engine.NewRun{Kind: CompactKind, Lane: mercury.Quiet, Key: compactKey(conversation), Priority: 1,
		Actor: by, Mandate: mercury.Mandate{Actor: by, Destination: conversation},
		Input: encode(compaction{Conversation: conversation, Focus: focus, ByHand: true})})
}

// Grown queues the quiet shortening of a conversation whose turn has ended, six
// hours later, if its requests have become long. It joins the commit that ends
// the turn; a conversation that does not grow costs nothing.
func (a *Agent) Grown(tx *engine.Tx, run mercury.Run) error {
	if run.ConversationID == "" || run.Usage.Input < quietTokens/2 {
		return nil
	}
	live, err := compactions(tx, run.ConversationID)
	if err != nil || len(live) > 0 {
		return err
	}
	_, err = tx.Enqueue(engine.NewRun{Kind: CompactKind, Lane: mercury.Quiet, Key: compactKey(run.ConversationID),
		NotBefore: tx.Now().Add(quietAfter), Actor: run.Actor, Mandate: mercury.Mandate{Actor: run.Actor},
		Input: encode(compaction{Conversation: run.ConversationID})})
	if mercury.KindOf(err) == mercury.Full {
		return nil
	}
	return err
}

// shortening is one claimed run of kind "compact".
type shortening struct {
	agent   *Agent
	w       *engine.Work
	asked   compaction
	profile Profile
	entries []mercury.Entry // from the conversation's head on
	last    int64           // seq of the newest
}

// Compact is the handler of runs of kind "compact". The summary it has made is
// placed in one commit at the end of the conversation, and stands in requests
// for the entries it replaces; these stay stored, shown and findable. The
// conversation works on meanwhile. Where the model makes no summary, one asked
// for by hand is a mechanical cut; the quiet one leaves everything as it is.
func (a *Agent) Compact(ctx context.Context, w *engine.Work) error {
	s := &shortening{agent: a, w: w}
	if err := json.Unmarshal(w.Run().Input, &s.asked); err != nil {
		return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("read what to shorten: %w", err)}
	}
	if err := s.read(ctx); err != nil {
		return err
	}
	old, kept := split(s.entries, s.keep())
	before := weigh(old)
	if before < leastTokens || !s.asked.ByHand && before+weigh(kept) < s.quiet() {
		return s.settle(ctx, CompactResult{Outcome: NothingToDo}, mercury.Entry{})
	}
	if !s.asked.ByHand {
		if why, err := tight(ctx, w, s.profile); err != nil || why != "" {
			if err != nil {
				return err
			}
			return s.settle(ctx, CompactResult{Outcome: CompactFailed}, mercury.Entry{})
		}
	}
	s.publish("shortening")
	result := CompactResult{Outcome: Compacted, Before: before}
	text, err := summariser{agent: a, w: w, profile: s.profile, conversation: s.asked.Conversation, round: 1, focus: s.asked.Focus}.summarise(ctx, old)
	switch class := llm.ClassOf(err); {
	case err == nil:
	case ctx.Err() != nil || class == "" && !errors.Is(err, errNoSummary):
		return err
	case !s.asked.ByHand && waitable(class) && w.Run().Attempts+1 < attempts:
		return err
	case !s.asked.ByHand:
		a.opts.Log.Warn("a conversation was not shortened", "conversation", s.asked.Conversation, "err", err)
		return s.settle(ctx, CompactResult{Outcome: CompactFailed}, mercury.Entry{})
	default:
		a.opts.Log.Info("a conversation is cut without a summary", "conversation", s.asked.Conversation, "err", err)
		text, result.Mechanical = mechanical(old), true
	}
	result.After = llm.EstimateText(text)
	if result.After >= before {
		return s.settle(ctx, CompactResult{Outcome: NothingToDo}, mercury.Entry{})
	}
	return s.settle(ctx, result, mercury.Entry{Kind: mercury.SummaryEntry, RunID: w.Run().ID, Text: text,
		Data: encode(noteData{Through: old[len(old)-1].Seq}), Taint: taintOf(old, w.Run().Actor)})
}

func (s *shortening) read(ctx context.Context) error {
	var c mercury.Conversation
	err := s.w.View(ctx, func(tx store.Tx) (err error) {
		if c, err = tx.Conversation(s.asked.Conversation); err != nil {
			return err
		}
		s.entries, err = tx.Entries(c.ID, max(c.Head-1, 0), 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("read what to shorten: %w", err)
	}
	for _, e := range s.entries {
		s.last = e.Seq
	}
	s.profile, err = s.agent.profile(ctx, s.w, s.w.Run(), c)
	return err
}

// keep is how much of the newest turns stays: by hand the better part goes
// even of a short talk.
func (s *shortening) keep() int {
	keep := min(keepTokens, s.profile.Window/4)
	if s.asked.ByHand {
		keep = min(keep, weigh(s.entries)/3)
	}
	return keep
}

// quiet is the size from which a conversation is shortened unasked.
func (s *shortening) quiet() int { return min(quietTokens, s.profile.Window/2) }

func (s *shortening) publish(step string) {
	s.w.Publish(engine.Event{Type: "phase", ConversationID: s.asked.Conversation, RunID: s.w.Run().ID, Data: Phase{Step: step}})
}

// settle places the summary, if there is one and it is not stale, and tells who
// asked for it.
func (s *shortening) settle(ctx context.Context, result CompactResult, summary mercury.Entry) error {
	err := s.w.Settle(ctx, engine.Outcome{Result: encode(result)}, func(tx *engine.Tx) error {
		if summary.Kind != "" {
			if _, err := tx.LockConversation(s.asked.Conversation); err != nil {
				return err
			}
			if err := s.current(tx); err != nil {
				return err
			}
			if err := place(tx, s.asked.Conversation, summary); err != nil {
				return err
			}
		}
		if !s.asked.ByHand {
			return nil
		}
		_, _, err := tx.Emit(mercury.Delivery{Address: s.asked.Conversation, ConversationID: s.asked.Conversation, RunID: s.w.Run().ID,
			RequestID: "compact/" + s.w.Run().ID, Kind: mercury.NoticeDelivery, Text: sayCompacted(result)})
		return err
	})
	if errors.Is(err, errStale) {
		return s.settle(ctx, CompactResult{Outcome: CompactStale}, mercury.Entry{})
	}
	return err
}

// errStale says that a summary stands for what nobody looks at any more.
var errStale = errors.New("the conversation was shortened or begun afresh meanwhile")

// place appends a summary and moves the conversation's head behind what it
// stands for.
func place(tx *engine.Tx, conversation string, summary mercury.Entry) error {
	if _, err := tx.Append(conversation, summary); err != nil {
		return err
	}
	return moveHead(tx, conversation, data[noteData](summary).Through+1)
}

// current returns errStale if the conversation was begun afresh or shortened
// since it was read. It is locked.
func (s *shortening) current(tx *engine.Tx) error {
	fresh, err := tx.Entries(s.asked.Conversation, s.last, 0)
	if err != nil {
		return fmt.Errorf("read what came meanwhile: %w", err)
	}
	for _, e := range fresh {
		if e.Kind == mercury.ResetEntry || e.Kind == mercury.SummaryEntry && !e.Hidden {
			return errStale
		}
	}
	return nil
}

// split divides what a model sees of a conversation where a turn begins: the
// newest turns, of keep tokens together or one at least, and all before.
func split(entries []mercury.Entry, keep int) (old, newest []mercury.Entry) {
	shown, stubs := visible(entries)
	b := builder{stubs: stubs}
	at, spent := 0, 0
	for i, e := range slices.Backward(shown) {
		spent += b.weight(e)
		begins := e.Kind == mercury.UserEntry && (i == 0 || shown[i-1].Kind != mercury.UserEntry || shown[i-1].RunID != e.RunID) && first(shown, i)
		if begins && (at == 0 || spent <= keep) {
			at = i
		}
		if spent > keep && at > 0 {
			break
		}
	}
	return shown[:at], shown[at:]
}

// first reports whether the run of entry i has no entry before it, so that
// nothing of it is divided.
func first(shown []mercury.Entry, i int) bool {
	run := shown[i].RunID
	return run == "" || !slices.ContainsFunc(shown[:i], func(e mercury.Entry) bool { return e.RunID == run })
}

// weigh guesses the tokens of entries.
func weigh(entries []mercury.Entry) int {
	var b builder
	sum := 0
	for _, e := range entries {
		sum += b.weight(e)
	}
	return sum
}

// Sizes of a mechanical cut.
const (
	cutWords = 20  // of what people said last
	cutLine  = 160 // characters of each
)

// mechanical stands for entries where no model has made a summary: what an
// earlier one said, and the beginnings of what people asked for last.
func mechanical(entries []mercury.Entry) string {
	var earlier string
	var said []string
	for _, e := range entries {
		switch e.Kind {
		case mercury.SummaryEntry:
			earlier = e.Text + "\n\n"
		case mercury.UserEntry:
			said = append(said, "- "+preview(userText(e), cutLine))
		}
	}
	said = said[max(0, len(said)-cutWords):]
	return strings.TrimSpace(earlier + tellCut + " Said before, the latest last:\n" + strings.Join(said, "\n"))
}
