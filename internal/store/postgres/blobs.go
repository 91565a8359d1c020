package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlstore"
)

// blobs are rows: every process must find them.
type blobs struct{ s *Store }

// Blobs keeps large contents as rows.
func (s *Store) Blobs() store.Blobs { return blobs{s} }

func (b blobs) Put(ctx context.Context, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	ref := hex.EncodeToString(sum[:])
	if content == nil {
		content = []byte{}
	}
	err := b.s.Update(ctx, func(tx store.Tx) error { return tx.(*sqlstore.Tx).PutBlob(ref, content) })
	if err != nil {
		return "", fmt.Errorf("keep blob: %w", err)
	}
	return ref, nil
}

func (b blobs) Open(ctx context.Context, ref string) (io.ReadCloser, error) {
	var content []byte
	err := b.s.View(ctx, func(tx store.Tx) (err error) {
		content, err = tx.(*sqlstore.Tx).Blob(ref)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open blob %.80q: %w", ref, err)
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// Sweep goes through the old ones in pages; one that is put again meanwhile
// stays.
func (b blobs) Sweep(ctx context.Context, before time.Time, keep func(ref string) bool) (int, error) {
	removed, after := 0, ""
	for {
		var refs []string
		err := b.s.View(ctx, func(tx store.Tx) (err error) {
			refs, err = tx.(*sqlstore.Tx).OldBlobs(before, after)
			return err
		})
		if err != nil {
			return removed, fmt.Errorf("sweep blobs: %w", err)
		}
		if len(refs) == 0 {
			return removed, nil
		}
		after = refs[len(refs)-1]
		var unwanted []string
		for _, ref := range refs {
			if !keep(ref) {
				unwanted = append(unwanted, ref)
			}
		}
		if len(unwanted) == 0 {
			continue
		}
		n := 0
		err = b.s.Update(ctx, func(tx store.Tx) error {
			n = 0
			for _, ref := range unwanted {
				gone, err := tx.(*sqlstore.Tx).DeleteBlob(ref, before)
				if err != nil {
					return err
				}
				if gone {
					n++
				}
			}
			return nil
		})
		if err != nil {
			return removed, fmt.Errorf("sweep blobs: %w", err)
		}
		removed += n
	}
}
