//go:build unix

// Package sweep kills Mercury at every point between which a kill must lose
// nothing.
package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/testenv"
	"github.com/mercury-agent/mercury/test/house"
)

// enough is how many kills a whole sweep makes at the least.
const enough = 200

// A life is one scene with at most one kill.
type life struct {
	database string // URL of PostgreSQL; empty: SQLite
	point    string // where the first process dies, as "name#n"; empty: nowhere
	next     string // program that starts after the kill; empty: the same
}

// play plays the scene and returns how many kills there were and, when none
// was wanted, the points the process reached, in order. What is wrong fails t.
func (l life) play(t *testing.T) (kills int, points []string) {
	t.Helper()
	w := house.NewWorld(t, house.SceneScript(), l.database)
	h := w.NewHouse(house.Program{Tags: "crashpoints"}.Build(t))
	ctx, done := house.Patience()
	defer done()
	list := filepath.Join(w.Dir, "points")
	env := []string{"MERCURY_CRASH_AT=" + l.point}
	if l.point == "" {
		env = []string{"MERCURY_CRASH_LOG=" + list}
	}
	if _, err := h.Start(env...); err != nil {
		t.Fatal(err)
	}
	if l.next != "" {
		h.Use(l.next)
	}
	kills, err := w.PlayOn(ctx, h)
	if err != nil {
		t.Fatalf("after %d kills: %v\n%s", kills, err, w.Describe(h))
	}
	late, err := h.Stop()
	if err != nil {
		t.Error(err)
	}
	for _, fault := range w.Check(ctx) {
		t.Error(fault)
	}
	if t.Failed() {
		t.Log(w.Describe(h))
	}
	if b, err := os.ReadFile(list); err == nil {
		points = numbered(strings.Fields(string(b)))
	}
	return kills + late, points
}

// numbered turns names into "name#n", for the n-th time of a name.
func numbered(names []string) []string {
	seen := map[string]int{}
	out := make([]string, len(names))
	for i, name := range names {
		seen[name]++
		out[i] = fmt.Sprintf("%s#%d", name, seen[name])
	}
	return out
}

// sweep plays the scene once without a kill, to learn the points, and then
// once for every step-th of them, with a kill there.
func sweep(t *testing.T, database func(testing.TB) string, next string, step int) {
	_, points := life{database: database(t)}.play(t)
	t.Logf("%d points:\n%s", len(points), strings.Join(points, "\n"))
	var kills, missed atomic.Int64
	begun := time.Now()
	t.Run("kill at", func(t *testing.T) {
		for i := 0; i < len(points); i += step {
			t.Run(points[i], func(t *testing.T) {
				t.Parallel()
				n, _ := life{database: database(t), point: points[i], next: next}.play(t)
				if kills.Add(int64(n)); n == 0 {
					missed.Add(1)
				}
			})
		}
	})
	t.Logf("%d points, %d kills, %d not reached again, in %v", len(points), kills.Load(), missed.Load(), time.Since(begun).Round(time.Second))
	// What runs side by side reaches some points in another order, and the
	// last of a name perhaps not at all.
	if want := enough / step; int(kills.Load()) < want {
		t.Errorf("%d kills, want %d or more", kills.Load(), want)
	}
}

func onSQLite(testing.TB) string { return "" }

// onPostgres lends databases, as many as there are scenes side by side, and
// empties each before its next scene: making a database takes the server
// longer than a scene.
func onPostgres(t *testing.T) func(testing.TB) string {
	const most = 8 // more scenes than any machine plays at once wait
	free := make(chan string, most)
	for range most {
		free <- ""
	}
	return func(user testing.TB) string {
		url := <-free
		if url == "" {
			url = testenv.Postgres(t)
		}
		user.Cleanup(func() { free <- url })
		house.Empty(user, url)
		return url
	}
}

func TestAKillAtAnyPointLosesAndRepeatsNothingOnSQLite(t *testing.T) {
	sweep(t, onSQLite, "", 1)
}

func TestAKillAtAnyPointLosesAndRepeatsNothingOnPostgreSQL(t *testing.T) {
	sweep(t, onPostgres(t), "", 1)
}

func TestAnotherVersionGoesOnWhereTheOldOneWasKilled(t *testing.T) {
	sweep(t, onSQLite, house.Program{Tags: "crashpoints", Version: "next"}.Build(t), 2)
}
