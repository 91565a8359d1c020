package skill

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Origin is where a skill comes from.
type Origin string

const (
	Home      Origin = "home"      // the folder skills/ of Mercury's home: the owner's
	Workspace Origin = "workspace" // .agents/skills of the workspace: whoever wrote the project
	Shared    Origin = "shared"    // ~/.agents/skills, which other agents read too
	Shipped   Origin = "shipped"   // part of Mercury
)

// State says whether a skill can be used.
type State string

const (
	Ready   State = "ready"
	Changed State = "changed" // its files are not those that were allowed
	Broken  State = "broken"  // its SKILL.md cannot be used
)

// Entry is a skill with where it stands.
type Entry struct {
	Skill
	Origin  Origin   `json:"origin"`
	State   State    `json:"state"`
	Why     string   `json:"why,omitempty" doc:"why it cannot be used"`
	Folder  string   `json:"folder,omitempty"`
	Hash    string   `json:"hash,omitempty"`
	Source  string   `json:"source,omitempty" doc:"where it was installed from"`
	Files   []string `json:"files,omitempty" doc:"beside SKILL.md"`
	Shadows []Origin `json:"shadows,omitempty" doc:"places that have a skill of this name which this one hides"`
}

// Options tune a Library.
type Options struct {
	Home      string // folder of the owner's skills; required
	Workspace string // folder of the project's skills; empty: none
	Shared    string // folder that other agents share; empty: none
}

// Library finds skills. Where two have one name the owner's comes first, then
// what Mercury ships, what other agents share, and last the workspace's: a
// project must not be able to replace what its reader relies on. It looks at the
// folders when it is asked and reads again only what has changed.
type Library struct {
	opts Options

	mu   sync.Mutex
	read map[string]reading // by folder
}

// reading is a folder as it was read, for as long as its stamp holds.
type reading struct {
	stamp  string
	bundle Bundle
	err    error
}

// New returns a library over folders, which need not exist.
func New(o Options) *Library { return &Library{opts: o, read: map[string]reading{}} }

//go:embed all:shipped
var shipped embed.FS

// shippedBundles are the skills in the program itself.
var shippedBundles = sync.OnceValue(func() map[string]Bundle {
	all := map[string]Bundle{}
	dirs, err := shipped.ReadDir("shipped")
	if err != nil {
		panic(err) // embedded
	}
	for _, d := range dirs {
		sub, err := fs.Sub(shipped, path.Join("shipped", d.Name()))
		if err != nil {
			panic(err)
		}
		b, err := readFS(sub)
		if err != nil {
			panic(fmt.Sprintf("shipped skill %s: %v", d.Name(), err))
		}
		all[b.Name] = b
	}
	return all
})

// List returns all skills by name, those that cannot be used included.
func (l *Library) List() ([]Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pins, err := l.pins()
	if err != nil {
		return nil, err
	}
	byName := map[string]Entry{}
	take := func(e Entry) {
		if first, ok := byName[e.Name]; ok {
			first.Shadows = append(first.Shadows, e.Origin)
			byName[e.Name] = first
			return
		}
		byName[e.Name] = e
	}
	for _, e := range l.folder(l.opts.Home, Home) {
		if pin, ok := pins[e.Name]; ok {
			e.Source = pin.Source
			if e.State == Ready && e.Hash != pin.Hash {
				e.State, e.Why = Changed, "its files are not those that were allowed"
			}
		}
		take(e)
	}
	for _, name := range slices.Sorted(maps.Keys(shippedBundles())) {
		take(entry(shippedBundles()[name], Shipped, ""))
	}
	for _, e := range l.folder(l.opts.Shared, Shared) {
		take(e)
	}
	for _, e := range l.folder(l.opts.Workspace, Workspace) {
		take(e)
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// Find returns one skill with its files. An unknown name is mercury.NotFound, a
// skill that cannot be used mercury.Conflict with what to do.
func (l *Library) Find(name string) (Entry, Bundle, error) {
	all, err := l.List()
	if err != nil {
		return Entry{}, Bundle{}, err
	}
	i := slices.IndexFunc(all, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		return Entry{}, Bundle{}, wrapped(mercury.NotFound, "`mercury skills list` and /skills name those there are.", "%w: %q", errNone, cut(name, 80))
	}
	e := all[i]
	if e.State != Ready {
		help := "Mend its SKILL.md."
		if e.State == Changed {
			help = fmt.Sprintf("Look at it, then: mercury skills approve %s", e.Name)
		}
		return e, Bundle{}, wrapped(mercury.Conflict, help, "the skill %s cannot be used: %s", e.Name, e.Why)
	}
	if e.Origin == Shipped {
		return e, shippedBundles()[e.Name], nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.readFolder(e.Folder)
	return e, r.bundle, r.err
}

// folder lists the skills of one folder, by name.
func (l *Library) folder(dir string, o Origin) []Entry {
	if dir == "" {
		return nil
	}
	found, err := os.ReadDir(dir)
	if err != nil {
		return nil // not there, or not ours to see: no skills
	}
	var list []Entry
	for _, d := range found {
		at := filepath.Join(dir, d.Name())
		if strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") {
			continue
		}
		if info, err := os.Stat(filepath.Join(at, FileName)); err != nil || !info.Mode().IsRegular() {
			continue
		}
		r := l.readFolder(at)
		e := entry(r.bundle, o, at)
		switch {
		case r.err != nil:
			e.Skill = Skill{Name: d.Name()}
			e.State, e.Why, e.Hash = Broken, r.err.Error(), ""
		case e.Name != d.Name():
			e.State, e.Why = Broken, fmt.Sprintf("it calls itself %s and stands in the folder %s", e.Name, d.Name())
			e.Name = d.Name()
		}
		list = append(list, e)
	}
	return list
}

func entry(b Bundle, o Origin, folder string) Entry {
	e := Entry{Skill: b.Skill, Origin: o, State: Ready, Folder: folder, Hash: b.Hash()}
	for _, name := range slices.Sorted(maps.Keys(b.Files)) {
		if name != FileName {
			e.Files = append(e.Files, name)
		}
	}
	return e
}

// readFolder reads a folder, unless nothing in it has changed. l.mu is held.
func (l *Library) readFolder(dir string) reading {
	stamp := stampOf(dir)
	if r, ok := l.read[dir]; ok && stamp != "" && r.stamp == stamp {
		return r
	}
	b, err := ReadFolder(dir)
	r := reading{stamp, b, err}
	l.read[dir] = r
	return r
}

// stampOf changes whenever a file of a folder does; empty when it cannot be
// told.
func stampOf(dir string) string {
	var b strings.Builder
	n := 0
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n++; n > 4*FilesMax {
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %d %d %v\n", at, info.Size(), info.ModTime().UnixNano(), info.Mode())
		// A file that was written a moment ago may be written again within the
		// clock's resolution.
		if time.Since(info.ModTime()) < 2*time.Second {
			return errTooFresh
		}
		return nil
	})
	if err != nil {
		return ""
	}
	return b.String()
}

var errTooFresh = errors.New("changed just now")

// Section is what every request says about skills: what a model may use, by
// name and purpose, within a size. The same skills give the same bytes. It is
// empty when there are none.
func (l *Library) Section(limit int) string {
	all, err := l.List()
	if err != nil {
		return ""
	}
	var lines []string
	left := limit - len(sectionHead) - 1
	for _, e := range all {
		if e.State != Ready || e.Hidden {
			continue
		}
		lines = append(lines, "- "+e.Name+": "+oneLine(e.Description))
	}
	if len(lines) == 0 {
		return ""
	}
	// Each gets the same share; what does not fit is shortened, then only named.
	share := max(left/len(lines), 24)
	more := 0
	var b strings.Builder
	b.WriteString(sectionHead)
	for _, line := range lines {
		line = cutBytes(line, share)
		if len(line)+1 > left {
			more++
			continue
		}
		left -= len(line) + 1
		b.WriteString("\n" + line)
	}
	if more > 0 {
		fmt.Fprintf(&b, "\n(%d more: list_skills)", more)
	}
	return b.String()
}

const sectionHead = "Skills you can load with use_skill when a task fits:"

func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return strings.TrimRight(s[:n], " ,;") + "…"
}

// pin is what is kept about an installed skill.
type pin struct {
	Hash   string    `json:"hash"`
	Source string    `json:"source"`
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`
}

func (l *Library) pinFile() string { return filepath.Join(l.opts.Home, ".installed.json") }

func (l *Library) pins() (map[string]pin, error) {
	b, err := os.ReadFile(l.pinFile())
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]pin{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which skills are installed: %w", err)
	}
	pins := map[string]pin{}
	if err := json.Unmarshal(b, &pins); err != nil {
		return nil, wrapped(mercury.Setup, "Remove it; then look at each skill and approve it anew.", "%s is damaged: %w", l.pinFile(), err)
	}
	return pins, nil
}
