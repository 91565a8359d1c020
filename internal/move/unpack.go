package move

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/mercury-agent/mercury/internal/atomicfile"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// House is where a parcel is unpacked. Each of its methods may be called again
// for the same thing.
type House interface {
	// Dir is the folder of the home.
	Dir() string
	// Set writes settings that nobody has decided yet. It returns how many it
	// wrote, and those that stay as they are, each with the reason.
	Set(settings []Setting) (written int, stay []string, err error)
	// SetSecret keeps a secret in .env unless there is one of that name.
	SetSecret(s Secret) (added bool, err error)
	// AddConversation keeps a talk as it was, unless it is there.
	AddConversation(ctx context.Context, c Conversation) (added bool, err error)
}

// Memories is where memories are kept.
type Memories interface {
	// Remember keeps those that are new and returns how many they were. What
	// is not admitted, or is known already, is no error.
	Remember(ctx context.Context, list []Memory) (added int, err error)
}

// Schedules is where schedules are kept. They are added paused.
type Schedules interface {
	// Add keeps one unless there is one of its name. What cannot be scheduled
	// here is a mercury.Invalid error.
	Add(ctx context.Context, s Schedule) (added bool, err error)
	// Next is when it would run next, if it were not paused.
	Next(s Schedule) (time.Time, error)
}

// Target is a house with what it has room for. A nil field means that this
// Mercury has no such room: what belongs there is kept as a file.
type Target struct {
	House     House
	Memories  Memories
	Schedules Schedules
	// Default is what a file of the home says before anybody edits it; such a
	// file makes room. It may be nil.
	Default func(path string) []byte
	// Secrets takes keys and tokens along.
	Secrets bool
}

// Report counts what unpacking did. There counts what was in the house before.
type Report struct {
	Settings, Files, Memories, Schedules, Conversations, Secrets, Kept int
	There                                                              int
	Stay                                                               []string // what stays as it is here, and why
}

// keptDir is where a parcel's rest is kept, below the home.
func (p *Parcel) keptDir() string { return path.Join("files", "imported", p.Source) }

// Unpack writes the parcel into the house. What is there is left alone, so an
// unpacking that was interrupted is simply repeated.
func (p *Parcel) Unpack(ctx context.Context, to Target) (Report, error) {
	var r Report
	steps := []func(context.Context, Target, *Report) error{p.unpackKept, p.unpackFiles, p.unpackSecrets, p.unpackSettings,
		p.unpackMemories, p.unpackSchedules, p.unpackConversations}
	for _, step := range steps {
		if err := step(ctx, to, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (p *Parcel) unpackKept(_ context.Context, to Target, r *Report) error {
	for _, f := range p.Kept {
		new, err := p.keepFile(to, f.Path, f.Text)
		if err != nil {
			return err
		}
		r.count(new, &r.Kept)
	}
	return nil
}

// keepFile writes below the folder of what is kept, over an older copy.
func (p *Parcel) keepFile(to Target, name string, text []byte) (new bool, err error) {
	at := inside(filepath.Join(to.House.Dir(), filepath.FromSlash(p.keptDir())), name)
	if at == "" {
		return false, fmt.Errorf("keep %s: its name leads out of the folder", name)
	}
	if old, err := os.ReadFile(at); err == nil && bytes.Equal(old, text) {
		return false, nil
	}
	return true, writeFile(at, text)
}

func writeFile(at string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return fmt.Errorf("write %s: %w", at, err)
	}
	return atomicfile.Write(at, text, 0o600)
}

func (p *Parcel) unpackFiles(_ context.Context, to Target, r *Report) error {
	for _, f := range p.Files {
		at := inside(to.House.Dir(), f.Path)
		if at == "" {
			return fmt.Errorf("write %s: its name leads out of the home", f.Path)
		}
		old, err := os.ReadFile(at)
		switch {
		case errors.Is(err, fs.ErrNotExist), err == nil && to.Default != nil && bytes.Equal(old, to.Default(f.Path)):
			if err := writeFile(at, f.Text); err != nil {
				return err
			}
			r.Files++
		case err != nil:
			return fmt.Errorf("write %s: %w", f.Path, err)
		case bytes.Equal(old, f.Text):
			r.There++
		default:
			if _, err := p.keepFile(to, f.Path, f.Text); err != nil {
				return err
			}
			r.Stay = append(r.Stay, fmt.Sprintf("%s: there is one here; theirs is %s", f.Path, path.Join(p.keptDir(), f.Path)))
		}
	}
	return nil
}

func (p *Parcel) unpackSecrets(_ context.Context, to Target, r *Report) error {
	if !to.Secrets {
		return nil
	}
	for _, s := range p.Secrets {
		new, err := to.House.SetSecret(s)
		if err != nil {
			return fmt.Errorf("keep %s: %w", s.Variable, err)
		}
		r.count(new, &r.Secrets)
	}
	return nil
}

// wanted are the settings that make sense: one that only names a secret which
// stays behind is left out.
func (p *Parcel) wanted(secrets bool) []Setting {
	var list []Setting
	for _, s := range p.Settings {
		if s.Needs == "" || secrets {
			list = append(list, s)
		}
	}
	return list
}

func (p *Parcel) unpackSettings(_ context.Context, to Target, r *Report) error {
	settings := p.wanted(to.Secrets)
	written, stay, err := to.House.Set(settings)
	r.Settings += written
	r.There += len(settings) - written - len(stay)
	r.Stay = append(r.Stay, stay...)
	return err
}

func (p *Parcel) unpackMemories(ctx context.Context, to Target, r *Report) error {
	if to.Memories == nil {
		return p.keepLines(to, "memories.jsonl", len(p.Memories), r, func(i int) any { return p.Memories[i] })
	}
	for part := range slices.Chunk(p.Memories, 200) {
		added, err := to.Memories.Remember(ctx, part)
		if err != nil {
			return fmt.Errorf("remember: %w", err)
		}
		r.Memories += added
		r.There += len(part) - added
	}
	return nil
}

func (p *Parcel) unpackSchedules(ctx context.Context, to Target, r *Report) error {
	if to.Schedules == nil {
		return p.keepLines(to, "schedules.jsonl", len(p.Schedules), r, func(i int) any { return p.Schedules[i] })
	}
	var refused []Schedule
	for _, s := range p.Schedules {
		new, err := to.Schedules.Add(ctx, s)
		if mercury.KindOf(err) == mercury.Invalid {
			r.Stay = append(r.Stay, fmt.Sprintf("schedule %q, kept in %s: %v", s.Name, path.Join(p.keptDir(), "schedules.jsonl"), err))
			refused = append(refused, s)
			continue
		}
		if err != nil {
			return fmt.Errorf("add the schedule %q: %w", s.Name, err)
		}
		r.count(new, &r.Schedules)
	}
	return p.keepLines(to, "schedules.jsonl", len(refused), r, func(i int) any { return refused[i] })
}

// keepLines keeps what has no room here as one JSON object a line.
func (p *Parcel) keepLines(to Target, name string, n int, r *Report, at func(int) any) error {
	if n == 0 {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for i := range n {
		if err := e.Encode(at(i)); err != nil {
			return err
		}
	}
	new, err := p.keepFile(to, name, b.Bytes())
	r.count(new, &r.Kept)
	return err
}

func (p *Parcel) unpackConversations(ctx context.Context, to Target, r *Report) error {
	for _, c := range p.Conversations {
		new, err := to.House.AddConversation(ctx, c)
		if err != nil {
			return fmt.Errorf("keep the talk %s: %w", c.ID, err)
		}
		r.count(new, &r.Conversations)
	}
	return nil
}

func (r *Report) count(new bool, n *int) {
	if new {
		*n++
	} else {
		r.There++
	}
}
