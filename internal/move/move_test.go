package move

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mercury-agent/mercury/internal/mercury"
)

var update = flag.Bool("update", false, "write the golden files anew")

// foreign writes the fixture of a foreign home into a folder and returns it.
func foreign(t *testing.T, source string) string {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", source+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range a.Files {
		at := filepath.Join(dir, filepath.FromSlash(f.Name))
		if runtime.GOOS == "windows" {
			at = strings.ReplaceAll(at, "telegram:", "telegram-")
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	switch source {
	case Hermes:
		database(t, filepath.Join(dir, "state.db"),
			"CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, title TEXT, started_at REAL NOT NULL)",
			"CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT, tool_name TEXT, timestamp REAL NOT NULL)",
			"INSERT INTO sessions VALUES ('20260102_abc', 'telegram', 'Garden', 1767348001.5), ('20260103_def', 'cli', NULL, 1767434401)",
			"INSERT INTO messages (session_id, role, content, tool_name, timestamp) VALUES ('20260102_abc', 'user', 'What grows?', NULL, 1767348001.5), ('20260102_abc', 'tool', 'kale', 'web_search', 1767348002), ('20260102_abc', 'assistant', 'Kale, says sk-or-EXAMPLE-0123456789.', NULL, 1767348003), ('20260103_def', 'system', 'rules', NULL, 1767434401)")
	case Mercury:
		database(t, filepath.Join(dir, "memory/second-brain/second-brain.db"),
			"CREATE TABLE memories (id TEXT PRIMARY KEY, user_key TEXT, type TEXT, summary TEXT, detail TEXT, confidence REAL, importance REAL, durability REAL, evidence_count INTEGER, dismissed INTEGER, superseded_by TEXT, created_at INTEGER)",
			"INSERT INTO memories VALUES ('a', 'owner', 'preference', 'Prefers oolong tea', NULL, 0.9, 0.7, 0.8, 3, 0, NULL, 1767348001000), ('b', 'owner', 'preference', 'Forgotten', NULL, 0.9, 0.7, 0.8, 3, 1, NULL, 1767348001000), ('c', 'owner', 'goal', 'Replaced', NULL, 0.9, 0.7, 0.8, 3, 0, 'a', 1767348001000)")
	}
	return dir
}

func database(t *testing.T, path string, statements ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range append([]string{"PRAGMA journal_mode = WAL"}, statements...) {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// fingerprint changes when anything below a folder does.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		info, _ := d.Info()
		fmt.Fprintln(h, path, info.ModTime(), len(b))
		h.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(h.Sum(nil))
}

// house is a home in a folder, with rooms for what comes.
type house struct {
	dir       string
	settings  map[string]string
	secrets   map[string]string
	talks     map[string]Conversation
	memories  map[string]Memory
	schedules map[string]Schedule
	fail      int // fail once after so many talks; 0: never
}

func newHouse(t *testing.T) *house {
	return &house{dir: t.TempDir(), settings: map[string]string{}, secrets: map[string]string{}, talks: map[string]Conversation{},
		memories: map[string]Memory{}, schedules: map[string]Schedule{}}
}

func (h *house) Dir() string { return h.dir }

func (h *house) Set(settings []Setting) (written int, stay []string, err error) {
	for _, s := range settings {
		if new, _ := add(h.settings, s.Key, s.Value); new {
			written++
		}
	}
	return written, nil, nil
}

func (h *house) SetSecret(s Secret) (bool, error) { return add(h.secrets, s.Variable, s.Value) }
func (h *house) AddConversation(_ context.Context, c Conversation) (bool, error) {
	if h.fail > 0 && len(h.talks) == h.fail {
		h.fail = 0
		return false, errors.New("the disk is full")
	}
	return add(h.talks, c.ID, c)
}
func (h *house) Remember(_ context.Context, list []Memory) (added int, err error) {
	for _, m := range list {
		if new, _ := add(h.memories, m.Summary, m); new {
			added++
		}
	}
	return added, nil
}
func (h *house) Add(_ context.Context, s Schedule) (bool, error) { return add(h.schedules, s.Name, s) }
func (h *house) Next(s Schedule) (time.Time, error) {
	if !strings.HasPrefix(s.Cron, "0 ") {
		return time.Time{}, nil
	}
	return time.Date(2026, 1, 5, 7, 0, 0, 0, time.UTC), nil
}

func add[V any](m map[string]V, key string, v V) (bool, error) {
	if _, there := m[key]; there {
		return false, nil
	}
	m[key] = v
	return true, nil
}

func (h *house) target(secrets bool) Target {
	return Target{House: h, Memories: h, Schedules: h, Secrets: secrets}
}

// secrets are what the fixtures hold and nothing but .env may.
var secrets = []string{"sk-ant-EXAMPLE", "AAEXAMPLE", "mylab-EXAMPLE", "sk-or-EXAMPLE", "sk-EXAMPLE0", "ghp_EXAMPLE", "braveEXAMPLE", "gatewaytokenEXAMPLE", "secretEXAMPLE"}

func TestEachHomeIsShownFirstThenTakenOverOnceAndNeverChanged(t *testing.T) {
	for _, source := range Sources() {
		t.Run(source, func(t *testing.T) {
			dir := foreign(t, source)
			before := fingerprint(t, dir)
			p, err := Read(source, dir)
			if err != nil {
				t.Fatal(err)
			}
			h := newHouse(t)
			var shown bytes.Buffer
			p.Preview(&shown, h.target(false))
			text := strings.ReplaceAll(shown.String(), dir, "HOME")
			golden := filepath.Join("testdata", source+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || text != string(want) {
				t.Errorf("the preview is not as %s has it (%v):\n%s", golden, err, text)
			}

			h.fail = 1
			if _, err := p.Unpack(t.Context(), h.target(false)); len(p.Conversations) > 1 && err == nil {
				t.Fatal("a failure was not told")
			}
			r, err := p.Unpack(t.Context(), h.target(false))
			if err != nil {
				t.Fatal(err)
			}
			if len(h.talks) != len(p.Conversations) || len(h.memories) != len(p.Memories) || len(h.schedules) != len(p.Schedules) || len(h.secrets) != 0 {
				t.Errorf("got %d talks, %d memories, %d schedules, %d secrets; %+v", len(h.talks), len(h.memories), len(h.schedules), len(h.secrets), r)
			}
			if r, err = p.Unpack(t.Context(), h.target(false)); err != nil || r.Settings+r.Files+r.Memories+r.Schedules+r.Conversations+r.Secrets+r.Kept > 0 || len(r.Stay) > 0 {
				t.Errorf("the second time did something: %+v, %v", r, err)
			}
			everything := fmt.Sprint(text, h.talks, h.memories, h.schedules, h.settings)
			filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
				if b, _ := os.ReadFile(path); err == nil {
					everything += string(b)
				}
				return err
			})
			for _, s := range secrets {
				if strings.Contains(everything, s) {
					t.Errorf("the secret %s… came along unasked", s)
				}
			}
			if _, err := p.Unpack(t.Context(), h.target(true)); err != nil || len(h.secrets) != len(p.Secrets) {
				t.Errorf("with secrets: got %d of %d, %v", len(h.secrets), len(p.Secrets), err)
			}
			if fingerprint(t, dir) != before {
				t.Error("the foreign home was changed")
			}
		})
	}
}

func read(t *testing.T, source string) *Parcel {
	t.Helper()
	p, err := Read(source, foreign(t, source))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Parcel) setting(key string) string {
	for _, s := range p.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

func TestPeopleKeepTheirRolesSoThatNobodyPairsAgain(t *testing.T) {
	for source, want := range map[string][3]string{
		OpenClaw: {`["111"]`, `["222", "333"]`, ""},
		Hermes:   {`["111"]`, `["222", "333"]`, ""},
		Mercury:  {`["111"]`, `["333"]`, "admin"},
	} {
		p := read(t, source)
		got := [3]string{p.setting("channels.telegram.owners"), p.setting("channels.telegram.members"), p.setting(`channels.telegram.roles."222"`)}
		if got != want {
			t.Errorf("%s: got %v, want %v", source, got, want)
		}
		if !strings.Contains(strings.Join(p.Warnings, "\n"), "Stop "+p.title()) {
			t.Errorf("%s: nothing warns of two programs on one token: %q", source, p.Warnings)
		}
	}
}

func TestATalkIsWhatWasSaidInOrderAndToolsAreNotes(t *testing.T) {
	p := read(t, OpenClaw)
	at := slices.IndexFunc(p.Conversations, func(c Conversation) bool { return c.ID == "local/openclaw-5f0c" })
	if at < 0 {
		t.Fatalf("the talk is missing: %v", p.Conversations)
	}
	var lines []string
	for _, e := range p.Conversations[at].Entries {
		lines = append(lines, string(e.Kind)+" "+e.Text)
		if e.At.Year() != 2026 {
			t.Errorf("%s is of %v", e.Text, e.At)
		}
	}
	want := []string{"user What grows in winter?", `note used search {"q":"winter"}`, "note got from search: kale", "assistant Kale does."}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q", lines)
	}
}

func TestAFileThatIsThereStaysAndTheirsIsKeptBesideIt(t *testing.T) {
	p, h := read(t, Hermes), newHouse(t)
	ours := filepath.Join(h.dir, "soul", "soul.md")
	if err := writeFile(ours, []byte("mine\n")); err != nil {
		t.Fatal(err)
	}
	r, err := p.Unpack(t.Context(), h.target(false))
	if err != nil || len(r.Stay) != 1 || !strings.Contains(r.Stay[0], "files/imported/hermes/soul/soul.md") {
		t.Fatalf("%+v, %v", r, err)
	}
	for path, want := range map[string]string{ours: "mine\n", filepath.Join(h.dir, "files/imported/hermes/soul/soul.md"): "You are a pragmatic engineer.\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", path, got, err)
		}
	}
}

// picky takes no schedule of a certain kind.
type picky struct{ *house }

func (p picky) Add(ctx context.Context, s Schedule) (bool, error) {
	if s.Every > 0 {
		return false, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("not here")}
	}
	return p.house.Add(ctx, s)
}

func TestAScheduleThatIsRefusedIsNamedAndKept(t *testing.T) {
	p, h := read(t, OpenClaw), newHouse(t)
	to := h.target(false)
	to.Schedules = picky{h}
	r, err := p.Unpack(t.Context(), to)
	if err != nil || len(r.Stay) != 1 || !strings.Contains(r.Stay[0], `"Drink"`) || len(h.schedules) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	kept, err := os.ReadFile(filepath.Join(h.dir, "files/imported/openclaw/schedules.jsonl"))
	if err != nil || !strings.Contains(string(kept), "Drink water") || strings.Contains(string(kept), "Morning brief") {
		t.Errorf("kept %s, %v", kept, err)
	}
}

func TestAFileThatNobodyEditedMakesRoom(t *testing.T) {
	p, h := read(t, Hermes), newHouse(t)
	if err := writeFile(filepath.Join(h.dir, "soul", "soul.md"), []byte("as shipped\n")); err != nil {
		t.Fatal(err)
	}
	to := h.target(false)
	to.Default = func(path string) []byte { return []byte("as shipped\n") }
	r, err := p.Unpack(t.Context(), to)
	if got, _ := os.ReadFile(filepath.Join(h.dir, "soul", "soul.md")); err != nil || len(r.Stay) > 0 || string(got) != "You are a pragmatic engineer.\n" {
		t.Errorf("%+v, %v: %s", r, err, got)
	}
}

func TestWithoutRoomForThemMemoriesAndSchedulesAreKeptAsFiles(t *testing.T) {
	p, h := read(t, Mercury), newHouse(t)
	to := Target{House: h}
	var shown bytes.Buffer
	p.Preview(&shown, to)
	if _, err := p.Unpack(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memories.jsonl": "Prefers oolong tea", "schedules.jsonl": "Say good morning"} {
		got, err := os.ReadFile(filepath.Join(h.dir, "files/imported/mercury", name))
		if err != nil || !strings.Contains(string(got), want) || !strings.Contains(shown.String(), "files/imported/mercury/"+name) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestAFolderThatIsNoSuchHomeIsRefused(t *testing.T) {
	for _, source := range append(Sources(), "nonsense") {
		if _, err := Read(source, t.TempDir()); mercury.HelpOf(err) == "" {
			t.Errorf("%s: %v", source, err)
		}
	}
	if _, err := Read(Hermes, filepath.Join(t.TempDir(), "none")); mercury.KindOf(err) != mercury.NotFound {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestASkillsLinksStayBehind(t *testing.T) {
	dir := foreign(t, OpenClaw)
	secret := filepath.Join(t.TempDir(), "secret")
	os.WriteFile(secret, []byte("private"), 0o600)
	if err := os.Symlink(secret, filepath.Join(dir, "workspace/skills/weather/link")); err != nil {
		return // a system without links has none to follow
	}
	p, err := Read(OpenClaw, dir)
	if err != nil || !strings.Contains(strings.Join(p.Warnings, "\n"), "link is a link") {
		t.Fatalf("%v, %q", err, p.Warnings)
	}
	for _, f := range p.Files {
		if strings.Contains(string(f.Text), "private") {
			t.Errorf("%s was followed", f.Path)
		}
	}
}
