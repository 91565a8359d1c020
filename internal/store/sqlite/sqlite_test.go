package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
	"github.com/mercury-agent/mercury/internal/store/storetest"
)

func open(t testing.TB, dir string) store.Store {
	t.Helper()
	s, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestWhatWasCommittedIsThereAfterAReopening(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	ctx := context.Background()
	run := mercury.Run{ID: mercury.NewID("run"), Kind: "turn", Lane: mercury.Chat, ConversationID: "local/a",
		State: mercury.RunQueued, CreatedAt: time.Now()}
	err := s.Update(ctx, func(tx store.Tx) error {
		if err := tx.InsertConversation(mercury.Conversation{ID: "local/a"}); err != nil {
			return err
		}
		if _, err := tx.Append("local/a", mercury.Entry{Text: "hello", Kind: mercury.UserEntry}); err != nil {
			return err
		}
		return tx.InsertRun(run)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Update(ctx, func(store.Tx) error { return nil }); !errors.Is(err, store.ErrClosed) {
		t.Errorf("update after close = %v, want ErrClosed", err)
	}
	s = open(t, dir)
	err = s.Update(ctx, func(tx store.Tx) error {
		got, err := tx.Claim(store.Claim{Owner: "p", Lane: mercury.Chat})
		if err == nil && (got.ID != run.ID || got.Epoch != 1 || got.State != mercury.RunRunning) {
			t.Errorf("claimed %+v", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(ctx)
	if err != nil || info.Schema != len(sqlstore.SQLite.Migrations()) || info.Rows["entry"] != 1 {
		t.Errorf("info = %+v, %v", info, err)
	}
}

func TestSQLiteKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Home {
		dir := t.TempDir()
		return storetest.Home{Open: func(t *testing.T) store.Store { return open(t, dir) }}
	})
}
