package engine

import (
	"fmt"
	"slices"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// Cancel asks for the end of a run and of its children, but for detached
// ones. A run in nobody's hand ends as stopped in this commit; one in hand
// ends as soon as its handler obeys, and its writes are refused from now on.
// Its inputs stay unanswered, its questions are withdrawn, and what waits in
// its conversation starts a successor. A run that has ended is a
// mercury.Conflict: settling came first.
func (t *Tx) Cancel(runID, reason string, by mercury.Actor) error {
	if reason == "" {
		reason = ReasonStopped
	}
	tree, err := t.family(runID)
	if err != nil {
		return fmt.Errorf("cancel run %s: %w", runID, err)
	}
	if err := t.lockFamily(tree); err != nil {
		return fmt.Errorf("cancel run %s: %w", runID, err)
	}
	top, err := t.LockRun(runID)
	if err != nil {
		return fmt.Errorf("cancel run %s: %w", runID, err)
	}
	if !top.State.Live() {
		return &mercury.Error{Kind: mercury.Conflict, Help: "It has ended already.",
			Err: fmt.Errorf("cancel run %s: it is %s", runID, top.State)}
	}
	if err := t.Audit(store.AuditRow{ID: mercury.NewID("au"), At: t.Now(), Actor: by, Act: "cancel",
		Subject: runID, Detail: reason}); err != nil {
		return err
	}
	// Marks go down the tree before anything ends, so that no child's end
	// wakes a parent that is about to end itself.
	var idle []mercury.Run
	for _, m := range tree {
		r, err := t.LockRun(m.ID)
		if err != nil {
			return err
		}
		if !r.State.Live() || r.Cancel != "" {
			continue
		}
		r.Cancel = reason
		if err := t.SaveRun(r); err != nil {
			return err
		}
		if r.State == mercury.RunRunning {
			t.cancels = append(t.cancels, r.ID)
		} else {
			idle = append(idle, r)
		}
	}
	for _, r := range idle {
		if err := t.end(&r, ending{state: mercury.RunStopped, reason: reason}); err != nil {
			return err
		}
	}
	return nil
}

// family lists a run and its live descendants, parents before children,
// leaving out detached ones and what descends from them.
func (t *Tx) family(runID string) ([]mercury.Run, error) {
	top, err := t.Run(runID)
	if err != nil {
		return nil, err
	}
	tree := []mercury.Run{top}
	for i := 0; i < len(tree); i++ {
		children, err := t.Children(tree[i].ID)
		if err != nil {
			return nil, err
		}
		for _, c := range children {
			if c.State.Live() && !c.Detached {
				tree = append(tree, c)
			}
		}
	}
	return tree, nil
}

// lockFamily locks all conversations of a tree, then its runs.
func (t *Tx) lockFamily(tree []mercury.Run) error {
	var conversations []string
	for _, r := range tree {
		if r.ConversationID != "" {
			conversations = append(conversations, r.ConversationID)
		}
	}
	slices.Sort(conversations)
	for _, id := range slices.Compact(conversations) {
		if _, err := t.LockConversation(id); err != nil {
			return err
		}
	}
	if parent := tree[0].ParentID; parent != "" {
		if _, err := found(t.lockOnly(parent)); err != nil {
			return err
		}
	}
	for _, r := range tree {
		if err := t.lockOnly(r.ID); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tx) lockOnly(runID string) error {
	_, err := t.LockRun(runID)
	return err
}
