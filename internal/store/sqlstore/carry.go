package sqlstore

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/store"
)

// blobTable holds contents where the database keeps them. They are carried as
// contents, since a SQLite home has files instead.
const blobTable = "blob"

// findable are the tables and columns that only make rows findable. They are not
// carried: a table of them fills by itself from what it lacks, a column is
// reckoned as its row arrives.
var (
	findableTables = []string{"entry_words", "entry_mark"}
	findableColumn = store.Column{Name: "words", Type: store.TextColumn} // of memoryTable
)

const memoryTable = "memory"

var createTable = regexp.MustCompile(`(?m)^CREATE TABLE (?:IF NOT EXISTS )?(\w+)`)

// own reports whether the migrations make a table of that name: a shared
// server may have tables of others in the same schema.
func (d *Dialect) own(name string) bool {
	for _, m := range d.Migrations() {
		for _, found := range createTable.FindAllStringSubmatch(m.Text, -1) {
			if found[1] == name {
				return true
			}
		}
	}
	return false
}

// Tables describes the tables of the schema, by name, but for the one that
// holds contents.
func (tx *Tx) Tables() ([]store.Table, error) {
	rows, err := tx.query("carry.columns")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var tables []store.Table
	for rows.Next() {
		var table, kind string
		var c store.Column
		if err := rows.Scan(&table, &c.Name, &kind, &c.Key, &c.Serial); err != nil {
			return nil, tx.classify(err)
		}
		if table == blobTable || slices.Contains(findableTables, table) || !tx.dialect.own(table) ||
			table == memoryTable && c.Name == findableColumn.Name {
			continue
		}
		switch strings.ToLower(kind) {
		case "text":
			c.Type = store.TextColumn
		case "bigint", "integer":
			c.Type = store.NumberColumn
		case "double precision":
			c.Type = store.RealColumn
		case "blob", "bytea":
			c.Type = store.BytesColumn
		default:
			return nil, fmt.Errorf("column %s.%s has the type %s, which no copy knows", table, c.Name, kind)
		}
		if n := len(tables); n == 0 || tables[n-1].Name != table {
			tables = append(tables, store.Table{Name: table})
		}
		last := &tables[len(tables)-1]
		last.Columns = append(last.Columns, c)
	}
	slices.SortFunc(tables, func(a, b store.Table) int { return cmp.Compare(a.Name, b.Name) })
	for i := range tables { // the same order everywhere, so that sums are comparable
		slices.SortFunc(tables[i].Columns, func(a, b store.Column) int { return cmp.Compare(a.Name, b.Name) })
	}
	return tables, tx.close(rows)
}

// fill puts names into a query about whole tables.
func (tx *Tx) fill(name string, t store.Table, more ...string) string {
	var columns []string
	key := make([]string, len(t.Columns)+1)
	serial := ""
	for _, c := range t.Columns {
		columns = append(columns, quoteName(c.Name))
		key[c.Key] = quoteName(c.Name)
		if tx.dialect.shared && c.Type == store.TextColumn {
			key[c.Key] += ` COLLATE "C"` // byte by byte, as SQLite does
		}
		if c.Serial {
			serial = c.Name
		}
	}
	key = slices.DeleteFunc(key[1:], func(s string) bool { return s == "" })
	order := ""
	if len(key) > 0 {
		order = " ORDER BY " + strings.Join(key, ", ")
	}
	pairs := append([]string{"{table}", quoteName(t.Name), "{columns}", strings.Join(columns, ", "),
		"{order}", order, "{serial}", serial}, more...)
	return strings.NewReplacer(pairs...).Replace(tx.dialect.query(name))
}

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Rows hands over every row of t in the order of its key, as far as t names it.
func (tx *Tx) Rows(t store.Table, each func(values []any) error) error {
	rows, err := tx.queryText(tx.fill("carry.read", t))
	if err != nil {
		return err
	}
	defer rows.Close()
	values, into := make([]any, len(t.Columns)), make([]any, len(t.Columns))
	texts, numbers := make([]string, len(t.Columns)), make([]int64, len(t.Columns))
	contents, fractions := make([][]byte, len(t.Columns)), make([]float64, len(t.Columns))
	for i, c := range t.Columns {
		switch c.Type {
		case store.TextColumn:
			into[i] = &texts[i]
		case store.NumberColumn:
			into[i] = &numbers[i]
		case store.RealColumn:
			into[i] = &fractions[i]
		default:
			into[i] = &contents[i]
		}
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return tx.classify(err)
		}
		for i, c := range t.Columns {
			switch c.Type {
			case store.TextColumn:
				values[i] = texts[i]
			case store.NumberColumn:
				values[i] = numbers[i]
			case store.RealColumn:
				values[i] = fractions[i]
			default:
				values[i] = contents[i]
			}
		}
		if err := each(values); err != nil {
			return err
		}
	}
	return tx.close(rows)
}

// Insert adds rows as they are, counted numbers too.
func (tx *Tx) Insert(t store.Table, rows [][]any) error {
	if t.Name == memoryTable {
		t, rows = tx.findable(t, rows)
	}
	one := "(" + strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", ") + ")"
	marks := strings.TrimSuffix(strings.Repeat(one+", ", len(rows)), ", ")
	return tx.execText(tx.fill("carry.insert", t, "{rows}", marks), slices.Concat(rows...)...)
}

// findable adds to rows of memories the forms they are found by, where the
// database holds those.
func (tx *Tx) findable(t store.Table, rows [][]any) (store.Table, [][]any) {
	value := func(row []any, column string) string {
		i := slices.IndexFunc(t.Columns, func(c store.Column) bool { return c.Name == column })
		s, _ := row[i].(string)
		return s
	}
	wider := make([][]any, len(rows))
	for i, row := range rows {
		forms := tx.memoryForms(value(row, "state"), value(row, "summary"), value(row, "detail"))
		wider[i] = append(slices.Clone(row), forms)
	}
	t.Columns = append(slices.Clone(t.Columns), findableColumn)
	return t, wider
}

// Clear removes every row of t, and what makes them findable.
func (tx *Tx) Clear(t store.Table) error {
	if t.Name == "entry" {
		for _, name := range findableTables {
			if err := tx.execText(tx.fill("carry.clear", store.Table{Name: name})); err != nil {
				return err
			}
		}
	}
	return tx.execText(tx.fill("carry.clear", t))
}

// Filled lets a counter go on after the highest number that was inserted.
// SQLite does so by itself.
func (tx *Tx) Filled(t store.Table) error {
	if !tx.dialect.shared || !slices.ContainsFunc(t.Columns, func(c store.Column) bool { return c.Serial }) {
		return nil
	}
	return tx.execText(tx.fill("carry.filled", t))
}

func (tx *Tx) execText(text string, args ...any) error {
	if tx.readOnly {
		return errReadOnlyTx
	}
	text, args = tx.dialect.bind(text, args)
	_, err := tx.conn.ExecContext(tx.ctx, text, args...)
	return tx.classify(err)
}

// Contents hands over every content that the database keeps in rows.
func (tx *Tx) Contents(each func(ref string, content []byte) error) error {
	rows, err := tx.query("carry.contents")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var ref string
		var content []byte
		if err := rows.Scan(&ref, &content); err != nil {
			return tx.classify(err)
		}
		if err := each(ref, content); err != nil {
			return err
		}
	}
	return tx.close(rows)
}

// PutContent keeps a content in a row.
func (tx *Tx) PutContent(ref string, content []byte) error { return tx.PutBlob(ref, content) }

// ClearContents removes the contents an earlier copy left.
func (tx *Tx) ClearContents() error { return tx.execText(tx.dialect.query("carry.cleancontents")) }

// Unhurried lifts the server's limits of time from this transaction.
func (tx *Tx) Unhurried() error {
	rows, err := tx.query("carry.unhurried")
	if err != nil {
		return err
	}
	return tx.close(rows)
}

// Aside moves every table into a schema of that name, made for it, so that the
// place is free and nothing is lost.
func (tx *Tx) Aside(schema string) error {
	tables, err := tx.Tables()
	if err != nil {
		return err
	}
	name := quoteName(schema)
	if err := tx.execText(tx.fill("carry.schema", store.Table{}, "{schema}", name)); err != nil {
		return err
	}
	for _, name := range slices.Concat(findableTables, []string{blobTable}) {
		tables = append(tables, store.Table{Name: name})
	}
	for _, t := range tables {
		if err := tx.execText(tx.fill("carry.aside", t, "{schema}", name)); err != nil {
			return err
		}
	}
	return nil
}
