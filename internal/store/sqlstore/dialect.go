package sqlstore

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

//go:embed sql/*.sql
var queryFiles embed.FS

// A Dialect is what differs between the two databases. Queries that differ
// stand next to each other in the .sql files, the second marked with the
// dialect's name.
type Dialect struct {
	name     string
	numbered bool // placeholders are $1, $2, … instead of ?
	shared   bool // other processes write too: keys are locked, changes announced
	types    *strings.Replacer
	queries  func() map[string]string
}

// SQLite is the dialect of a database that one process owns.
var SQLite = &Dialect{
	name:    "sqlite",
	types:   strings.NewReplacer("SERIAL_KEY", "INTEGER PRIMARY KEY", "BYTES", "BLOB", " COMPACT", " WITHOUT ROWID"),
	queries: sync.OnceValue(func() map[string]string { return mustLoad("sqlite") }),
}

// Postgres is the dialect of a database that any number of processes share.
var Postgres = &Dialect{
	name:     "postgres",
	numbered: true,
	shared:   true,
	types:    strings.NewReplacer("-- postgres: ", "", "SERIAL_KEY", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "BYTES", "BYTEA", " COMPACT", ""),
	queries:  sync.OnceValue(func() map[string]string { return mustLoad("postgres") }),
}

// query returns the dialect's text of a named query.
func (d *Dialect) query(name string) string {
	text, ok := d.queries()[name]
	if !ok {
		panic("sqlstore: no query named " + name)
	}
	return text
}

// list is an argument that stands for a whole "IN (?)".
type list []string

// bind spreads lists, numbers the placeholders where the dialect wants that,
// and makes every text one that both databases store.
func (d *Dialect) bind(text string, args []any) (string, []any) {
	spread := false
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = clean(a)
		case list:
			spread = true
		}
	}
	if !spread && !d.numbered {
		return text, args
	}
	var out strings.Builder
	out.Grow(len(text) + 3*len(args))
	var flat []any
	mark := func(v any) {
		flat = append(flat, v)
		if d.numbered {
			out.WriteByte('$')
			out.WriteString(strconv.Itoa(len(flat)))
		} else {
			out.WriteByte('?')
		}
	}
	next := 0
	for {
		at := strings.IndexByte(text, '?')
		if at < 0 {
			break
		}
		out.WriteString(text[:at])
		text = text[at+1:]
		if next >= len(args) {
			panic("sqlstore: fewer arguments than placeholders")
		}
		switch v := args[next].(type) {
		case list:
			if len(v) == 0 {
				out.WriteString("NULL")
			}
			for i, s := range v {
				if i > 0 {
					out.WriteString(", ")
				}
				mark(clean(s))
			}
		default:
			mark(v)
		}
		next++
	}
	out.WriteString(text)
	return out.String(), flat
}

// Queries reads the named queries of a driver's own file.
func Queries(file string) (map[string]string, error) {
	queries := map[string]string{}
	err := parseQueries(file, "", queries)
	return queries, err
}

// mustLoad reads the embedded queries for one dialect. A fault in them is a
// fault of the program, found by any test.
func mustLoad(dialect string) map[string]string {
	files, err := queryFiles.ReadDir("sql")
	if err != nil {
		panic(err)
	}
	queries := make(map[string]string)
	for _, f := range files {
		b, err := queryFiles.ReadFile("sql/" + f.Name())
		if err != nil {
			panic(err)
		}
		if err := parseQueries(string(b), dialect, queries); err != nil {
			panic(fmt.Sprintf("sqlstore: %s: %v", f.Name(), err))
		}
	}
	for name, text := range queries {
		queries[name] = expand(text, queries)
	}
	return queries
}

// parseQueries adds the queries of one file. A query begins with
// "-- name: NAME [DIALECT]" and ends at the next one; a variant for the
// dialect asked for wins over the plain one. Names that begin with @ are
// pieces that others include.
func parseQueries(file, dialect string, into map[string]string) error {
	var name, only string
	var body []string
	special := make(map[string]bool)
	end := func() {
		text := strings.TrimSpace(strings.Join(body, "\n"))
		body = nil
		if name == "" || (only != "" && only != dialect) || (only == "" && special[name]) {
			return
		}
		into[name] = text
		special[name] = only != ""
	}
	for line := range strings.Lines(file) {
		line = strings.TrimRight(line, "\r\n")
		if header, ok := strings.CutPrefix(line, "-- name: "); ok {
			end()
			fields := strings.Fields(header)
			switch len(fields) {
			case 1:
				name, only = fields[0], ""
			case 2:
				name, only = fields[0], fields[1]
			default:
				return fmt.Errorf("malformed header %q", line)
			}
			continue
		}
		if strings.HasPrefix(line, "--") {
			continue
		}
		body = append(body, line)
	}
	end()
	return nil
}

// expand puts the pieces a query names in their places. "@@" is PostgreSQL's
// match operator and stays.
func expand(text string, queries map[string]string) string {
	for from := 0; ; {
		at := strings.IndexByte(text[from:], '@')
		if at < 0 {
			return text
		}
		at += from
		if strings.HasPrefix(text[at:], "@@") {
			from = at + 2
			continue
		}
		end := at + 1
		for end < len(text) && text[end] >= 'a' && text[end] <= 'z' {
			end++
		}
		piece, ok := queries[text[at:end]]
		if !ok {
			panic("sqlstore: no piece named " + text[at:end])
		}
		text = text[:at] + piece + text[end:]
	}
}
