//go:build unix

// Package cluster runs several Mercury processes on one database, and kills
// and freezes them.
package cluster

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mercury-agent/mercury/internal/testenv"
	"github.com/mercury-agent/mercury/test/house"
)

// A process that has not renewed its lease for lease is taken for dead;
// survivors have slack to notice, finish what it had in hand and start what
// waited.
const (
	lease = 25 * time.Second
	slack = 10 * time.Second
)

// neighbours starts n more houses in w.
func neighbours(t *testing.T, w *house.World, program string, n int) []*house.House {
	t.Helper()
	var all []*house.House
	for range n {
		h := w.NewHouse(program)
		if ok, err := h.Start(); err != nil || !ok {
			t.Fatalf("start a neighbour: %v", err)
		}
		all = append(all, h)
	}
	return all
}

// underWay waits until the scene's command and its slow answer are in hand.
func underWay(ctx context.Context, w *house.World) error {
	return house.Until(ctx, func() (bool, error) { return w.Exists("once.started") && w.AskedFor("slow: think"), nil })
}

// finish stops the houses that live and holds the world to its promises.
func finish(t *testing.T, w *house.World, living ...*house.House) {
	t.Helper()
	for _, h := range living {
		begun := time.Now()
		if _, err := h.Stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("an idle process took %v to stop:\n%s", took, w.Describe(h))
		}
	}
	for _, fault := range w.Check(context.Background()) {
		t.Error(fault)
	}
	if t.Failed() {
		for _, h := range living {
			t.Log(w.Describe(h))
		}
	}
}

func TestSurvivorsFinishWhatAKilledProcessHadInHand(t *testing.T) {
	program := house.Program{}.Build(t)
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n, " processes"), func(t *testing.T) {
			t.Parallel()
			w := house.NewWorld(t, house.SceneScript(), testenv.Postgres(t))
			w.Hold("once")
			w.Hold("den")
			first := neighbours(t, w, program, 1)[0]
			ctx, done := house.Patience()
			defer done()
			var scene errgroup.Group
			scene.Go(func() error { return w.Play(ctx) })
			if err := underWay(ctx, w); err != nil {
				t.Fatal(err)
			}
			others := neighbours(t, w, program, n-1)
			first.Kill()
			killed := time.Now()
			w.Release("once")
			w.Release("den")
			if err := scene.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, w.Describe(others[0]))
			}
			if took := time.Since(killed); took > lease+slack {
				t.Errorf("finished %v after the kill, want within %v", took, lease+slack)
			} else {
				t.Logf("finished %v after the kill", took.Round(100*time.Millisecond))
			}
			if most := w.Pollers(); most != 1 {
				t.Errorf("%d processes polled the bridge at one time", most)
			}
			finish(t, w, others...)
		})
	}
}

func TestAProcessFrozenBeyondItsLeaseWritesNothingStaleWhenItThaws(t *testing.T) {
	program := house.Program{}.Build(t)
	for _, n := range []int{2, 3} {
		t.Run(fmt.Sprint(n, " processes"), func(t *testing.T) {
			t.Parallel()
			w := house.NewWorld(t, house.SceneScript(), testenv.Postgres(t))
			w.Hold("once")
			w.Hold("den")
			first := neighbours(t, w, program, 1)[0]
			ctx, done := house.Patience()
			defer done()
			var scene errgroup.Group
			scene.Go(func() error { return w.Play(ctx) })
			if err := underWay(ctx, w); err != nil {
				t.Fatal(err)
			}
			others := neighbours(t, w, program, n-1)
			freeze(t, first, true)
			frozen := time.Now()
			w.Leave(first)
			w.Release("once")
			w.Release("den")
			if err := scene.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, w.Describe(others[0]))
			}
			if took := time.Since(frozen); took > lease+slack {
				t.Errorf("finished %v after the freeze, want within %v", took, lease+slack)
			} else {
				t.Logf("finished %v after the freeze", took.Round(100*time.Millisecond))
			}
			freeze(t, first, false)
			thawed := time.Now()
			// It finds out that it was declared dead, and works again.
			if err := w.Return(ctx, first); err != nil {
				t.Fatal(err)
			}
			if err := w.Say(ctx, "flaky", "flaky: after the thaw", "follow-up"); err != nil {
				t.Fatal(err)
			}
			if err := w.Quiescent(ctx); err != nil {
				t.Fatal(err)
			}
			t.Logf("at rest %v after the thaw", time.Since(thawed).Round(100*time.Millisecond))
			finish(t, w, append(others, first)...)
		})
	}
}

func freeze(t *testing.T, h *house.House, stop bool) {
	t.Helper()
	s := os.Signal(syscall.SIGCONT)
	if stop {
		s = syscall.SIGSTOP
	}
	if err := h.Life().Signal(s); err != nil {
		t.Fatal(err)
	}
}

func TestWorkGoesOnWhenTheDatabaseDropsAllConnections(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t)
	w := house.NewWorld(t, house.SceneScript(), url)
	h := neighbours(t, w, house.Program{}.Build(t), 1)[0]
	ctx, done := house.Patience()
	defer done()
	var scene errgroup.Group
	over := make(chan struct{})
	scene.Go(func() error {
		defer close(over)
		_, err := w.PlayOn(ctx, h)
		return err
	})
	drops := 0
	for tick := time.NewTicker(150 * time.Millisecond); drops < 10; drops++ {
		select {
		case <-tick.C:
			house.Disconnect(t, url)
			continue
		case <-over:
		}
		tick.Stop()
		break
	}
	if err := scene.Wait(); err != nil {
		t.Fatalf("after %d drops: %v\n%s", drops, err, w.Describe(h))
	}
	if drops == 0 {
		t.Error("the scene was over before the first drop")
	}
	t.Logf("all connections dropped %d times", drops)
	finish(t, w, h)
}
