//go:build unix

// Package sweep kills Mercury at every point between which a kill must lose
// nothing.
package sweep

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/test/house"
)

// life plays the whole scene once, with one kill at point ("name#n"; empty:
// none), and returns what was found wrong, how many kills there were and the
// points of the first life, in the order they were reached.
func life(t *testing.T, database, point, next string) (faults []string, kills int, points []string) {
	t.Helper()
	first := house.Program{Tags: "crashpoints"}.Build(t)
	w := house.NewWorld(t, house.SceneScript(), database)
	h := w.NewHouse(first)
	ctx, done := house.Patience()
	defer done()
	list := filepath.Join(w.Dir, "points")
	env := []string{"MERCURY_CRASH_AT=" + point}
	if point == "" {
		env = append(env, "MERCURY_CRASH_LOG="+list)
	}
	if _, err := h.Start(env...); err != nil {
		t.Fatal(err)
	}
	if next != "" {
		h.Use(next)
	}
	tending, leave := context.WithCancel(ctx)
	tended := make(chan error, 1)
	go func() {
		var err error
		kills, err = h.Tend(tending)
		if err != nil {
			done()
		}
		tended <- err
	}()
	begun := time.Now()
	err := w.Play(ctx)
	played := time.Since(begun)
	leave()
	if err := <-tended; err != nil {
		t.Fatalf("after %d kills: %v", kills, err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, w.Describe(h))
	}
	if err := h.Stop(); err != nil {
		t.Error(err)
	}
	t.Logf("played in %v, %d kills", played.Round(time.Millisecond), kills)
	if b, err := os.ReadFile(list); err == nil {
		points = numbered(strings.Fields(string(b)))
	}
	faults = w.Check(ctx)
	if len(faults) > 0 {
		faults = append(faults, w.Describe(h))
	}
	return faults, kills, points
}

// numbered turns names into "name#n".
func numbered(names []string) []string {
	seen := map[string]int{}
	out := make([]string, len(names))
	for i, name := range names {
		seen[name]++
		out[i] = fmt.Sprintf("%s#%d", name, seen[name])
	}
	return out
}

func TestTheSceneHasManyPoints(t *testing.T) {
	faults, _, points := life(t, "", "", "")
	for _, f := range faults {
		t.Error(f)
	}
	for _, p := range points {
		t.Log(p)
	}
	if len(points) < 200 {
		t.Errorf("%d points, want 200 or more", len(points))
	}
}
