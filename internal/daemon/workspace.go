package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/mercury-agent/mercury/internal/store"
)

// workspaceFact names the workspace that the Mercury of a home used last.
func workspaceFact(node string) string { return "workspace/" + node }

// lostWorkspace says that the workspace of earlier days is gone, which an empty
// new one would hide; empty when that is not so.
func lostWorkspace(ctx context.Context, kept store.Store, node, workspace string, log *slog.Logger) (lost string, err error) {
	used := ""
	err = kept.View(ctx, func(tx store.Tx) (err error) {
		used, err = tx.MetaValue(workspaceFact(node))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read which workspace was used: %w", err)
	}
	if _, err := os.Stat(workspace); used == workspace && errors.Is(err, fs.ErrNotExist) {
		return fmt.Sprintf("the workspace %s is gone, and an empty one was made in its place. If it is on a disk that is not there now: "+
			"mercury stop, connect it, mercury start. What Mercury remembers is kept.", workspace), nil
	}
	if used == workspace {
		return "", nil
	}
	err = kept.Update(ctx, func(tx store.Tx) error { return tx.SetMeta(workspaceFact(node), workspace) })
	if err != nil { // a disk without room is said elsewhere; the next start writes it
		log.Warn("which workspace is used could not be kept", "err", err)
	}
	return "", nil
}
