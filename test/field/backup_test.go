//go:build unix

package field

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/backup"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// restored brings a backup back into another home with the same model and
// bridge.
func (h *house) restored(path string) *house {
	h.t.Helper()
	two := h.twin()
	must(h.t, os.RemoveAll(two.home.Dir()))
	_, err := backup.Restore(h.t.Context(), path, two.home.Dir(), backup.RestoreOptions{})
	must(h.t, err)
	return two
}

// allEntries are the entries of every conversation, as they are kept.
func (h *house) allEntries() map[string][]api.Entry {
	h.t.Helper()
	found, err := h.client.Conversations(h.t.Context(), nil)
	must(h.t, err)
	all := map[string][]api.Entry{}
	for _, c := range found.Items {
		all[c.ID] = h.entries(c.ID)
	}
	return all
}

// A house is copied while it works and while an answer cannot be sent; the
// original sends it later. The copy, brought back elsewhere, has the same
// entries, sends nothing, and waits for a person.
func TestM10_ABackupMadeUnderLoadAndRestoredElsewhereSendsNothingAgain(t *testing.T) {
	t.Parallel()
	for _, discard := range []bool{true, false} {
		t.Run(fmt.Sprintf("discard %t", discard), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, llmtest.Script{Default: "So: {{user}}"}).start()
			h.showedAfter("warm up", "So: warm up")
			h.door.shut()
			h.say("relay/room", "n0", "follow-up")
			h.until("an answer in the outbox", func() bool { return len(h.texts("relay/room", mercury.AssistantEntry)) == 2 })

			made := h.copiedUnderLoad()
			_, err := backup.Verify(t.Context(), made.Path)
			must(t, err)
			h.door.open(t)
			h.showed("room", 2)
			original := h.allEntries()
			h.stop()

			polls := len(h.bridge.Cursors())
			two := h.restored(made.Path).start()
			sameEntries(t, original, two.allEntries())
			held, err := two.client.HeldBack(t.Context())
			must(t, err)
			if len(held.Deliveries) != 1 || held.Deliveries[0].Text != "So: n0" {
				t.Errorf("held: %+v", held.Deliveries)
			}
			st, err := two.client.Status(t.Context())
			must(t, err)
			if st.State != "degraded" || !strings.Contains(strings.Join(st.Problems, " "), "mercury backup resume") {
				t.Errorf("status: %s %q", st.State, st.Problems)
			}
			// It can be talked to, and a restart changes nothing.
			two.say("new", "hello", "")
			two.quiet("local/new", 1)
			two.stop()
			two.start()
			early := h.bridge.Push("room", "said while it was held")
			two.say("new", "again", "")
			two.quiet("local/new", 2)
			if got := h.shown("room"); len(got) != 2 || len(h.bridge.Cursors()) != polls {
				t.Errorf("while it was held it showed %q and polled %d times", got, len(h.bridge.Cursors())-polls)
			}

			time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // platforms tell whole seconds
			_, err = two.client.ResumeRestored(t.Context(), discard)
			must(t, err)
			h.taken(early)
			// The model sees what was said meanwhile, but it was not answered.
			last := "So: [note] said while it was held\n\nand now"
			want := []string{"So: warm up", "So: n0", last}
			if !discard { // a person has seen it and wants it
				want = slices.Insert(want, 2, "So: n0")
				h.showed("room", 3)
			}
			h.showedAfter("and now", last)
			two.quiet("relay/room", len(two.runs("relay/room")))
			if got := h.shown("room"); !slices.Equal(got, want) {
				t.Errorf("shown: %q, want %q", got, want)
			}
			if notes := two.texts("relay/room", mercury.NoteEntry); !slices.Contains(notes, "said while it was held") {
				t.Errorf("what was said meanwhile is not kept: %q", notes)
			}
			if refused := refusalOf(two.client.HeldBack(t.Context())); refused == nil || refused.Status != http.StatusNotFound {
				t.Errorf("got %v", refused)
			}
		})
	}
}

// copiedUnderLoad makes backups while messages are answered, and returns the
// last.
func (h *house) copiedUnderLoad() (made api.Backup) {
	h.t.Helper()
	var talk sync.WaitGroup
	for i := range 4 {
		talk.Go(func() {
			for j := range 12 {
				h.say(fmt.Sprint("talk", i), fmt.Sprintf("message %d of %d", j, i), "follow-up")
			}
		})
	}
	for range 3 {
		var err error
		made, err = h.client.CreateBackup(h.t.Context(), nil)
		must(h.t, err)
	}
	talk.Wait()
	return made
}

// sameEntries wants every entry of the copy to be the original's, byte for
// byte, and none to be missing in between.
func sameEntries(t *testing.T, original, copied map[string][]api.Entry) {
	t.Helper()
	n := 0
	for id, entries := range copied {
		for i, e := range entries {
			got, _ := json.Marshal(e)
			if i >= len(original[id]) {
				t.Errorf("%s has an entry more: %s", id, got)
				continue
			}
			if want, _ := json.Marshal(original[id][i]); string(got) != string(want) {
				t.Errorf("%s: %s\nwas %s", id, got, want)
			}
			n++
		}
	}
	if n < 4 {
		t.Errorf("only %d entries were copied", n)
	}
}

// A database that is put back by hand, from a snapshot or a copy of the files,
// is known too.
func TestADatabasePutBackByHandIsHeldAsWell(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"}).start()
	h.showedAfter("one", "So: one")
	h.door.shut()
	h.say("relay/room", "two", "follow-up")
	h.until("an answer in the outbox", func() bool { return len(h.texts("relay/room", mercury.AssistantEntry)) == 2 })
	h.stop()
	old, err := os.ReadFile(h.home.Database())
	must(t, err)
	h.start()
	h.door.open(t)
	h.showed("room", 2)
	h.stop()
	must(t, os.WriteFile(h.home.Database(), old, 0o600))
	h.start()
	held, err := h.client.HeldBack(t.Context())
	must(t, err)
	if len(held.Deliveries) != 1 {
		t.Errorf("held: %+v", held.Deliveries)
	}
	h.say("new", "hello", "")
	h.quiet("local/new", 1)
	if got := h.shown("room"); len(got) != 2 {
		t.Errorf("shown: %q", got)
	}
}

func TestABackupOnAFullDiskSaysSoAndLeavesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, llmtest.Script{Default: "So: {{user}}"})
	mount(t, h.home.Dir())
	h.configure("openai", h.model.URL+"/v1")
	h.live()
	h.showedLast("room", "hello", "So: hello")
	made, err := h.client.CreateBackup(t.Context(), nil)
	must(t, err)

	ballast := filepath.Join(h.home.Dir(), "ballast")
	f, err := os.Create(ballast)
	must(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 1<<14))
	}
	f.Close()
	if refused := refusalOf(h.client.CreateBackup(t.Context(), nil)); refused == nil || refused.Status != http.StatusInsufficientStorage && refused.Status != http.StatusTooManyRequests || !strings.Contains(refused.Detail, "space") {
		t.Errorf("on a full disk: %+v", refused)
	}
	if code, said := h.run("doctor"); code != 7 || !strings.Contains(said, "the disk of the home has 0 MB left") {
		t.Errorf("the doctor left with %d:\n%s", code, said)
	}
	must(t, os.Remove(ballast))
	left, err := os.ReadDir(h.home.Backups())
	must(t, err)
	if len(left) != 1 || left[0].Name() != made.Name {
		t.Errorf("left: %v", left)
	}
	_, err = h.client.CreateBackup(t.Context(), nil)
	must(t, err)
	h.life.noPanic(t)

	// A home may be a file system of its own.
	volume := t.TempDir()
	mount(t, volume)
	_, err = backup.Restore(t.Context(), made.Path, volume, backup.RestoreOptions{})
	must(t, err)
	if said := integrity(t, filepath.Join(volume, "mercury.db")); said != "ok" {
		t.Error(said)
	}
}
