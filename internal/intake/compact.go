package intake

import (
	"errors"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/store"
)

// compact has the conversation shortened beside its work; what came of it is
// told when it has ended.
func compact(tx *engine.Tx, call Call) (Reply, error) {
	if _, err := agent.RequestCompaction(tx, call.Conversation, call.Args, call.Actor); err != nil {
		return Reply{}, err
	}
	return Reply{Text: "Shortening this conversation. You can go on meanwhile; I say when it is done."}, nil
}

// stopCompaction ends the shortening that a person asked for. The one in the
// background goes on.
func stopCompaction(tx *engine.Tx, call Call) (bool, error) {
	run, err := agent.Compaction(tx, call.Conversation)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if theirs(run, call.Actor) != nil {
		return false, nil // another person's stays
	}
	return true, tx.Cancel(run.ID, "stopped", call.Actor)
}
