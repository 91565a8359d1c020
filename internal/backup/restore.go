package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store/homelock"
)

// staging is the folder of a home that is being restored. While it is there,
// nothing may start in the home.
const staging = ".restore"

// complete is the file in the staging folder that says: all is there, it only
// has to be moved up.
const complete = "complete"

// RestoreOptions say how an archive is brought back.
type RestoreOptions struct {
	// Passphrase asks for the one that opens the secrets; nil: they stay out.
	// It is asked only when the archive has some.
	Passphrase func() (string, error)
	// Prepare may change the restored files before they are in use, such as
	// the address of a database that is not this home's. dir is the place
	// where they are for the moment.
	Prepare func(dir string, m Manifest) error
}

// Restore writes an archive into the folder dir, which must not exist, or hold
// nothing but empty folders; then it is a home. The archive is read whole and
// checked before anything is written. A kill leaves nothing that could be
// mistaken for a home: the same call again goes on. What was pending in the
// home that was copied is held at the first start; see Recognise.
func Restore(ctx context.Context, path, dir string, o RestoreOptions) (Manifest, error) {
	m, err := restore(ctx, path, dir, o)
	if err != nil {
		return m, fmt.Errorf("restore %s: %w", filepath.Base(path), full(err))
	}
	return m, nil
}

func restore(ctx context.Context, path, dir string, o RestoreOptions) (Manifest, error) {
	m, err := read(ctx, path, func(Entry, fs.FileMode, io.Reader) error { return nil })
	if err != nil {
		return m, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, err
	}
	lock, err := homelock.Take(dir, "")
	if err != nil {
		return m, err
	}
	defer lock.Release()
	began, finished, err := progress(dir, m.ID)
	if err != nil {
		return m, err
	}
	if !finished {
		if !began {
			if err := vacant(dir); err != nil {
				return m, err
			}
		}
		if err := stage(ctx, path, dir, m, o); err != nil {
			return m, err
		}
	}
	crash.Reach("restore.staged")
	return m, moveUp(dir)
}

// progress tells how far an earlier, killed Restore came, and refuses to mix
// two archives.
func progress(dir, id string) (began, finished bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, staging)); errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	b, err := os.ReadFile(filepath.Join(dir, staging, complete))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, false, nil
	case err != nil:
		return true, false, err
	case strings.TrimSpace(string(b)) != id:
		return true, false, &mercury.Error{Kind: mercury.Conflict, Err: errors.New("another backup is half restored there"),
			Help: "Restore that one again, so that it is finished, or choose another folder."}
	}
	return true, true, nil
}

// vacant refuses a folder in which anything stands.
func vacant(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == filepath.Join(dir, homelock.FileName) {
			return err
		}
		return &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("%s is not empty: there is %s", dir, d.Name()),
			Help: "Restore beside it with --to FOLDER and look at it there; or move that folder away first."}
	})
}

// stage writes everything below dir/.restore/home and says that it is complete.
func stage(ctx context.Context, path, dir string, m Manifest, o RestoreOptions) error {
	top := filepath.Join(dir, staging)
	if err := os.RemoveAll(top); err != nil {
		return err
	}
	to := filepath.Join(top, "home")
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	home, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer home.Close()
	var secrets []byte
	_, err = read(ctx, path, func(e Entry, mode fs.FileMode, r io.Reader) error {
		if e.Path == secretsEntry {
			secrets, err = io.ReadAll(io.LimitReader(r, maxSecrets))
			return err
		}
		crash.Reach("restore.entry")
		return writeFile(home, e.Path, mode, r)
	})
	if err != nil {
		return err
	}
	if secrets != nil && o.Passphrase != nil {
		passphrase, err := o.Passphrase()
		if err != nil {
			return err
		}
		if err := openSecrets(home, secrets, passphrase); err != nil {
			return err
		}
	}
	if o.Prepare != nil {
		if err := o.Prepare(to, m); err != nil {
			return err
		}
	}
	if err := syncTree(to); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(top, complete), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(m.ID + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return syncDir(top)
}

// writeFile writes one file below home, synced, with the folders above it.
func writeFile(home *os.Root, name string, mode fs.FileMode, r io.Reader) error {
	path := filepath.FromSlash(name)
	if parent := filepath.Dir(path); parent != "." {
		if err := home.MkdirAll(parent, 0o700); err != nil {
			return err
		}
	}
	f, err := home.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600|mode&0o100)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}

func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return syncDir(path)
	})
}

// moveUp gives what is staged its place, the database last: a home without
// one, or with the staging folder, is not a home yet.
func moveUp(dir string) error {
	from := filepath.Join(dir, staging, "home")
	found, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	slices.SortStableFunc(found, func(a, b fs.DirEntry) int {
		switch databaseEntry {
		case a.Name():
			return 1
		case b.Name():
			return -1
		}
		return strings.Compare(a.Name(), b.Name())
	})
	for _, e := range found {
		to := filepath.Join(dir, e.Name())
		if err := removeEmpty(to); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(from, e.Name()), to); err != nil {
			return err
		}
		crash.Reach("restore.moved")
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(dir, staging)); err != nil {
		return err
	}
	return syncDir(dir)
}

// removeEmpty makes way where empty folders stand.
func removeEmpty(path string) error {
	found, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range found {
		if err := removeEmpty(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	return os.Remove(path)
}

// Unfinished returns an error when a restore into the home dir was begun and
// not finished. Nothing may start there.
func Unfinished(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, staging)); err != nil {
		return nil // no such folder, or no home at all
	}
	return &mercury.Error{Kind: mercury.Setup, Err: fmt.Errorf("open the home %s: a backup was not restored to the end", dir),
		Help: "Run the same `mercury backup restore` again: it goes on."}
}
