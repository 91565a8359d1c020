// Package backup makes copies of a home and brings them back, and sees to it
// that a copy which is brought back sends nothing again.
//
// An archive is a gzipped tar that any tar reads: the database as one SQLite
// file, whichever engine the home uses, the files people own (mercury.yaml,
// soul, skills, bots), contents too large for a row, and at the end a manifest
// with the checksum of each entry. Its last bytes are an empty gzip member
// that names the SHA-256 of all bytes before it, so that no damaged byte
// passes, wherever it lies. Secrets are in it only on request, and then
// encrypted with a passphrase.
//
// The package copies while the home is at work: the database on one snapshot,
// then files, of which those that rows name never change. Nothing is swept
// meanwhile.
package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

// format is the number of the archive's layout. A reader refuses a higher one.
const format = 1

// Manifest says what an archive holds.
type Manifest struct {
	Format    int         `json:"format"`
	ID        string      `json:"id"`
	CreatedAt time.Time   `json:"created_at"`
	Version   string      `json:"version"` // of the Mercury that made it
	Schema    int         `json:"schema"`
	Engine    string      `json:"engine"` // of the home: "sqlite" or "postgres"
	Scheduled bool        `json:"scheduled,omitempty"`
	Secrets   bool        `json:"secrets"` // an encrypted part holds them
	LeftOut   []string    `json:"left_out,omitempty"`
	Tables    []store.Sum `json:"tables"`
	Entries   []Entry     `json:"entries"` // in the order of the archive
}

// Entry is one file of an archive.
type Entry struct {
	Path   string `json:"path"` // slashes, below the home
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// The names that an archive gives a meaning to.
const (
	manifestEntry = "manifest.json"
	databaseEntry = sqlite.FileName
	secretsEntry  = "secrets.age"
)

// owned are what a backup takes from a home besides the database, and all a
// restore writes.
var owned = []string{"mercury.yaml", "soul", "skills", "bots", "files"}

// passing are the folders below files that mean nothing to another process.
var passing = []string{"spool", "fence", "fence.json", "trash"}

// Keeper makes backups of one home. It is safe for use by many goroutines;
// they take turns.
type Keeper struct {
	home  string
	store store.Portable
	opts  Options

	mu sync.Mutex // held while a backup is made, or contents are swept
}

// Options tune a Keeper.
type Options struct {
	Version string
	// Clean takes secrets out of the text of a file, named below the home. It
	// returns which it took out. Nil: there are none.
	Clean func(name string, text []byte) (clean []byte, leftOut []string)
	// Keep is how many scheduled backups are kept; default 7.
	Keep int
	// Parts are further things that start work by themselves.
	Parts []Part
}

// New returns a keeper of the home in dir and its open database.
func New(dir string, s store.Portable, o Options) *Keeper {
	if o.Keep <= 0 {
		o.Keep = 7
	}
	return &Keeper{home: dir, store: s, opts: o}
}

// Request says what kind of backup is wanted.
type Request struct {
	// Secrets is what SealSecrets returned; nil: the archive holds none.
	Secrets []byte
	// Scheduled marks a backup that Mercury makes by itself and rotates.
	Scheduled bool
}

// Create makes a backup and returns it once it is complete, checked and on
// disk under its final name. What an earlier, killed Create left is removed.
func (k *Keeper) Create(ctx context.Context, r Request) (Info, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	info, err := k.create(ctx, r)
	if err != nil {
		return info, fmt.Errorf("create backup: %w", full(err))
	}
	return info, nil
}

func (k *Keeper) create(ctx context.Context, r Request) (Info, error) {
	dir := filepath.Join(k.home, "backups")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Info{}, err
	}
	if err := removeUnfinished(dir); err != nil {
		return Info{}, err
	}
	m := Manifest{Format: format, ID: mercury.NewID("bk"), CreatedAt: time.Now().UTC().Truncate(time.Second), Version: k.opts.Version,
		Scheduled: r.Scheduled, Secrets: r.Secrets != nil}
	work := filepath.Join(dir, unfinished+m.ID)
	if err := os.Mkdir(work, 0o700); err != nil {
		return Info{}, err
	}
	defer os.RemoveAll(work)
	if err := k.snapshot(ctx, work, &m); err != nil {
		return Info{}, err
	}
	crash.Reach("backup.snapshot")
	part := filepath.Join(work, "archive")
	if err := k.pack(ctx, part, work, r.Secrets, &m); err != nil {
		return Info{}, err
	}
	crash.Reach("backup.packed")
	if _, err := Verify(ctx, part); err != nil {
		return Info{}, fmt.Errorf("read back: %w", err)
	}
	path := filepath.Join(dir, m.fileName())
	if err := os.Rename(part, path); err != nil {
		return Info{}, err
	}
	if err := syncDir(dir); err != nil {
		return Info{}, err
	}
	crash.Reach("backup.named")
	if r.Scheduled {
		if err := rotate(dir, k.opts.Keep); err != nil {
			return Info{}, fmt.Errorf("remove old ones: %w", err)
		}
	}
	return infoOf(path, m)
}

// snapshot puts the database into work as a SQLite file. Contents that another
// engine keeps in rows are files beside it then.
func (k *Keeper) snapshot(ctx context.Context, work string, m *Manifest) error {
	info, err := k.store.Info(ctx)
	if err != nil {
		return err
	}
	m.Engine = info.Engine
	if s, ok := k.store.(*sqlite.Store); ok {
		err = s.Snapshot(ctx, filepath.Join(work, databaseEntry))
	} else {
		err = copyInto(ctx, k.store, work, map[string]string{store.CopyMark: m.CreatedAt.Format(time.RFC3339)})
	}
	if err != nil {
		return err
	}
	m.Schema, m.Tables, err = sqlite.Sums(ctx, filepath.Join(work, databaseEntry))
	return err
}

// copyInto makes a home in dir that holds the content of from.
func copyInto(ctx context.Context, from store.Portable, dir string, facts map[string]string) error {
	s, err := sqlite.Open(ctx, dir, sqlite.Options{})
	if err != nil {
		return err
	}
	_, err = store.Copy(ctx, from, s.(*sqlite.Store), func(w store.Writer) error {
		for key, value := range facts {
			if err := w.SetMeta(key, value); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, s.Close())
}

func (m Manifest) fileName() string {
	name := "mercury-" + m.CreatedAt.Format("20060102T150405Z") + "-" + m.ID[len(m.ID)-4:]
	if m.Scheduled {
		name += scheduledMark
	}
	return name + extension
}

// unfinished begins the name of a folder in which a backup is being made.
const unfinished = ".part-"

func removeUnfinished(dir string) error {
	found, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range found {
		if strings.HasPrefix(e.Name(), unfinished) || strings.HasSuffix(e.Name(), ".db.part") {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// full adds the cure to an error of a full or closed disk.
func full(err error) error {
	if mercury.HelpOf(err) != "" {
		return err
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return &mercury.Error{Kind: mercury.Full, Err: err, Help: "Free some space on the disk that holds the backups; the home is as it was, and nothing is left behind."}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &mercury.Error{Kind: mercury.Setup, Err: err, Help: "Make the folder writable for the user Mercury runs as."}
	}
	return err
}
