package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

// ErrDamaged says that an archive is not what was once written.
var ErrDamaged = errors.New("the backup is damaged")

func damaged(format string, a ...any) error {
	return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, a...)),
		Help: "Nothing was written. Use another backup; `mercury backup list` shows what there is."}
}

// maxManifest bounds the manifest, in bytes.
const maxManifest = 256 << 20

// Verify reads an archive from the first byte to the last and returns its
// manifest. It finds every damaged byte, entries that are missing, strange or
// too many, and such as would be written outside a home.
func Verify(ctx context.Context, path string) (Manifest, error) {
	m, err := read(ctx, path, func(Entry, fs.FileMode, io.Reader) error { return nil })
	if err != nil {
		return m, fmt.Errorf("verify %s: %w", filepath.Base(path), err)
	}
	return m, nil
}

// read goes through an archive whose seal holds and hands over its entries,
// each of which must then be read or left. They are proven right only when
// read returns nil.
func read(ctx context.Context, path string, each func(Entry, fs.FileMode, io.Reader) error) (Manifest, error) {
	if snapshot(path) {
		return readSnapshot(ctx, path, each)
	}
	f, err := os.Open(path)
	if err != nil {
		return Manifest{}, err
	}
	defer f.Close()
	if err := sealed(ctx, f); err != nil {
		return Manifest{}, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Manifest{}, err
	}
	zip, err := gzip.NewReader(f)
	if err != nil {
		return Manifest{}, damaged("it is no gzip file: %w", err)
	}
	r := tar.NewReader(untilCanceled{ctx, zip})
	var found []Entry
	seen := map[string]bool{} // in lower case: some file systems see no difference
	for {
		h, err := r.Next()
		if err != nil {
			return Manifest{}, orCanceled(ctx, damaged("it ends without a manifest: %w", err))
		}
		if h.Name == manifestEntry {
			return manifest(ctx, r, zip, found)
		}
		if err := acceptable(h, seen); err != nil {
			return Manifest{}, err
		}
		sum := sha256.New()
		entry := Entry{Path: h.Name, Size: h.Size}
		body := io.TeeReader(r, sum)
		if err := each(entry, fs.FileMode(h.Mode).Perm(), body); err != nil {
			return Manifest{}, err
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return Manifest{}, orCanceled(ctx, damaged("read %q: %w", h.Name, err))
		}
		entry.SHA256 = hex.EncodeToString(sum.Sum(nil))
		found = append(found, entry)
	}
}

// snapshot reports whether a backup is a database alone, as before a migration.
func snapshot(path string) bool { return filepath.Ext(path) == ".db" }

// readSnapshot is read for a database alone. It has no checksum but its own
// structure: every page and row of it is looked at.
func readSnapshot(ctx context.Context, path string, each func(Entry, fs.FileMode, io.Reader) error) (Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return Manifest{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Manifest{}, err
	}
	m := Manifest{Format: format, ID: "snapshot " + filepath.Base(path), CreatedAt: info.ModTime().UTC(), Engine: "sqlite"}
	if m.Schema, m.Tables, err = sqlite.Sums(ctx, path); err != nil {
		return m, orCanceled(ctx, damaged("%w", err))
	}
	m.Entries = []Entry{{Path: databaseEntry, Size: info.Size()}}
	return m, each(m.Entries[0], 0o600, untilCanceled{ctx, f})
}

func orCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// sealed compares the sum at the end with all that stands before it.
func sealed(ctx context.Context, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	length := int64(len(seal(sha256.New())))
	if !info.Mode().IsRegular() || info.Size() <= length {
		return damaged("it is no file of a backup")
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, untilCanceled{ctx, f}, info.Size()-length); err != nil {
		return err
	}
	end := make([]byte, length)
	if _, err := io.ReadFull(f, end); err != nil {
		return err
	}
	if !bytes.Equal(end, seal(sum)) {
		return damaged("its content and its checksum differ")
	}
	return nil
}

// acceptable refuses what a backup never contains: links, devices, names that
// lead out of the home or that no backup has, and names that come twice.
func acceptable(h *tar.Header, seen map[string]bool) error {
	name := strings.ToLower(h.Name)
	switch {
	case h.Typeflag != tar.TypeReg:
		return damaged("%q is no ordinary file", h.Name)
	case !inside(h.Name):
		return damaged("%q does not belong into a backup", h.Name)
	case seen[name]:
		return damaged("%q is in it twice", h.Name)
	}
	seen[name] = true
	return nil
}

// inside reports whether a name is one that a backup may have.
func inside(name string) bool {
	if name == databaseEntry || name == secretsEntry {
		return true
	}
	first, rest, nested := strings.Cut(name, "/")
	return fs.ValidPath(name) && filepath.IsLocal(filepath.FromSlash(name)) && !strings.ContainsAny(name, "\\:\x00") &&
		slices.Contains(owned, first) && nested == (first != "mercury.yaml") && (!nested || rest != "") && !secretFile(name)
}

// manifest reads the last entry and compares it with what was found before.
func manifest(ctx context.Context, r *tar.Reader, zip io.Reader, found []Entry) (Manifest, error) {
	var m Manifest
	d := json.NewDecoder(io.LimitReader(r, maxManifest))
	if err := d.Decode(&m); err != nil {
		return m, orCanceled(ctx, damaged("read the manifest: %w", err))
	}
	if m.Format != format {
		return m, &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("the backup has format %d, this Mercury reads %d", m.Format, format),
			Help: "Use the Mercury that made it, or a newer one."}
	}
	for i, e := range found {
		if i >= len(m.Entries) || m.Entries[i] != e {
			return m, damaged("%q is not as the manifest says", e.Path)
		}
	}
	if len(m.Entries) != len(found) {
		return m, damaged("%q is missing", m.Entries[len(found)].Path)
	}
	if len(found) == 0 || found[0].Path != databaseEntry {
		return m, damaged("it has no database")
	}
	if h, err := r.Next(); !errors.Is(err, io.EOF) {
		if err != nil {
			return m, orCanceled(ctx, damaged("read its end: %w", err))
		}
		return m, damaged("%q stands after the manifest", h.Name)
	}
	// What follows a tar's end is zeros; the reader of the gzip file checks the
	// sums of its members on the way.
	rest, err := io.ReadAll(io.LimitReader(zip, 1<<20))
	if err != nil || len(bytes.Trim(rest, "\x00")) > 0 {
		return m, orCanceled(ctx, damaged("something stands after its end"))
	}
	return m, nil
}
