//go:build linux

package power

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mercury-agent/mercury/internal/channel/relay/relaytest"
	"github.com/mercury-agent/mercury/internal/testenv"
	"github.com/mercury-agent/mercury/test/house"
)

// A scene is one traced life: its calls, its disk, and what was said and shown.
type scene struct {
	home    string
	start   func() (*disk, error)
	calls   []call
	changes []change
	said    []house.Said
	kept    house.Kept
	shown   []relaytest.Sent
	acks    []ack
}

// An ack is the moment from which somebody outside may count on a message.
type ack struct {
	at   int
	said house.Said
}

// everywhere is the workspace of each world under one name: a run keeps the
// path with which it began, and must find the workspace of the world in which
// it goes on.
const everywhere = "/proc/self/cwd/workspace"

// record plays the scene once under the recorder, in a home that the programs
// of before have made and left in order.
func record(t *testing.T, p house.Program, before ...house.Program) *scene {
	t.Helper()
	strace := testenv.Need(t, "strace")
	program := p.Build(t)
	w := house.NewWorld(t, house.Quick(house.SceneScript()), "")
	w.Place = everywhere
	h := w.NewHouse(program)
	for _, earlier := range before {
		h.Use(earlier.Build(t))
		if ok, err := h.Start(); err != nil || !ok {
			t.Fatalf("start before the trace: %v", err)
		}
		if _, err := h.Stop(); err != nil {
			t.Fatal(err)
		}
		h.Use(program)
	}
	file := filepath.Join(w.Dir, "trace")
	h.Wrap = recorder(strace, file)
	first := filepath.Join(w.Dir, "before")
	if err := os.CopyFS(first, os.DirFS(h.Home)); err != nil {
		t.Fatal(err)
	}
	ctx, done := house.Patience()
	defer done()
	if ok, err := h.Start(); err != nil || !ok {
		t.Fatalf("start under strace: %v", err)
	}
	if _, err := w.PlayOn(ctx, h); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Stop(); err != nil {
		t.Fatal(err)
	}
	s := &scene{home: h.Home, said: w.Spoken(), shown: w.Relay.Sent()}
	var err error
	if s.kept, err = w.Kept(ctx); err != nil {
		t.Fatal(err)
	}
	if s.calls, err = readTrace(file); err != nil {
		t.Fatal(err)
	}
	if s.changes, err = changes(h.Home, s.calls); err != nil {
		t.Fatal(err)
	}
	s.start = func() (*disk, error) {
		d, err := newDisk(first)
		if err != nil {
			return nil, err
		}
		return d.moved(h.Home), nil
	}
	s.acks = s.acknowledged()
	return s
}

var (
	inputID = regexp.MustCompile(`"input_id":"(in_[0-9a-f]+)"`)
	after   = regexp.MustCompile(`^GET /updates\?after=(\d+)`)
	request = regexp.MustCompile(`"request":"([^"]+)"`)
)

// acknowledged finds the acknowledgements among the calls: answers of 202, and
// polls that tell the bridge what it may forget.
func (s *scene) acknowledged() []ack {
	byID := map[string]house.Said{}
	var pushed []house.Said
	for _, said := range s.said {
		if in, ok := s.kept.Input(said); ok {
			byID[in.ID] = said
		}
		if said.Channel == "relay" {
			pushed = append(pushed, said)
		}
	}
	var acks []ack
	told := 0
	for _, c := range s.calls {
		if c.Name != "write" {
			continue
		}
		if bytes.HasPrefix(c.Data, []byte("HTTP/1.1 202")) {
			if m := inputID.FindSubmatch(c.Data); m != nil {
				if said, ok := byID[string(m[1])]; ok {
					acks = append(acks, ack{c.Begin, said})
				}
			}
		}
		if m := after.FindSubmatch(c.Data); m != nil {
			for told < len(pushed) && number64(pushed[told].ID) <= number64(string(m[1])) {
				acks = append(acks, ack{c.Begin, pushed[told]})
				told++
			}
		}
	}
	return acks
}

func number64(s string) (n int64) {
	fmt.Sscan(s, &n)
	return n
}

// unsynced returns the acknowledgements that left before the message they
// stand for was synced: before a sync, begun after the message was written to
// the log, had returned.
func (s *scene) unsynced() []ack {
	wal := filepath.Join(s.home, "mercury.db-wal")
	var early []ack
	for _, a := range s.acks {
		in, _ := s.kept.Input(a.said)
		written, synced := 0, false
		for _, c := range s.calls {
			switch {
			case c.End > a.at:
			case written == 0 && c.Name == "pwrite64" && c.FD == wal && bytes.Contains(c.Data, []byte(in.ID)):
				written = c.End
			case written > 0 && (c.Name == "fdatasync" || c.Name == "fsync") && c.FD == wal && c.Begin > written:
				synced = true
			}
		}
		if !synced {
			early = append(early, a)
		}
	}
	return early
}

func TestNoAcknowledgementLeavesBeforeTheSyncOfWhatItPromises(t *testing.T) {
	s := record(t, house.Program{})
	if len(s.acks) < len(s.said) {
		t.Errorf("%d acknowledgements seen for %d messages", len(s.acks), len(s.said))
	}
	for _, a := range s.unsynced() {
		t.Errorf("%q was acknowledged before it was synced", a.said.Text)
	}
	t.Logf("%d calls, %d acknowledgements", len(s.calls), len(s.acks))
}

// instants are n moments at which the disk changed or something left for the
// world outside, spread over the scene.
func (s *scene) instants(n int) []int {
	var all []int
	for _, c := range s.changes {
		all = append(all, c.at)
	}
	for _, c := range s.calls {
		if bytes.HasPrefix(c.Data, []byte("HTTP/1.1 202")) || bytes.HasPrefix(c.Data, []byte("POST /")) {
			all = append(all, c.Begin)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	out := make([]int, 0, n)
	for i := range n {
		out = append(out, all[i*(len(all)-1)/(n-1)])
	}
	return out
}

// cut cuts the power at an instant, starts Mercury on what is left, lets it
// finish, and returns what was found wrong.
func (s *scene) cut(t *testing.T, program string, at int, seed uint64) []string {
	t.Helper()
	d, err := s.start()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range s.changes {
		if c.at > at {
			break
		}
		c.do(d)
	}
	w := house.NewWorld(t, house.Quick(house.SceneScript()), "")
	w.Place = everywhere
	h := w.NewHouse(program)
	config, err := os.ReadFile(filepath.Join(h.Home, "mercury.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	luck := rand.New(rand.NewPCG(seed, uint64(at)))
	if err := d.cutPower(h.Home, luck, seed%2 == 1); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.Home, "mercury.yaml"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.outside(w, at); err != nil {
		t.Fatal(err)
	}
	ctx, done := house.Patience()
	defer done()
	if ok, err := h.Start(); err != nil {
		return []string{err.Error()}
	} else if !ok {
		<-h.Life().Ended()
		return []string{"it does not start: " + h.Life().Output()}
	}
	if problems := w.Problems(ctx); len(problems) > 0 {
		return problems
	}
	if err := w.Finish(ctx); err != nil {
		return []string{err.Error(), w.Describe(h)}
	}
	if _, err := h.Stop(); err != nil {
		return []string{err.Error()}
	}
	faults := w.Check(ctx)
	if len(faults) > 0 {
		faults = append(faults, w.Describe(h))
	}
	return faults
}

// outside puts into w what the world outside knows at an instant: what was
// acknowledged, what the bridge has shown and still offers, which commands
// left a mark.
func (s *scene) outside(w *house.World, at int) error {
	if err := w.Furnish(); err != nil {
		return err
	}
	var taken, offered []house.Said
	acked := map[string]bool{}
	for _, a := range s.acks {
		if a.at <= at {
			taken = append(taken, a.said)
			acked[a.said.Channel+a.said.ID] = true
		}
	}
	for _, said := range s.said {
		if said.Channel == "relay" && !acked["relay"+said.ID] {
			offered = append(offered, said)
		}
	}
	w.Remember(taken, offered)
	shown := map[string]relaytest.Sent{}
	for _, sent := range s.shown {
		shown[sent.Request] = sent
	}
	marks := map[string]int{"once.go": 1}
	for _, c := range s.calls {
		if c.Begin > at {
			break
		}
		if m := request.FindSubmatch(c.Data); m != nil && bytes.HasPrefix(c.Data, []byte("POST /messages")) {
			if sent, ok := shown[string(m[1])]; ok {
				w.Before = append(w.Before, sent)
			}
		}
		if name := filepath.Base(c.Result); strings.HasPrefix(c.Name, "open") && strings.HasSuffix(name, ".canary") && strings.Contains(c.Flags, "O_APPEND") {
			marks[name]++
		}
	}
	for name, n := range marks {
		if err := os.WriteFile(w.Path(name), []byte(strings.Repeat("mark\n", n)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// cuts is how many instants a run of the power test tries.
const cuts = 220

func TestAPowerCutAtAnyInstantLosesNothingAcknowledged(t *testing.T) {
	program := house.Program{}.Build(t)
	s := record(t, house.Program{})
	var bad atomic.Int64
	t.Run("power cut at call", func(t *testing.T) {
		for i, at := range s.instants(cuts) {
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				t.Parallel()
				for _, fault := range s.cut(t, program, at, uint64(i)) {
					t.Error(fault)
				}
				if t.Failed() {
					bad.Add(1)
				}
			})
		}
	})
	t.Logf("%d power cuts in a life of %d calls, %d with losses", cuts, len(s.calls), bad.Load())
}

func TestAPowerCutIsFoundToLoseMessagesWhereSyncIsSwitchedOff(t *testing.T) {
	// The home is there already, and synced: what is lost is what was said.
	s := record(t, house.Program{Tags: "nosync"}, house.Program{})
	if early := s.unsynced(); len(early) != len(s.acks) || len(early) == 0 {
		t.Errorf("%d of %d acknowledgements are found to be early, want all", len(early), len(s.acks))
	}
	program := house.Program{}.Build(t)
	for _, at := range s.instants(8)[4:] {
		const nothingUnsynced = 0 // a seed under which nothing of that reached the disk
		faults := s.cut(t, program, at, nothingUnsynced)
		lost := 0
		for _, fault := range faults {
			// A database that lies far enough behind is noticed by the home itself.
			if strings.Contains(fault, "is lost") || strings.Contains(fault, "was restored from a backup") {
				lost++
			}
		}
		if lost == 0 {
			t.Errorf("a power cut at call %d is not found to have lost a message: %v", at, faults)
		}
		t.Logf("at call %d: %d losses", at, lost)
	}
}
