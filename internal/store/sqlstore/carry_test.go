package sqlstore

import (
	"slices"
	"testing"
)

// A copy is driven by the schema. A table that one database has and the other
// lacks, or that has no key to be read in order by, could not be carried.
func TestEveryTableOfAMigrationIsMadeOnBothDatabases(t *testing.T) {
	names := func(d *Dialect) (all []string) {
		for _, m := range d.Migrations() {
			for _, found := range createTable.FindAllStringSubmatch(m.Text, -1) {
				all = append(all, found[1])
			}
		}
		slices.Sort(all)
		return all
	}
	here, there := names(SQLite), names(Postgres)
	if !slices.Equal(here, there) || len(here) < 10 || !slices.Contains(here, "entry") {
		t.Errorf("SQLite has %v, PostgreSQL %v", here, there)
	}
}
