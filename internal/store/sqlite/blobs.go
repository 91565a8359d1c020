package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"

	"github.com/mercury-agent/mercury/internal/store"
)

// blobs keeps contents as files root/ab/abcd…, named by their SHA-256.
type blobs struct{ root string }

var refShape = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (b blobs) path(ref string) (string, error) {
	if !refShape.MatchString(ref) {
		return "", fmt.Errorf("blob %.80q: %w", ref, store.ErrNotFound)
	}
	return filepath.Join(b.root, ref[:2], ref), nil
}

// Put writes the file, syncs it, gives it its name and syncs the folders above:
// a row that names it later can rely on it. A content that is there already is
// touched, so that a sweep going on spares it, and its folders are synced too:
// whoever put it may have been killed before doing so.
func (b blobs) Put(ctx context.Context, content []byte) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	ref := hex.EncodeToString(sum[:])
	path, err := b.path(ref)
	if err != nil {
		return "", err
	}
	if !touch(path, int64(len(content))) {
		if err := write(path, content); err != nil {
			return "", fmt.Errorf("keep blob: %w", osError(err))
		}
	}
	for _, dir := range []string{filepath.Dir(path), b.root, filepath.Dir(b.root)} {
		if err := syncDir(dir); err != nil {
			return "", fmt.Errorf("keep blob: %w", err)
		}
	}
	return ref, nil
}

// touch marks a file of the given size as wanted now and reports whether there
// is one.
func touch(path string, size int64) bool {
	now := time.Now()
	st, err := os.Stat(path)
	return err == nil && st.Size() == size && os.Chtimes(path, now, now) == nil
}

func write(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "part-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone after the rename, which is fine
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func (b blobs) Open(ctx context.Context, ref string) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := b.path(ref)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open blob %s: %w", ref, store.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", osError(err))
	}
	return f, nil
}

// Sweep also removes what a crash left half written.
func (b blobs) Sweep(ctx context.Context, before time.Time, keep func(ref string) bool) (int, error) {
	removed := 0
	err := filepath.WalkDir(b.root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		ours := refShape.MatchString(d.Name())
		if !st.ModTime().Before(before) || (ours && keep(d.Name())) || (!ours && !isPart(d.Name())) {
			return nil
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if ours {
			removed++
		}
		return nil
	})
	if err != nil {
		return removed, fmt.Errorf("sweep blobs: %w", osError(err))
	}
	return removed, nil
}

func isPart(name string) bool {
	ok, _ := filepath.Match("part-*", name)
	return ok
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return osError(err)
	}
	return osError(errors.Join(f.Sync(), f.Close()))
}

// syncDir makes names in dir durable. Windows has no such call and needs none.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return osError(err)
	}
	return osError(errors.Join(f.Sync(), f.Close()))
}
