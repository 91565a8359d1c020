package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// shape is a request made to fit the window, with the marks that say what was
// left out for it. The marks are stored with the step, so that the next
// request is the same up to there.
type shape struct {
	level   int
	request llm.Request
	size    int // estimated input tokens
	marks   []mercury.Entry
	head    int64 // where the conversation's head moves to; 0: it stays
}

// How far a request can be shortened.
const (
	levelWhole = iota // all of it
	levelStubs        // outputs of older rounds become stubs
	levelTurns        // and only the newest turns stay, in half the window
	levelBare         // and only the newest round, its outputs cut, in a quarter
)

// How full a window may be, in percent: shortening begins early, so that a
// long talk does not fail late, and goes on until there is room for several
// rounds, so that it is not done again at each.
const (
	fullFrom = 80
	fullTo   = 65
)

// fit builds the request at the given level, or at the next one that leaves
// room enough and, if below is not 0, is smaller than that. Where no level
// leaves room enough, one that fits at all will do. The error means that
// nothing left can be taken away.
func (t *turn) fit(level, below int) (shape, error) {
	answer := min(t.profile.MaxOutput, t.profile.Window/4)
	room := t.profile.Window - t.profile.Window/50 - answer
	var fits []shape
	for ; level <= levelBare; level++ {
		s := t.shape(level)
		s.request.MaxTokens = answer
		if s.size > room || below > 0 && s.size >= below {
			continue
		}
		full := fullTo
		if level == levelWhole {
			full = fullFrom
		}
		if s.size <= t.profile.Window*full/100 {
			return s, nil
		}
		fits = append(fits, s)
	}
	if len(fits) == 0 {
		return shape{}, &llm.Error{Class: llm.ContextLength, Limit: t.profile.Window, Model: modelID(t.profile.ModelName)}
	}
	// The one before the deepest cut, if there is one: what is in hand
	// matters more than room.
	slices.Reverse(fits)
	for _, s := range fits {
		if s.level != levelBare {
			return s, nil
		}
	}
	return fits[0], nil
}

func (t *turn) shape(level int) shape {
	s := shape{level: level}
	entries := t.entries
	mark := func(e mercury.Entry) {
		s.marks = append(s.marks, e)
		e.ConversationID, e.Seq = t.run.ConversationID, t.last+int64(len(s.marks))
		entries = append(slices.Clone(entries), e)
	}
	if level >= levelStubs {
		if through := t.olderThanNewestRound(); t.shortens(through) {
			m := note(t.run.ID, noteStubs, tellStubs)
			m.Data = encode(noteData{Kind: noteStubs, Through: through})
			mark(m)
		}
	}
	if level >= levelTurns {
		budget := t.profile.Window / 2
		if level == levelBare {
			budget = t.profile.Window / 4
			m := note(t.run.ID, noteStubs, tellStubs)
			m.Data = encode(noteData{Kind: noteStubs, Through: t.last, Max: budget / max(1, len(t.newestResults()))})
			mark(m)
		}
		if m, head, ok := t.cut(entries, budget, level); ok {
			mark(m)
			s.head = head
		}
	}
	s.request = build(entries, t.profile, t.tail, t.run.Mandate.Tools, t.origins())
	s.size = t.agent.estimator.Request(s.request)
	return s
}

// origins names the models that answered in this run: their thinking belongs
// to the calls whose results they wait for.
func (t *turn) origins() []string {
	var names []string
	for _, e := range t.entries {
		if e.RunID == t.run.ID && e.Kind == mercury.AssistantEntry {
			if m := data[assistantData](e).Model; m != "" && !slices.Contains(names, m) {
				names = append(names, m)
			}
		}
	}
	return names
}

// newestResults are the results the model has not seen yet, or those of the
// newest round.
func (t *turn) newestResults() []mercury.Entry {
	var results []mercury.Entry
	for _, e := range slices.Backward(t.entries) {
		if e.Kind == mercury.AssistantEntry && !e.Hidden {
			break
		}
		if e.Kind == mercury.ToolResultEntry {
			results = append(results, e)
		}
	}
	return results
}

// olderThanNewestRound is the seq before the newest answer.
func (t *turn) olderThanNewestRound() int64 {
	for _, e := range slices.Backward(t.entries) {
		if e.Kind == mercury.AssistantEntry && !e.Hidden {
			return e.Seq - 1
		}
	}
	return 0
}

// shortens reports whether stubs up to through would take anything away.
func (t *turn) shortens(through int64) bool {
	shown, marks := visible(t.entries)
	for _, m := range marks {
		if m.Max == 0 && m.Through >= through {
			return false
		}
	}
	return slices.ContainsFunc(shown, func(e mercury.Entry) bool {
		return e.Kind == mercury.ToolResultEntry && e.Seq <= through && len(data[resultData](e).Result) > stubFrom
	})
}

// cut leaves out the oldest entries until the rest is about budget tokens. It
// cuts where a person spoke if it can, else before an answer, and keeps what
// people said in this run. What an earlier summary says is carried on.
func (t *turn) cut(entries []mercury.Entry, budget, level int) (mark mercury.Entry, head int64, ok bool) {
	shown, stubs := visible(entries)
	b := builder{stubs: stubs}
	spent, at := 0, len(shown)
	for i, e := range slices.Backward(shown) {
		spent += b.weight(e)
		if spent > budget {
			break
		}
		at = i
	}
	at = boundary(shown, at, level)
	if at <= 0 || at >= len(shown) {
		return mark, 0, false
	}
	through := shown[at].Seq - 1
	d := noteData{Through: through}
	head = through + 1
	text := cmp.Or(t.summary, tellCut)
	for _, e := range shown {
		switch {
		case e.Kind == mercury.SummaryEntry && e.Text != tellCut && t.summary == "":
			text = e.Text
		case e.Kind == mercury.UserEntry && e.RunID == t.run.ID && e.Seq <= through:
			d.Keep = append(d.Keep, e.Seq)
			head = min(head, e.Seq)
		}
	}
	mark = mercury.Entry{Kind: mercury.SummaryEntry, RunID: t.run.ID, Text: text, Data: encode(d), Taint: t.taint()}
	return mark, head, true
}

// summarised puts a summary in the place of what a request that is too long
// leaves out. A turn asks for one in front of a request, never after a
// refusal, and goes on without it when the model has none to give.
func (t *turn) summarised(ctx context.Context, round int, s shape) (shape, error) {
	if s.head == 0 {
		return s, nil
	}
	cut := data[noteData](s.marks[len(s.marks)-1])
	shown, _ := visible(t.entries)
	out := slices.DeleteFunc(shown, func(e mercury.Entry) bool { return e.Seq > cut.Through || slices.Contains(cut.Keep, e.Seq) })
	if weigh(out) < leastTokens {
		return s, nil
	}
	t.phase("shortening", "")
	text, err := summariser{agent: t.agent, w: t.w, profile: t.profile, conversation: t.run.ConversationID, round: round}.summarise(ctx, out)
	switch {
	case err == nil:
	case ctx.Err() != nil || llm.ClassOf(err) == "" && !errors.Is(err, errNoSummary):
		return s, err
	default:
		t.agent.opts.Log.Info("a conversation is cut without a summary", "conversation", t.run.ConversationID, "err", err)
		text = mechanical(out)
	}
	t.summary = text
	defer func() { t.summary = "" }()
	return t.fit(s.level, 0)
}

// boundary moves a cut to where a turn begins, or a round when only that
// leaves anything, never past the newest answer and what follows it.
func boundary(shown []mercury.Entry, at, level int) int {
	newest := len(shown)
	for i, e := range slices.Backward(shown) {
		if e.Kind == mercury.AssistantEntry {
			newest = i
			break
		}
	}
	at = min(at, newest)
	if level < levelBare {
		for i := at; i < newest; i++ {
			if shown[i].Kind == mercury.UserEntry {
				return i
			}
		}
	}
	for i := at; i < len(shown); i++ {
		if k := shown[i].Kind; k == mercury.UserEntry || k == mercury.AssistantEntry {
			return i
		}
	}
	return at
}

// weight guesses the tokens of an entry.
func (b *builder) weight(e mercury.Entry) int {
	switch e.Kind {
	case mercury.ToolResultEntry:
		return llm.EstimateText(b.shorten(e.Seq, data[resultData](e).Result))
	case mercury.ToolCallEntry:
		return len(e.Data) / 3
	case mercury.AssistantEntry:
		parts := data[assistantData](e).Parts
		n := llm.EstimateText(e.Text)
		for _, p := range parts {
			if p.Kind == llm.Reasoning {
				n += llm.EstimateText(p.Text) + len(p.Raw)/4
			}
		}
		return n
	}
	return llm.EstimateText(e.Text)
}
