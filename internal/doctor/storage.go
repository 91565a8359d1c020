package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/mercury-agent/mercury/internal/backup"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/postgres"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

// Storage is what a home keeps, where, and what goes next.
type Storage struct {
	Engine  string   `json:"engine"` // "sqlite" or "postgres"
	Where   string   `json:"where"`  // path, or address without its password
	Schema  int      `json:"schema"`
	Tables  []Rows   `json:"tables"`
	Places  []Place  `json:"places"`
	Removes []string `json:"removes_next"` // what retention removes, in words
}

// Rows is how many rows a table has.
type Rows struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
}

// Place is a file or folder of the home.
type Place struct {
	Path  string `json:"path"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// grace is how old a content that nothing names must be before it is swept.
const grace = time.Hour

// Survey measures what a home keeps. It changes nothing and works beside a
// running Mercury.
func Survey(ctx context.Context, home config.Home, c *config.Config) (Storage, error) {
	url, err := c.Database.URL.Value()
	if err != nil {
		return Storage{}, err
	}
	s := Storage{Engine: "sqlite", Where: home.Database()}
	read := func(tx store.Tx, schema, known int) error { return s.database(tx, schema, known, home) }
	if url == "" {
		err = sqlite.Look(ctx, home.Dir(), false, read)
	} else {
		s.Engine, s.Where = "postgres", postgres.Where(url)
		err = postgres.Look(ctx, url, read)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return s, fmt.Errorf("survey: %w", err)
	}
	for _, name := range []string{"mercury.db", "mercury.db-wal", "files", "backups", "logs", "soul", "skills", "bots"} {
		if p := measure(filepath.Join(home.Dir(), name)); p.Files > 0 {
			s.Places = append(s.Places, p)
		}
	}
	old, err := filepath.Glob(home.Database() + ".moved-*")
	if err != nil {
		return s, err
	}
	for _, path := range old {
		s.Places = append(s.Places, measure(path))
	}
	return s, s.rotation(home, c)
}

func (s *Storage) database(tx store.Tx, schema, known int, home config.Home) error {
	s.Schema = schema
	r, ok := tx.(store.Reader)
	if !ok || schema != known {
		return nil
	}
	tables, err := r.Tables()
	if err != nil {
		return err
	}
	for _, t := range tables {
		key := store.Table{Name: t.Name}
		for _, c := range t.Columns {
			if c.Key > 0 {
				key.Columns = append(key.Columns, c)
			}
		}
		n := int64(0)
		if err := r.Rows(key, func([]any) error { n++; return nil }); err != nil {
			return err
		}
		s.Tables = append(s.Tables, Rows{t.Name, n})
	}
	wanted, err := backup.Wanted(r)
	if err != nil {
		return err
	}
	return s.unnamed(home, wanted)
}

// unnamed counts contents that nothing names and that are old enough to go.
func (s *Storage) unnamed(home config.Home, wanted map[string]bool) error {
	n, bytes := 0, int64(0)
	found, err := filepath.Glob(filepath.Join(home.Files(), "[0-9a-f][0-9a-f]", "*"))
	if err != nil {
		return err
	}
	for _, path := range found {
		info, err := os.Stat(path)
		if err == nil && len(filepath.Base(path)) == 64 && !wanted[filepath.Base(path)] && time.Since(info.ModTime()) > grace {
			n++
			bytes += info.Size()
		}
	}
	if n > 0 {
		s.Removes = append(s.Removes, fmt.Sprintf("%s that nothing refers to any more, %d KB, after the next scheduled backup", some(n, "large output", "large outputs"), bytes>>10))
	}
	return nil
}

// rotation says which backup goes when the next one is made.
func (s *Storage) rotation(home config.Home, c *config.Config) error {
	list, err := backup.List(home.Dir())
	if err != nil || c.Backup.Every == 0 {
		return err
	}
	for _, b := range backup.Surplus(list, c.Backup.Keep-1) {
		s.Removes = append(s.Removes, fmt.Sprintf("the backup %s, %d KB, when the next one is made", b.Name, b.Bytes>>10))
	}
	return nil
}

// measure adds up what lies at path. What cannot be read counts as nothing.
func measure(path string) Place {
	p := Place{Path: path}
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // gone meanwhile, or closed to us
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			p.Files++
			p.Bytes += info.Size()
		}
		return nil
	})
	return p
}
