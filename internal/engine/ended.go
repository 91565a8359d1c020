package engine

import "github.com/mercury-agent/mercury/internal/mercury"

// Ended names what joins the commit in which a run of a kind ends, however it
// does; of every kind when kind is empty. fn gets the run as it ended, with its conversation locked; it is pure
// but for the Tx, and cheap: somebody waits for the answer in that commit. Call
// it before Run.
func (e *Engine) Ended(kind string, fn func(*Tx, mercury.Run) error) { e.ended[kind] = fn }

// After calls fn once the transaction is committed. It must not block.
func (t *Tx) After(fn func()) { t.after = append(t.after, fn) }

// hasEnded calls what joins the end of r.
func (t *Tx) hasEnded(r mercury.Run) error {
	for _, kind := range []string{"", r.Kind} {
		if fn := t.e.ended[kind]; fn != nil {
			if err := fn(t, r); err != nil {
				return err
			}
		}
	}
	return nil
}
