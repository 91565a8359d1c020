package sqlstore

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mercury-agent/mercury/internal/store"
)

func TestBothDialectsHaveTheSameQueries(t *testing.T) {
	only := map[string]bool{"clock": true, "notify": true, "run.keylock": true, "schema.lock": true,
		"schema.patience": true, "encoding": true, "info.bytes": true,
		"carry.filled": true, "carry.contents": true, "carry.cleancontents": true, "carry.unhurried": true, "carry.schema": true, "carry.aside": true}
	lite, pg := SQLite.queries(), Postgres.queries()
	for name := range lite {
		if _, ok := pg[name]; !ok {
			t.Errorf("%s is missing in PostgreSQL's dialect", name)
		}
	}
	for name := range pg {
		if _, ok := lite[name]; !ok && !only[name] {
			t.Errorf("%s is missing in SQLite's dialect", name)
		}
	}
}

func TestPlaceholdersAreNumberedAndListsSpread(t *testing.T) {
	for _, tt := range []struct {
		name    string
		dialect *Dialect
		text    string
		args    []any
		want    string
		flat    []any
	}{
		{"plain", SQLite, "a = ? AND b = ?", []any{1, "x"}, "a = ? AND b = ?", []any{1, "x"}},
		{"numbered", Postgres, "a = ? AND b = ?", []any{1, "x"}, "a = $1 AND b = $2", []any{1, "x"}},
		{"a list", SQLite, "a IN (?) AND b = ?", []any{list{"x", "y"}, 1}, "a IN (?, ?) AND b = ?", []any{"x", "y", 1}},
		{"a numbered list", Postgres, "a IN (?) AND b = ?", []any{list{"x", "y"}, 1}, "a IN ($1, $2) AND b = $3",
			[]any{"x", "y", 1}},
		{"an empty list", Postgres, "a IN (?) AND b = ?", []any{list{}, 1}, "a IN (NULL) AND b = $1", []any{1}},
		{"hostile text", SQLite, "a = ?", []any{"\x00?"}, "a = ?", []any{"\ufffd?"}},
		{"hostile text in a list", Postgres, "a IN (?)", []any{list{"\xff$1"}}, "a IN ($1)", []any{"\ufffd$1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, flat := tt.dialect.bind(tt.text, tt.args)
			if text != tt.want || !reflect.DeepEqual(flat, tt.flat) {
				t.Errorf("got %q %q, want %q %q", text, flat, tt.want, tt.flat)
			}
		})
	}
}

func TestAVariantWinsWhereverItStands(t *testing.T) {
	const file = "-- name: @cols\na, b\n-- name: x\nSELECT @cols\n-- a remark?\n-- name: x postgres\nSELECT 2\n" +
		"-- name: y postgres\nSELECT 3\n-- name: y\nSELECT 4\n"
	for dialect, want := range map[string]map[string]string{
		"sqlite":   {"@cols": "a, b", "x": "SELECT @cols", "y": "SELECT 4"},
		"postgres": {"@cols": "a, b", "x": "SELECT 2", "y": "SELECT 3"},
	} {
		got := make(map[string]string)
		if err := parseQueries(file, dialect, got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q", dialect, got)
		}
	}
	if got := expand("SELECT @cols FROM t", map[string]string{"@cols": "a, b"}); got != "SELECT a, b FROM t" {
		t.Errorf("expanded to %q", got)
	}
	if err := parseQueries("-- name: a b c\n", "sqlite", map[string]string{}); err == nil {
		t.Error("a malformed header passed")
	}
}

func TestAMigrationIsSplitAtSemicolonsThatEndALine(t *testing.T) {
	got := statements("-- a remark; with one\nCREATE TABLE a (\n    b TEXT DEFAULT ';x'\n);\n\nDROP TABLE b;\nSELECT 1")
	want := []string{"CREATE TABLE a (\n    b TEXT DEFAULT ';x'\n)", "DROP TABLE b", "SELECT 1"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	all := []Migration{{Version: 1}, {Version: 2}}
	if _, err := Pending(all, 3); !errors.Is(err, store.ErrNewer) {
		t.Errorf("got %v, want ErrNewer", err)
	}
	if p, err := Pending(all, 1); err != nil || len(p) != 1 || p[0].Version != 2 {
		t.Errorf("got %v, %v", p, err)
	}
}

func TestTimesKeepTheirMicroseconds(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(1, 999_999_000), time.Unix(-1, 1000), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		got := moment(micros(at))
		if !got.Equal(at) || (!got.IsZero() && got.Location() != time.UTC) {
			t.Errorf("%v came back as %v", at, got)
		}
	}
}

func FuzzCleanTextIsStorableAndStaysSo(f *testing.F) {
	f.Add("a\x00b")
	f.Add("\xff\xfe")
	f.Add("ok ☕")
	f.Fuzz(func(t *testing.T, s string) {
		c := clean(s)
		if strings.IndexByte(c, 0) >= 0 || !utf8.ValidString(c) {
			t.Errorf("%q is not storable", c)
		}
		if clean(c) != c {
			t.Errorf("%q changes again", c)
		}
		if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 && c != s {
			t.Errorf("%q was changed to %q", s, c)
		}
	})
}
