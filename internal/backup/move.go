package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/crash"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/homelock"
	"github.com/mercury-agent/mercury/internal/store/postgres"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

// movedFromKey is the fact of a database that was moved to: the incarnation it
// had before.
const movedFromKey = "moved.from"

// moving is the folder of a home in which a SQLite database is being filled.
const moving = ".moving"

// Moving says from where to where a home's database goes. An address is a URL
// of PostgreSQL, or empty for SQLite in the home.
type Moving struct {
	Home, Node string
	From, To   string
	// Switch makes the home's configuration name the new address. Before it
	// the home is as it was, after it everything is moved.
	Switch func() error
}

// Moved is what became of a move.
type Moved struct {
	Tables []store.Sum `json:"tables"`
	Old    string      `json:"old"` // where the former database is kept
}

// Move carries a home's database into another one, reads it back and compares
// count and checksum of each table, and keeps the old one under another name.
// The new one has an incarnation of its own. Nobody may work in the home or on
// its database meanwhile: the error is a *homelock.HeldError then, or a
// mercury.Conflict. After a kill the same call goes on.
func Move(ctx context.Context, m Moving) (Moved, error) {
	if (m.From == "") == (m.To == "") {
		return Moved{}, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("move database: it goes from SQLite to PostgreSQL or back"),
			Help: "To take it from one PostgreSQL server to another use the server's own dump."}
	}
	if err := Unfinished(m.Home); err != nil {
		return Moved{}, err
	}
	do := m.toPostgres
	if m.To == "" {
		do = m.toSQLite
	}
	moved, err := do(ctx)
	if err != nil {
		return moved, fmt.Errorf("move database: %w", full(err))
	}
	return moved, nil
}

func (m Moving) toPostgres(ctx context.Context) (moved Moved, err error) {
	if _, err := os.Stat(filepath.Join(m.Home, sqlite.FileName)); errors.Is(err, fs.ErrNotExist) {
		return moved, &mercury.Error{Kind: mercury.NotFound, Err: errors.New("there is no database in the home yet"),
			Help: "Set database.url in mercury.yaml instead: a new home may begin there."}
	}
	from, err := sqlite.Open(ctx, m.Home, sqlite.Options{}) // takes the home
	if err != nil {
		return moved, err
	}
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, from.Close())
		}
	}()
	to, err := postgres.Open(ctx, m.To, postgres.Options{})
	if err != nil {
		return moved, err
	}
	defer to.Close()
	here := Station{Home: m.Home, Node: m.Node, Store: from}
	there := Station{Home: m.Home, Node: m.Node, Store: to, Shared: true}
	if moved.Tables, err = carryOver(ctx, here, there); err != nil {
		return moved, err
	}
	crash.Reach("move.copied")
	if err := m.Switch(); err != nil {
		return moved, err
	}
	crash.Reach("move.switched")
	closed = true
	if err := from.Close(); err != nil {
		return moved, err
	}
	moved.Old, err = aside(m.Home)
	return moved, err
}

func (m Moving) toSQLite(ctx context.Context) (moved Moved, err error) {
	lock, err := homelock.Take(m.Home, "")
	if err != nil {
		return moved, err
	}
	defer lock.Release()
	from, err := postgres.Open(ctx, m.From, postgres.Options{})
	if err != nil {
		return moved, err
	}
	defer from.Close()
	if err := lonely(ctx, from); err != nil {
		return moved, err
	}
	stage := filepath.Join(m.Home, moving)
	if err := os.RemoveAll(stage); err != nil {
		return moved, err
	}
	defer os.RemoveAll(stage)
	to, err := sqlite.Open(ctx, stage, sqlite.Options{})
	if err != nil {
		return moved, err
	}
	here := Station{Home: m.Home, Node: m.Node, Store: from, Shared: true}
	there := Station{Home: m.Home, Node: m.Node, Store: to}
	moved.Tables, err = carryOver(ctx, here, there)
	if err := errors.Join(err, to.Close()); err != nil {
		return moved, err
	}
	crash.Reach("move.copied")
	if err := m.settle(stage); err != nil {
		return moved, err
	}
	crash.Reach("move.settled")
	if err := m.Switch(); err != nil {
		return moved, err
	}
	crash.Reach("move.switched")
	schema, err := from.(*postgres.Store).Aside(ctx, time.Now())
	moved.Old = "the schema " + schema
	return moved, err
}

// lonely refuses a shared database on which others are at work.
func lonely(ctx context.Context, s store.Store) error {
	var names []string
	err := s.View(ctx, func(tx store.Tx) error {
		names = nil
		all, err := tx.Processes()
		for _, p := range all {
			if p.LeaseUntil.After(tx.Now()) {
				names = append(names, p.Name)
			}
		}
		return err
	})
	if err != nil || len(names) == 0 {
		return err
	}
	return &mercury.Error{Kind: mercury.Conflict, Err: fmt.Errorf("at work on the database: %s", strings.Join(names, ", ")),
		Help: "Stop every Mercury that shares it; one that was killed counts for half a minute."}
}

// carryOver copies here to there under a new incarnation, which the home
// expects from then on beside the old one.
func carryOver(ctx context.Context, here, there Station) ([]store.Sum, error) {
	_, count, err := here.Recognise(ctx)
	if err != nil {
		return nil, err
	}
	if err := count(ctx); err != nil {
		return nil, err
	}
	old, err := here.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := there.replaceable(ctx, old.Incarnation); err != nil {
		return nil, err
	}
	next := identity{mercury.NewID("inc"), 1}
	if err := writeRecord(here.Home, record{old.identity, &next}); err != nil {
		return nil, err
	}
	return store.Copy(ctx, here.Store.(store.Portable), there.Store.(store.Portable), func(w store.Writer) error {
		facts, err := factsOf(w)
		if err != nil {
			return err
		}
		changed := map[string]string{incarnationKey: next.Incarnation, there.bootKey(): "1", movedFromKey: old.Incarnation}
		for key := range facts { // starts of other homes, and of this one on the old database
			if _, ours := changed[key]; !ours && (key == bootKey || strings.HasPrefix(key, bootKey+"/")) {
				changed[key] = ""
			}
		}
		for key, value := range changed {
			if err := w.SetMeta(key, value); err != nil {
				return err
			}
		}
		return nil
	})
}

// replaceable refuses a database that holds something, unless it is what an
// earlier move of this home left and nobody has used since.
func (s Station) replaceable(ctx context.Context, incarnation string) error {
	return s.Store.(store.Portable).Export(ctx, func(r store.Reader) error {
		tables, err := store.Kept(r)
		if err != nil {
			return err
		}
		facts, err := factsOf(r)
		if err != nil {
			return err
		}
		found := ""
		for _, t := range tables {
			if t.Name == metaTable {
				continue
			}
			err := r.Rows(t, func([]any) error { return errSomething })
			if errors.Is(err, errSomething) {
				found = t.Name
			} else if err != nil {
				return err
			}
		}
		if found == "" && facts[incarnationKey] == "" {
			return nil
		}
		unused := facts[movedFromKey] != "" && facts[movedFromKey] == incarnation
		for key, value := range facts {
			if strings.HasPrefix(key, bootKey+"/") && value != "" && (key != s.bootKey() || value != "1") {
				unused = false
			}
		}
		if unused {
			return nil
		}
		return &mercury.Error{Kind: mercury.Conflict, Err: errors.New("the database it should go to holds a Mercury's data already"),
			Help: "Name an empty database; nothing was changed in either."}
	})
}

var errSomething = errors.New("there is something")

// metaTable holds facts about a database itself.
const metaTable = "meta"

func factsOf(r store.Reader) (map[string]string, error) {
	facts := map[string]string{}
	key, value := store.Column{Name: "key", Type: store.TextColumn, Key: 1}, store.Column{Name: "value", Type: store.TextColumn}
	err := r.Rows(store.Table{Name: metaTable, Columns: []store.Column{key, value}}, func(values []any) error {
		facts[values[0].(string)] = values[1].(string)
		return nil
	})
	return facts, err
}

// aside gives the home's SQLite database another name, which it returns.
func aside(home string) (string, error) {
	path := filepath.Join(home, sqlite.FileName)
	old := path + ".moved-" + time.Now().UTC().Format("20060102T150405Z")
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := os.Rename(path+suffix, old+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return old, syncDir(home)
}

// settle gives what was filled in stage its place in the home: contents first.
func (m Moving) settle(stage string) error {
	if _, err := os.Stat(filepath.Join(m.Home, sqlite.FileName)); err == nil {
		if _, err := aside(m.Home); err != nil { // not in use: the home is on PostgreSQL
			return err
		}
	}
	from, to := filepath.Join(stage, "files"), filepath.Join(m.Home, "files")
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		return os.Rename(path, filepath.Join(to, name))
	})
	if err != nil {
		return err
	}
	if err := syncTree(to); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(stage, sqlite.FileName), filepath.Join(m.Home, sqlite.FileName)); err != nil {
		return err
	}
	return syncDir(m.Home)
}
