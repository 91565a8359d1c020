package engine

import "github.com/mercury-agent/mercury/internal/mercury"

// Ended names what joins the commit in which a run of a kind ends, however it
// does. fn gets the run as it ended, with its conversation locked; it is pure
// but for the Tx. Call it before Run.
func (e *Engine) Ended(kind string, fn func(*Tx, mercury.Run) error) { e.ended[kind] = fn }

// After calls fn once the transaction is committed. It must not block.
func (t *Tx) After(fn func()) { t.after = append(t.after, fn) }

// hasEnded calls what joins the end of r.
func (t *Tx) hasEnded(r mercury.Run) error {
	if fn := t.e.ended[r.Kind]; fn != nil {
		return fn(t, r)
	}
	return nil
}
