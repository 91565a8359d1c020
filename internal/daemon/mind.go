package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/memory"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/soul"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// mind is how soul and memory reach a turn, and how turns are learned from.
type mind struct {
	soul  *soul.Files
	store store.Store
	zone  *time.Location
	model llm.Client
	log   *slog.Logger

	config func() *config.Config // in use
	book   func() budget.Book    // by it

	mu   sync.Mutex
	used map[string][]string // by run in hand: the memories its requests held
}

// shelf is what the tools of memory reach.
func (m *mind) shelf() memory.Shelf {
	return memory.Shelf{View: m.store.View, Update: m.store.Update}
}

// core is what a model is always told of, more what it finds.
func (m *mind) core() []tool.Tool { return []tool.Tool{m.shelf().Save()} }
func (m *mind) more() []tool.Tool {
	return []tool.Tool{m.shelf().Search(), m.shelf().History()}
}

// complete fills in a profile: who Mercury is, what it knows of the person, and
// behind everything that can be cached, what this request may need.
func (m *mind) complete(ctx context.Context, p *agent.Profile, run mercury.Run, c mercury.Conversation) error {
	scope := memory.ScopeOf(run.Actor, c.ID)
	var card memory.Card
	made := false // something is made here, so taste matters
	err := m.store.View(ctx, func(tx store.Tx) (err error) {
		if _, err := tx.MetaValue(tool.FolderKey(c.ID)); err == nil {
			made = true
		}
		if scope == "" {
			return nil
		}
		card, err = memory.ReadCard(tx, scope)
		return err
	})
	if err != nil {
		return fmt.Errorf("read what is known: %w", err)
	}
	p.System = m.soul.System()
	add := func(text string) {
		if text != "" {
			p.System = append(p.System, text)
		}
	}
	if made || run.Lane != mercury.Chat {
		add(m.soul.Section(soul.Taste))
	}
	if run.Actor.Role == mercury.Schedule || run.Lane == mercury.Cron {
		add(m.soul.Section(soul.Heartbeat))
	}
	add(card.Text)
	r := &recaller{mind: m, run: run.ID, scope: scope, card: card}
	p.Tail, p.Outside = r.tail, r.outside
	p.Aside = func(answer string, used []string) string {
		return memory.Unsaved(answer, slices.Contains(used, memory.SaveTool) || slices.Contains(used, "write_file") || slices.Contains(used, "edit_file"))
	}
	return nil
}

// recaller is the memory of one turn. The steps of a turn see the same
// memories until its person says more.
type recaller struct {
	mind  *mind
	run   string
	scope string
	card  memory.Card

	mu       sync.Mutex
	question string
	text     string
	taint    []string
}

func (r *recaller) outside() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taint
}

// tail is what a request says last: time and delivery facts, then memories.
func (r *recaller) tail(ctx context.Context, tx store.Tx, c mercury.Conversation) (string, error) {
	text, err := agent.Tail(ctx, tx, c)
	if err != nil || r.scope == "" {
		return text, err
	}
	question, err := asked(tx, r.run, c.ID)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if question != r.question {
		if err := r.recall(tx, question); err != nil {
			// An answer without memories is better than none.
			r.mind.log.Warn("recall", "run", r.run, "err", err)
			r.text, r.taint = "", nil
		}
		r.question = question
	}
	if r.text != "" {
		text += "\n" + r.text
	}
	return text, nil
}

func (r *recaller) recall(tx store.Tx, question string) error {
	found, err := memory.Recall(tx, r.scope, question)
	if err != nil {
		return err
	}
	found = slices.DeleteFunc(found, func(m memory.Recalled) bool { return slices.Contains(r.card.IDs, m.ID) })
	r.text, r.taint = memory.Section(found)
	ids := slices.Clone(r.card.IDs)
	for _, m := range found {
		ids = append(ids, m.ID)
	}
	r.mind.mu.Lock()
	defer r.mind.mu.Unlock()
	r.mind.used[r.run] = ids
	return nil
}

// asked is what a run is about: the last words of its person, with those
// before them where they are few.
func asked(tx store.Tx, run, conversation string) (string, error) {
	inputs, err := tx.RunInputs(run)
	if err != nil {
		return "", fmt.Errorf("read what was asked: %w", err)
	}
	var said []string
	for _, in := range inputs {
		said = append(said, in.Text)
	}
	if len(said) == 0 || len(strings.Fields(said[len(said)-1])) < 4 && len(said[len(said)-1]) < 24 {
		recent, err := tx.EntriesBefore(conversation, 0, 12)
		if err != nil {
			return "", fmt.Errorf("read what was asked: %w", err)
		}
		said = nil
		for _, e := range recent {
			if e.Kind == mercury.UserEntry {
				said = append(said, e.Text)
			}
		}
	}
	const last = 2
	question := strings.Join(said[max(0, len(said)-last):], "\n")
	if r := []rune(question); len(r) > 2000 {
		question = string(r[len(r)-2000:])
	}
	return question, nil
}

// ended makes a turn count towards the next lesson of its conversation, in the
// commit that ends it. It is one small row; learning itself is work of its own
// in the quiet lane.
func (m *mind) ended(tx *engine.Tx, run mercury.Run) error {
	m.mu.Lock()
	used := m.used[run.ID]
	delete(m.used, run.ID)
	m.mu.Unlock()
	if run.Kind != "turn" || run.ConversationID == "" {
		return nil
	}
	scope := memory.ScopeOf(run.Actor, run.ConversationID)
	if scope == "" || run.Actor.Role == mercury.BotRole {
		return nil
	}
	due := memory.Due{Conversation: run.ConversationID, Scope: scope}
	key := memory.LearnKey(run.ConversationID)
	queued, _, err := tx.Runs(store.RunFilter{Key: key, States: []mercury.RunState{mercury.RunQueued}, Page: store.Page{Limit: 1}})
	if err != nil {
		return fmt.Errorf("look for a lesson: %w", err)
	}
	if len(queued) > 0 {
		next, err := tx.LockRun(queued[0].ID)
		if err != nil {
			return fmt.Errorf("look at a lesson: %w", err)
		}
		if next.State == mercury.RunQueued && json.Unmarshal(next.Input, &due) == nil && due.Scope == scope {
			due.Count(run.ID, used)
			next.Input, next.NotBefore = encodeDue(due), lessonAt(tx.Now(), due.Turns)
			return tx.SaveRun(next)
		}
		due = memory.Due{Conversation: run.ConversationID, Scope: scope}
	}
	due.Count(run.ID, used)
	_, err = tx.Enqueue(engine.NewRun{Kind: "learn", Lane: mercury.Quiet, Key: key, Actor: run.Actor,
		Mandate: mercury.Mandate{Actor: run.Actor}, NotBefore: lessonAt(tx.Now(), due.Turns), Input: encodeDue(due)})
	if mercury.KindOf(err) == mercury.Full {
		return nil // lessons wait in plenty
	}
	return err
}

// lessonAt is when a lesson begins: at once after so many turns, else after a
// silence.
func lessonAt(now time.Time, turns int) time.Time {
	if turns >= memory.Standard.Batch {
		return now
	}
	return now.Add(memory.Standard.Quiet)
}

func encodeDue(d memory.Due) json.RawMessage {
	b, err := json.Marshal(d)
	if err != nil {
		panic("daemon: encode: " + err.Error()) // strings always encode
	}
	return b
}

// seed writes the soul's first files.
func (m *mind) seed() error {
	if err := m.soul.Seed(); err != nil {
		return &mercury.Error{Kind: mercury.Setup, Err: err, Help: "Make sure that the home's folder soul can be written."}
	}
	for _, note := range m.soul.Notes() {
		m.log.Warn("soul", "note", note)
	}
	return nil
}

// warm makes what is known findable before the first question, where an index
// has to catch up.
func (m *mind) warm(ctx context.Context) error {
	err := m.store.View(ctx, func(tx store.Tx) error {
		_, err := memory.Find(tx, memory.OwnerScope, "warm", 1)
		return err
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
		m.log.Warn("make memories findable", "err", err)
	}
	return nil
}
