package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
)

const (
	extension     = ".tar.gz"
	scheduledMark = "-auto"
	migrationMark = "pre-migration-"
)

// The kinds of backups.
const (
	ByHand    = "by hand"
	Scheduled = "scheduled"
	Migration = "before a migration" // the database alone, on SQLite
)

// Info is one backup in a list.
type Info struct {
	Name      string    `json:"name"`
	Path      string    `json:"path"`
	Kind      string    `json:"kind" doc:"by hand, scheduled, or before a migration"`
	CreatedAt time.Time `json:"created_at"`
	Bytes     int64     `json:"bytes"`
	Secrets   bool      `json:"secrets,omitempty" doc:"an encrypted part holds the secrets"`
	LeftOut   []string  `json:"left_out,omitempty" doc:"which secrets were taken out of mercury.yaml and the like; said when it is made"`
}

func infoOf(path string, m Manifest) (Info, error) {
	st, err := os.Stat(path)
	if err != nil {
		return Info{}, err
	}
	i := Info{Name: filepath.Base(path), Path: path, Kind: ByHand, CreatedAt: m.CreatedAt, Bytes: st.Size(), Secrets: m.Secrets, LeftOut: m.LeftOut}
	if m.Scheduled {
		i.Kind = Scheduled
	}
	return i, nil
}

// List returns the backups of the home in dir, newest first. It believes names
// and looks into no file.
func List(dir string) ([]Info, error) {
	found, err := os.ReadDir(filepath.Join(dir, "backups"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	var list []Info
	for _, e := range found {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() {
			continue
		}
		i := Info{Name: e.Name(), Path: filepath.Join(dir, "backups", e.Name()), CreatedAt: st.ModTime().UTC(), Bytes: st.Size()}
		switch {
		case strings.HasPrefix(e.Name(), "mercury-") && strings.HasSuffix(e.Name(), extension):
			i.Kind = ByHand
			if strings.HasSuffix(e.Name(), scheduledMark+extension) {
				i.Kind = Scheduled
			}
			stamp, _, _ := strings.Cut(strings.TrimPrefix(e.Name(), "mercury-"), "-")
			if at, err := time.Parse("20060102T150405Z", strings.TrimSuffix(stamp, extension)); err == nil {
				i.CreatedAt = at
			}
		case strings.HasPrefix(e.Name(), migrationMark) && strings.HasSuffix(e.Name(), ".db"):
			i.Kind = Migration
		default:
			continue
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b Info) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.Name, a.Name)
	})
	return list, nil
}

// Find returns the path of a backup that is named as in a list of the home in
// dir, or by its path; "last" and "" are the newest archive.
func Find(dir, name string) (string, error) {
	if name != "" && name != "last" {
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
	}
	list, err := List(dir)
	if err != nil {
		return "", err
	}
	for _, i := range list {
		if i.Name == name || (name == "" || name == "last") && i.Kind != Migration {
			return i.Path, nil
		}
	}
	if name == "" {
		name = "last"
	}
	return "", &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("there is no backup %q", name),
		Help: "`mercury backup list` shows what there is; another file is named by its path."}
}

// rotate removes the oldest scheduled backups beyond keep.
func rotate(dir string, keep int) error {
	list, err := List(filepath.Dir(dir))
	if err != nil {
		return err
	}
	for _, i := range Surplus(list, keep) {
		if err := os.Remove(i.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Surplus are the scheduled backups of a list beyond the newest keep.
func Surplus(list []Info, keep int) []Info {
	list = slices.DeleteFunc(slices.Clone(list), func(i Info) bool { return i.Kind != Scheduled })
	return list[min(keep, len(list)):]
}
