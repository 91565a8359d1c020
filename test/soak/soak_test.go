//go:build unix

// Package soak kills Mercury again and again, at moments nobody chose.
package soak

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/testenv"
	"github.com/mercury-agent/mercury/test/house"
)

// brief is how many kills an ordinary test run makes.
const brief = 20

// perScene is how many lives of one scene end early. A run that kills five
// owners in a row without getting on is given up, as it should be; so few
// deaths never look like that.
const perScene = 4

// soak plays scenes one after the other, each in a new world, with kills at
// random points and random times, for the length of a soak.
func soak(t *testing.T, database func() string) {
	program := house.Program{Tags: "crashpoints"}.Build(t)
	begun := time.Now()
	end := begun.Add(testenv.Soak(t, 0))
	seed := rand.Uint64()
	luck := rand.New(rand.NewPCG(seed, 1))
	kills, scenes := 0, 0
	for ; kills < brief || time.Now().Before(end); scenes++ {
		t.Run(fmt.Sprintf("scene %d of seed %d", scenes, seed), func(t *testing.T) {
			kills += scene(t, program, database(), luck)
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("%d kills in %d scenes and %v", kills, scenes, time.Since(begun).Round(time.Second))
}

func scene(t *testing.T, program, database string, luck *rand.Rand) int {
	w := house.NewWorld(t, house.SceneScript(), database)
	h := w.NewHouse(program)
	doomed := perScene
	h.Fate = func() []string {
		if doomed--; doomed < 0 {
			return nil
		}
		if luck.IntN(2) == 0 {
			return []string{fmt.Sprintf("MERCURY_CRASH_AT=%d", 1+luck.IntN(200))}
		}
		timer := time.AfterFunc(time.Duration(luck.IntN(800))*time.Millisecond, h.Kill)
		t.Cleanup(func() { timer.Stop() })
		return nil
	}
	ctx, done := house.Patience()
	defer done()
	if _, err := h.Start(); err != nil {
		t.Fatal(err)
	}
	kills, err := w.PlayOn(ctx, h)
	if err != nil {
		t.Fatalf("after %d kills: %v\n%s", kills, err, w.Describe(h))
	}
	doomed = 0
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
	return kills + late
}

func TestRandomKillsLoseAndRepeatNothingOnSQLiteSoak(t *testing.T) {
	soak(t, func() string { return "" })
}

func TestRandomKillsLoseAndRepeatNothingOnPostgreSQLSoak(t *testing.T) {
	url := testenv.Postgres(t)
	soak(t, func() string {
		house.Empty(t, url)
		return url
	})
}
