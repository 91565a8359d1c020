package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// model is the queue as it should be, in memory and obviously right. The
// store is driven through the same random acts and must agree after each.
type model struct {
	t     *testing.T
	s     store.Store
	rand  *rand.Rand
	runs  []mercury.Run // in order of insertion
	holds map[string]bool
	alive map[string]bool
	acts  []string // what was done, for the report
}

var (
	modelKeys  = []string{"", "bot/a", "bot/b", "bot/c"}
	modelOwner = []string{"p1", "p2", "p3"}
	modelLanes = []mercury.Lane{mercury.Chat, mercury.Bot}
)

var modelTests = map[string]func(*testing.T, Home, store.Store){
	"random acts leave the queue as the model says, seed 1": func(t *testing.T, _ Home, s store.Store) { runModel(t, s, 1) },
	"random acts leave the queue as the model says, seed 2": func(t *testing.T, _ Home, s store.Store) { runModel(t, s, 2) },
	"random acts leave the queue as the model says, seed of today": func(t *testing.T, _ Home, s store.Store) {
		runModel(t, s, uint64(time.Now().UnixNano()))
	},
}

func runModel(t *testing.T, s store.Store, seed uint64) {
	m := &model{t: t, s: s, rand: rand.New(rand.NewPCG(seed, 7)), holds: map[string]bool{}, alive: map[string]bool{}}
	acts := []struct {
		weight int
		do     func() string
	}{
		{6, m.enqueue}, {8, m.claim}, {3, m.finish}, {2, m.park}, {2, m.wake}, {2, m.requeue},
		{1, m.hold}, {2, m.release}, {1, m.live}, {1, m.die}, {2, m.takeOver},
	}
	total := 0
	for _, a := range acts {
		total += a.weight
	}
	for range 500 {
		n := m.rand.IntN(total)
		for _, a := range acts {
			if n -= a.weight; n < 0 {
				m.acts = append(m.acts, a.do())
				break
			}
		}
		if m.compare(); t.Failed() {
			t.Fatalf("seed %d, after %d acts, the last of them: %q", seed, len(m.acts), m.acts[max(0, len(m.acts)-12):])
		}
	}
}

// pick returns the index of some run in one of the states, -1 if there is none.
func (m *model) pick(states ...mercury.RunState) int {
	var fit []int
	for i, r := range m.runs {
		if slices.Contains(states, r.State) {
			fit = append(fit, i)
		}
	}
	if len(fit) == 0 {
		return -1
	}
	return fit[m.rand.IntN(len(fit))]
}

func (m *model) busy(key string, except int) bool {
	return key != "" && slices.ContainsFunc(m.runs, func(r mercury.Run) bool {
		return r.Key == key && (r.State == mercury.RunRunning || r.State == mercury.RunWaiting) &&
			(except < 0 || r.ID != m.runs[except].ID)
	})
}

func (m *model) save(i int, change func(*mercury.Run)) {
	r := m.runs[i]
	change(&r)
	update(m.t, m.s, func(tx store.Tx) error { return tx.SaveRun(r) })
	m.runs[i] = r
}

func (m *model) enqueue() string {
	r := newRun(fmt.Sprintf("run_%04d", len(m.runs)), m.rand.IntN(5))
	r.Lane = modelLanes[m.rand.IntN(2)]
	r.Key = modelKeys[m.rand.IntN(len(modelKeys))]
	r.Priority = m.rand.IntN(3)
	if m.rand.IntN(2) == 0 {
		r.ConversationID = fmt.Sprint("local/", m.rand.IntN(12))
	}
	if m.rand.IntN(4) == 0 {
		r.Actor = mercury.Actor{Role: mercury.Member}
	}
	if m.rand.IntN(8) == 0 {
		r.NotBefore = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	taken := r.ConversationID != "" && slices.ContainsFunc(m.runs, func(o mercury.Run) bool {
		return o.ConversationID == r.ConversationID && o.State.Live()
	})
	err := m.s.Update(m.t.Context(), func(tx store.Tx) error { return tx.InsertRun(r) })
	if taken != errors.Is(err, store.ErrExists) || (!taken && err != nil) {
		m.t.Errorf("enqueue %s in %q: %v, live run there: %v", r.ID, r.ConversationID, err, taken)
	}
	if !taken {
		m.runs = append(m.runs, r)
	}
	return "enqueue " + r.ID
}

func (m *model) claim() string {
	c := store.Claim{Owner: modelOwner[m.rand.IntN(3)], Lane: modelLanes[m.rand.IntN(2)], TrustedOnly: m.rand.IntN(4) == 0}
	want := -1
	for i, r := range m.runs {
		if r.State != mercury.RunQueued || r.Lane != c.Lane || r.NotBefore.After(time.Now()) || m.busy(r.Key, -1) ||
			m.holds[r.Key] || m.holds["*"] || m.holds["lane/"+string(c.Lane)] || (c.TrustedOnly && !r.Actor.Trusted()) {
			continue
		}
		if want < 0 || before(r, m.runs[want]) {
			want = i
		}
	}
	var got mercury.Run
	err := m.s.Update(m.t.Context(), func(tx store.Tx) (err error) {
		got, err = tx.Claim(c)
		return err
	})
	if want < 0 {
		if !errors.Is(err, store.ErrNotFound) {
			m.t.Errorf("claim %+v: got %s, %v, want nothing", c, got.ID, err)
		}
		return "claim nothing"
	}
	r := &m.runs[want]
	if err != nil || got.ID != r.ID {
		m.t.Errorf("claim %+v: got %q, %v, want %s", c, got.ID, err, r.ID)
		return "claim"
	}
	r.State, r.Owner, r.Epoch = mercury.RunRunning, c.Owner, r.Epoch+1
	if r.StartedAt.IsZero() {
		r.StartedAt = got.StartedAt
	}
	return "claim " + r.ID
}

// before reports whether a is claimed before b.
func before(a, b mercury.Run) bool {
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(flag(b.Woken), flag(a.Woken)), cmp.Compare(b.Priority, a.Priority),
		a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID)) < 0
}

func (m *model) finish() string {
	i := m.pick(mercury.RunRunning)
	if i < 0 {
		return "nothing to finish"
	}
	m.save(i, func(r *mercury.Run) {
		r.State = []mercury.RunState{mercury.RunDone, mercury.RunFailed, mercury.RunStopped, mercury.RunDead}[m.rand.IntN(4)]
	})
	return "finish " + m.runs[i].ID
}

func (m *model) park() string {
	i := m.pick(mercury.RunRunning)
	if i < 0 {
		return "nothing to park"
	}
	m.save(i, func(r *mercury.Run) { r.State, r.Wait = mercury.RunWaiting, &mercury.Wait{Questions: []string{"qu"}} })
	return "park " + m.runs[i].ID
}

func (m *model) wake() string {
	i := m.pick(mercury.RunWaiting)
	if i < 0 {
		return "nothing to wake"
	}
	m.save(i, func(r *mercury.Run) { r.State, r.Wait, r.Woken = mercury.RunQueued, nil, true })
	return "wake " + m.runs[i].ID
}

func (m *model) requeue() string {
	i := m.pick(mercury.RunRunning)
	if i < 0 {
		return "nothing to requeue"
	}
	m.save(i, func(r *mercury.Run) { r.State, r.Owner, r.Attempts = mercury.RunQueued, "", r.Attempts+1 })
	return "requeue " + m.runs[i].ID
}

func (m *model) hold() string {
	key := []string{"bot/a", "bot/b", "lane/chat", "*"}[m.rand.IntN(4)]
	update(m.t, m.s, func(tx store.Tx) error { return tx.PutHold(store.Hold{Key: key}) })
	m.holds[key] = true
	return "hold " + key
}

func (m *model) release() string {
	for _, key := range slices.Sorted(maps.Keys(m.holds)) {
		update(m.t, m.s, func(tx store.Tx) error { return tx.DeleteHold(key) })
		delete(m.holds, key)
		return "release " + key
	}
	return "nothing to release"
}

func (m *model) live() string {
	p := modelOwner[m.rand.IntN(3)]
	update(m.t, m.s, func(tx store.Tx) error {
		return tx.PutProcess(store.Process{ID: p, LeaseUntil: tx.Now().Add(time.Hour)})
	})
	m.alive[p] = true
	return "live " + p
}

func (m *model) die() string {
	p := modelOwner[m.rand.IntN(3)]
	update(m.t, m.s, func(tx store.Tx) error {
		return tx.PutProcess(store.Process{ID: p, LeaseUntil: tx.Now().Add(-time.Hour)})
	})
	m.alive[p] = false
	return "die " + p
}

// takeOver gives every orphan back to the queue.
func (m *model) takeOver() string {
	want := []string{}
	for _, r := range m.runs {
		if r.State == mercury.RunRunning && !m.alive[r.Owner] {
			want = append(want, r.ID)
		}
	}
	var orphans []mercury.Run
	update(m.t, m.s, func(tx store.Tx) (err error) {
		orphans, err = tx.Orphans(tx.Now(), 1000)
		return err
	})
	same(m.t, "orphans", ids(orphans, runID), want)
	for i, r := range m.runs {
		if slices.Contains(want, r.ID) {
			m.save(i, func(r *mercury.Run) { r.State, r.Takeovers = mercury.RunQueued, r.Takeovers+1 })
		}
	}
	return fmt.Sprint("take over ", want)
}

// compare reads the whole queue and holds it against the model.
func (m *model) compare() {
	m.t.Helper()
	depths := map[mercury.Lane]store.LaneDepth{}
	for _, r := range m.runs {
		d := depths[r.Lane]
		switch r.State {
		case mercury.RunQueued:
			d.Queued++
		case mercury.RunRunning:
			d.Running++
		case mercury.RunWaiting:
			d.Waiting++
		default:
			continue
		}
		depths[r.Lane] = d
	}
	view(m.t, m.s, func(tx store.Tx) error {
		got, err := tx.Depths()
		same(m.t, "depths", got, depths)
		if err != nil || m.rand.IntN(10) > 0 || len(m.runs) == 0 {
			return err
		}
		i := m.rand.IntN(len(m.runs))
		r, err := tx.Run(m.runs[i].ID)
		same(m.t, "run", r, m.runs[i])
		return err
	})
}
