package skill

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/atomicfile"
	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Install writes a skill into the owner's folder and pins it by its hash. What
// stood there under its name is replaced and kept as Former says. It is safe to
// repeat: a kill at any moment leaves the old skill or the new one, whole.
func (l *Library) Install(b Bundle, source, by string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	pins, err := l.pins()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.opts.Home, 0o700); err != nil {
		return fmt.Errorf("make the folder of skills: %w", err)
	}
	root, err := os.OpenRoot(l.opts.Home)
	if err != nil {
		return fmt.Errorf("open the folder of skills: %w", err)
	}
	defer root.Close()
	staged := ".new-" + b.Name
	if err := writeBundle(root, staged, b); err != nil {
		return fmt.Errorf("write the skill %s: %w", b.Name, err)
	}
	crash.Reach("skill.staged")
	// The pin goes first: with it alone the old files count as changed and are
	// not used, which errs on the safe side.
	pins[b.Name] = pin{Hash: b.Hash(), Source: source, At: time.Now().UTC().Truncate(time.Second), By: by}
	if err := l.savePins(pins); err != nil {
		return err
	}
	crash.Reach("skill.pinned")
	at := filepath.Join(l.opts.Home, b.Name)
	if err := l.setAside(b.Name); err != nil {
		return err
	}
	crash.Reach("skill.aside")
	if err := root.Rename(staged, b.Name); err != nil {
		return fmt.Errorf("put the skill %s in its place: %w", b.Name, err)
	}
	crash.Reach("skill.placed")
	delete(l.read, at)
	return syncFolder(l.opts.Home)
}

// Admit installs a skill unless it looks hostile; anyway overrules that.
func (l *Library) Admit(b Bundle, source, by string, anyway bool) error {
	if found := Scan(b); Severe(found) && !anyway {
		return blocked(b, found)
	}
	return l.Install(b, source, by)
}

// Former is where the last state of a skill that was replaced or removed is
// kept.
func (l *Library) Former(name string) string { return filepath.Join(l.opts.Home, ".former-"+name) }

// setAside moves what stands under a name to Former.
func (l *Library) setAside(name string) error {
	at := filepath.Join(l.opts.Home, name)
	if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(l.Former(name)); err != nil {
		return fmt.Errorf("make room for the former skill: %w", err)
	}
	if err := os.Rename(at, l.Former(name)); err != nil {
		return fmt.Errorf("set the former skill aside: %w", err)
	}
	return syncFolder(l.opts.Home)
}

// Remove takes a skill of the owner's folder away; Restore brings it back.
func (l *Library) Remove(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := os.Stat(filepath.Join(l.opts.Home, name, FileName)); err != nil || !ValidName(name) {
		if _, ok := shippedBundles()[name]; ok {
			return wrapped(mercury.Conflict, "A skill of yours with the same name takes its place.", "%s is part of Mercury and cannot be removed", name)
		}
		return wrapped(mercury.NotFound, "`mercury skills list` names those there are.", "%w of yours: %q", errNone, cut(name, 80))
	}
	if err := l.setAside(name); err != nil {
		return err
	}
	crash.Reach("skill.removed")
	pins, err := l.pins()
	if err != nil {
		return err
	}
	delete(pins, name)
	return l.savePins(pins)
}

// Restore brings back what Install replaced or Remove took away; the skill that
// stands there now takes its place.
func (l *Library) Restore(name string) error {
	if !ValidName(name) {
		return wrapped(mercury.NotFound, "", "%w: %q", errNone, cut(name, 80))
	}
	b, err := ReadFolder(l.Former(name))
	if errors.Is(err, fs.ErrNotExist) {
		return wrapped(mercury.NotFound, "", "nothing is kept of a former skill %s", name)
	}
	if err != nil {
		return err
	}
	return l.Install(b, "restored", "owner")
}

// Approve pins a skill of the owner's folder as it is now.
func (l *Library) Approve(name string) error {
	all, err := l.List()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(e Entry) bool { return e.Name == name && e.Origin == Home })
	if i < 0 {
		return wrapped(mercury.NotFound, "", "%w of yours: %q", errNone, cut(name, 80))
	}
	if all[i].State == Broken {
		return wrapped(mercury.Invalid, "Mend it first.", "the skill %s cannot be used: %s", name, all[i].Why)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	pins, err := l.pins()
	if err != nil {
		return err
	}
	p := pins[name]
	p.Hash, p.At = all[i].Hash, time.Now().UTC().Truncate(time.Second)
	if p.Source == "" {
		p.Source = "by hand"
	}
	pins[name] = p
	return l.savePins(pins)
}

func (l *Library) savePins(pins map[string]pin) error {
	b, err := json.MarshalIndent(pins, "", "  ")
	if err != nil {
		return fmt.Errorf("keep which skills are installed: %w", err)
	}
	if err := os.MkdirAll(l.opts.Home, 0o700); err != nil {
		return fmt.Errorf("make the folder of skills: %w", err)
	}
	if err := atomicfile.Write(l.pinFile(), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("keep which skills are installed: %w", err)
	}
	return nil
}

// writeBundle writes all files of b into a fresh folder below root, synced.
// Links in the way are not followed out of root.
func writeBundle(root *os.Root, dir string, b Bundle) error {
	if err := root.RemoveAll(dir); err != nil {
		return err
	}
	if err := root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	folders := map[string]bool{dir: true, filepath.Dir(dir): true}
	for _, name := range slices.Sorted(maps.Keys(b.Files)) {
		f := b.Files[name]
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := root.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		for d := filepath.Dir(at); d != dir; d = filepath.Dir(d) {
			folders[d] = true
		}
		mode := fs.FileMode(0o600)
		if f.Exec {
			mode = 0o700
		}
		if err := writeFile(root, at, f.Text, mode); err != nil {
			return err
		}
	}
	for d := range folders {
		if err := syncFolder(filepath.Join(root.Name(), d)); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(root *os.Root, at string, text []byte, mode fs.FileMode) error {
	out, err := root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// Lay puts the files beside SKILL.md where commands and file tools can read
// them: a folder of the workspace, written anew when the skill has changed. It
// returns the folder, or nothing for a skill without such files.
func Lay(b Bundle, workspace string) (string, error) {
	if len(b.Files) < 2 || workspace == "" {
		return "", nil
	}
	rel := filepath.Join(".mercury", "skills", b.Name)
	dir := filepath.Join(workspace, rel)
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return "", fmt.Errorf("lay out the skill %s: %w", b.Name, err)
	}
	defer root.Close()
	if sub, err := root.OpenRoot(rel); err == nil {
		have, err := readFS(sub.FS())
		if sub.Close(); err == nil && have.Hash() == b.Hash() {
			return dir, nil
		}
	}
	if err := writeBundle(root, rel, b); err != nil {
		return "", fmt.Errorf("lay out the skill %s: %w", b.Name, err)
	}
	return dir, nil
}

// Summary says what installing a bundle would do, for a person to decide.
func Summary(b Bundle, source string, found []Finding) string {
	var s strings.Builder
	fmt.Fprintf(&s, "Skill %s: %s\nFrom: %s\nFiles: %d", b.Name, oneLine(b.Description), source, len(b.Files))
	for _, name := range slices.Sorted(maps.Keys(b.Files)) {
		if name != FileName {
			fmt.Fprintf(&s, "\n  %s (%d bytes)", name, len(b.Files[name].Text))
		}
	}
	if len(b.AllowedTools) > 0 {
		fmt.Fprintf(&s, "\nWhen used, only these tools: %s", strings.Join(b.AllowedTools, ", "))
	}
	for _, w := range b.Warnings {
		fmt.Fprintf(&s, "\n· %s: %s", FileName, w)
	}
	for _, f := range found {
		fmt.Fprintf(&s, "\n%s", f)
	}
	if len(found) == 0 {
		s.WriteString("\nNothing suspicious was found in it.")
	}
	fmt.Fprintf(&s, "\n%s", b.Hash())
	return s.String()
}
