package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settling is how long files must be left alone before they are read: editors
// write, rename and write again.
const settling = 200 * time.Millisecond

// watch calls changed whenever the content of one of the files has become
// another and was left alone for a moment. It blocks until ctx ends and costs
// nothing while nothing happens: it watches the folders, by the operating
// system, and never looks by itself. Files that are replaced, that appear,
// that go, and those behind symbolic links are seen.
func watch(ctx context.Context, files []string, changed func()) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch the configuration: %w", err)
	}
	defer w.Close()
	names, err := follow(w, files)
	if err != nil {
		return err
	}
	seen := contents(files)
	settled := time.NewTimer(time.Hour)
	settled.Stop()
	defer settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-w.Events:
			if !ok {
				return nil
			}
			// Where a whole folder is swapped by a link, as a mounted one is, the
			// link's name begins with two dots.
			swapped := strings.HasPrefix(filepath.Base(e.Name), "..")
			if names[e.Name] || swapped {
				settled.Reset(settling)
			}
		case err, ok := <-w.Errors:
			if !ok {
				return nil
			}
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("watch the configuration: %w", err)
			}
			settled.Reset(settling) // something was missed: look
		case <-settled.C:
			// Links may lead elsewhere now.
			if names, err = follow(w, files); err != nil {
				return err
			}
			if now := contents(files); now != seen {
				seen = now
				changed()
			}
		}
	}
}

// follow watches the folders of the files, and those that their links lead
// through, and returns the paths whose events matter.
func follow(w *fsnotify.Watcher, files []string) (map[string]bool, error) {
	names := map[string]bool{}
	for _, file := range files {
		for hop := 0; hop < 16; hop++ {
			dir := filepath.Dir(file)
			// A link's folder that is gone has nothing to watch; the link itself is
			// watched from its own.
			if err := w.Add(dir); err != nil && (hop == 0 || !errors.Is(err, fs.ErrNotExist)) {
				return nil, fmt.Errorf("watch %s: %w", dir, err)
			}
			names[filepath.Join(dir, filepath.Base(file))] = true
			to, err := os.Readlink(file)
			if err != nil {
				break
			}
			if !filepath.IsAbs(to) {
				to = filepath.Join(dir, to)
			}
			file = to
		}
	}
	return names, nil
}

// contents is a digest of what the files hold; a file that cannot be read
// counts as one that is not there.
func contents(files []string) [sha256.Size]byte {
	h := sha256.New()
	for _, file := range files {
		text, err := os.ReadFile(file)
		fmt.Fprintf(h, "%v %d ", err == nil, len(text))
		h.Write(text)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
