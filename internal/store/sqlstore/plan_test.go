package sqlstore

import (
	"database/sql"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

// pages are lists for people, read newest first until a page is full.
var pages = map[string]bool{"run.list": true, "delivery.list": true, "question.list": true, "audit.list": true, "occurrence.list": true}

// large are the tables that only grow. Reading one from end to end takes
// seconds one day.
var large = []string{"run", "b", "input", "entry", "step", "question", "delivery", "older", "ledger", "audit", "occurrence"}

func TestNoQueryReadsALargeTableFromEndToEnd(t *testing.T) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, m := range SQLite.Migrations() {
		for _, statement := range statements(m.Text) {
			if _, err := db.Exec(statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	explained := 0
	for name, text := range composedQueries() {
		if strings.Contains(text, "{table}") { // it is meant to read a whole one
			continue
		}
		args := make([]any, strings.Count(text, "?"))
		rows, err := db.Query("EXPLAIN QUERY PLAN "+text, args...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		explained++
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			f := strings.Fields(detail)
			if len(f) < 2 || f[0] != "SCAN" {
				continue
			}
			for _, table := range large {
				// A partial index over what is live may be read whole.
				partial := strings.Contains(detail, "run_ready") || strings.Contains(detail, "run_busy")
				if f[1] == table && !partial && !pages[name] {
					t.Errorf("%s: %s", name, detail)
				}
			}
		}
		rows.Close()
	}
	if explained < 60 {
		t.Errorf("only %d queries explained", explained)
	}
}

// composedQueries are the whole queries and those put together from pieces.
func composedQueries() map[string]string {
	q := SQLite.queries()
	out := make(map[string]string)
	for name, text := range q {
		first, _, _ := strings.Cut(text, " ")
		switch strings.ToUpper(first) {
		case "SELECT", "INSERT", "UPDATE", "DELETE":
			out[name] = text
		}
	}
	out["run.ready"] = q["run.ready"] + "\n" + q["run.ready.end"]
	out["run.ready.only"] = q["run.ready"] + "\n" + q["run.ready.only"] + "\n" + q["run.ready.end"]
	for _, by := range []string{"conversation", "parent", "key"} {
		out["run.list."+by] = q["run.list"] + "\n" + q["run.list."+by] + "\n" + q["run.list.end"]
	}
	out["run.list.dead"] = q["run.list"] + "\n" + q["run.list.states"] + "\n" + q["run.list.indexed"] + "\n" + q["run.list.end"]
	for _, by := range []string{"address", "conversation", "run"} {
		out["delivery.list."+by] = q["delivery.list"] + "\n" + q["delivery.list."+by] + "\n" + q["delivery.list.end"]
	}
	out["delivery.list.open"] = q["delivery.list"] + "\n" + q["delivery.list.states"] + "\n" + q["delivery.list.indexed"] + "\n" + q["delivery.list.end"]
	return out
}
