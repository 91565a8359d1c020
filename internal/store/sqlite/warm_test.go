package sqlite

import (
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// TestTheFirstClaimFindsItsStatementsPrepared guards the list of queries that
// are prepared beforehand against changes of what a claim asks.
func TestTheFirstClaimFindsItsStatementsPrepared(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	defer s.Close()
	var before, after int
	err := s.Update(t.Context(), func(tx store.Tx) error {
		before = len(s.writer.stmts)
		id := "local/first"
		if err := tx.InsertConversation(mercury.Conversation{ID: id, Kind: "chat"}); err != nil {
			return err
		}
		if _, err := tx.LockConversation(id); err != nil {
			return err
		}
		if err := tx.InsertRun(mercury.Run{ID: mercury.NewID("run"), Kind: "turn", Lane: mercury.Chat, Key: id,
			ConversationID: id, State: mercury.RunQueued}); err != nil {
			return err
		}
		if _, err := tx.Append(id, mercury.Entry{Kind: mercury.UserEntry, Text: "hello"}); err != nil {
			return err
		}
		_, err := tx.Claim(store.Claim{Owner: "me", Lane: mercury.Chat})
		after = len(s.writer.stmts)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if after != before {
		t.Errorf("%d statements were prepared by the first message", after-before)
	}
}
