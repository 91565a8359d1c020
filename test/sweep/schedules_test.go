//go:build unix

package sweep

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/test/house"
)

// routine are the schedules of one life, each with what people see of it.
var routine = []struct {
	draft schedule.Draft
	shows string
}{
	{schedule.Draft{Name: "reminder", When: "in 1 second", Send: "The tea is ready.", Destination: "relay/room"}, "The tea is ready."},
	{schedule.Draft{Name: "digest", When: "in 1 second", Prompt: "report", Destination: "relay/room"}, "All quiet."},
	{schedule.Draft{Name: "command", When: "in 1 second", Command: "cat apple.txt", Destination: "relay/room"}, "red"},
	{schedule.Draft{Name: "checked", When: "in 1 second", Precheck: "cat apple.txt", Prompt: "is it green?", Destination: "relay/room"}, "It is red."},
}

// follow adds the schedules to a house that may die at any point and starts it
// again until all of them have come. It returns the kills and the points.
func follow(t *testing.T, point string) (kills int, points []string) {
	t.Helper()
	w := house.NewWorld(t, llmtest.Script{Rules: []llmtest.Rule{{Match: "report", Reply: "All quiet."}, {Match: "green", Reply: "It is red."}}}, "")
	if err := os.WriteFile(filepath.Join(w.Workspace, "apple.txt"), []byte("red\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := w.NewHouse(house.Program{Tags: "crashpoints"}.Build(t))
	list := filepath.Join(w.Dir, "points")
	env := []string{"MERCURY_CRASH_AT=" + point}
	if point == "" {
		env = []string{"MERCURY_CRASH_LOG=" + list}
	}
	ctx, done := house.Patience()
	defer done()
	if _, err := h.Start(env...); err != nil {
		t.Fatal(err)
	}
	tending, rest := context.WithCancel(ctx)
	deaths := make(chan int, 1)
	go func() {
		n, err := h.Tend(tending)
		if err != nil {
			t.Error(err)
		}
		deaths <- n
	}()
	for _, r := range routine {
		err := w.Ask(ctx, func(ctx context.Context, c *client.Client) error {
			page, err := c.Schedules(ctx, nil)
			if err != nil || slices.ContainsFunc(page.Items, func(s api.Schedule) bool { return s.Name == r.draft.Name }) {
				return err
			}
			_, err = c.AddSchedule(ctx, client.Draft{Draft: r.draft})
			return err
		})
		if err != nil {
			t.Fatalf("add %s: %v\n%s", r.draft.Name, err, w.Describe(h))
		}
	}
	var rows []api.Occurrence
	err := house.Until(ctx, func() (bool, error) {
		ended := true
		err := w.Ask(ctx, func(ctx context.Context, c *client.Client) error {
			page, err := c.Occurrences(ctx, "-", nil)
			if err != nil {
				return err
			}
			rows = page.Items
			out, err := c.Deliveries(ctx, nil)
			if err != nil {
				return err
			}
			for _, d := range out.Items {
				ended = ended && d.State != "pending" && d.State != "sending"
			}
			return nil
		})
		for _, o := range rows {
			ended = ended && o.EndedAt != nil
		}
		return ended && len(rows) >= len(routine), err
	})
	if err != nil {
		t.Errorf("after %d rows: %v\n%s", len(rows), err, w.Describe(h))
	}
	unknown := map[string]int{}
	err = w.Ask(ctx, func(ctx context.Context, c *client.Client) error {
		clear(unknown)
		out, err := c.Deliveries(ctx, nil)
		for _, d := range out.Items {
			if d.State == "unknown" {
				unknown[strings.TrimSpace(d.Text)]++
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	rest()
	kills = <-deaths
	late, err := h.Stop()
	if err != nil {
		t.Error(err)
	}
	seen := map[string]int{}
	for _, o := range rows {
		seen[o.ScheduleID]++
		if o.State != "ran" && o.State != "late" || o.Outcome != "done" {
			t.Errorf("an occurrence is %s, %s: %s", o.State, o.Outcome, o.Reason)
		}
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s has %d rows", id, n)
		}
	}
	if len(seen) != len(routine) {
		t.Errorf("%d schedules have come, want %d", len(seen), len(routine))
	}
	for _, r := range routine {
		shown := 0
		for _, s := range w.Relay.Sent() {
			if s.Shown && strings.TrimSpace(strings.Split(s.Text, "\n[")[0]) == r.shows {
				shown++
			}
		}
		// What a kill cut off on its way is not known to have been shown.
		if shown > 1 || shown+unknown[r.shows] < 1 {
			t.Errorf("%q was shown %d times, and %d times nobody knows", r.shows, shown, unknown[r.shows])
		}
	}
	if t.Failed() {
		t.Log(w.Describe(h))
	}
	if b, err := os.ReadFile(list); err == nil {
		points = numbered(strings.Fields(string(b)))
	}
	return kills + late, points
}

func TestAKillAtAnyPointLosesAndDoublesNoOccurrence(t *testing.T) {
	_, points := follow(t, "")
	t.Logf("%d points:\n%s", len(points), strings.Join(points, "\n"))
	var kills atomic.Int64
	begun := time.Now()
	t.Run("kill at", func(t *testing.T) {
		for _, point := range points {
			t.Run(point, func(t *testing.T) {
				t.Parallel()
				n, _ := follow(t, point)
				kills.Add(int64(n))
			})
		}
	})
	t.Logf("%d points, %d kills in %v", len(points), kills.Load(), time.Since(begun).Round(time.Second))
	fired := slices.ContainsFunc(points, func(p string) bool { return strings.HasPrefix(p, "schedule.fire") })
	if want := int64(len(points) / 2); kills.Load() < want || !fired {
		t.Errorf("%d kills at %d points, want %d or more", kills.Load(), len(points), want)
	}
}
