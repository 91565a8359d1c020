package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
)

var _ store.Portable = (*Store)(nil)

// carrier is a transaction over whole tables, and the files beside it.
type carrier struct {
	*sqlstore.Tx
	ctx   context.Context
	blobs blobs
}

// Export reads everything on one snapshot. Contents are files that are never
// changed: as long as nothing is swept they belong to the snapshot.
func (s *Store) Export(ctx context.Context, fn func(store.Reader) error) error {
	return s.View(ctx, func(tx store.Tx) error { return fn(carrier{tx.(*sqlstore.Tx), ctx, s.blobs}) })
}

// Import writes everything in one transaction, contents before their rows.
func (s *Store) Import(ctx context.Context, fn func(store.Writer) error) error {
	return s.Update(ctx, func(tx store.Tx) error { return fn(carrier{tx.(*sqlstore.Tx), ctx, s.blobs}) })
}

func (c carrier) PutContent(_ string, content []byte) error {
	_, err := c.blobs.Put(c.ctx, content)
	return err
}

func (c carrier) Contents(each func(ref string, content []byte) error) error {
	err := filepath.WalkDir(c.blobs.root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && path != c.blobs.root && len(d.Name()) != 2:
			return fs.SkipDir // other folders of a home's files
		case d.IsDir() || !refShape.MatchString(d.Name()) || filepath.Base(filepath.Dir(path)) != d.Name()[:2]:
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return each(d.Name(), content)
	})
	if err != nil {
		return fmt.Errorf("read contents: %w", osError(err))
	}
	return nil
}
