package doctor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/homelock"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
)

const sound = `model: local/one
providers: { local: { api: openai, base_url: "http://127.0.0.1:9/v1" } }
web: { listen: "127.0.0.1:1" }
`

// healthy is a home in which nothing is wrong, and how to examine it.
func healthy(t *testing.T) (string, Options) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	home, err := config.HomeAt(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := home.Create(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "mercury.yaml"), sound)
	write(t, filepath.Join(dir, ".env"), "SOME_KEY=sk-canary-0123456789\n")
	write(t, filepath.Join(dir, "token"), strings.Repeat("ab", 32)+"\n")
	inDatabase(t, dir, func(tx store.Tx) error { return nil })
	return dir, Options{Home: home, Version: "1", Getenv: func(string) string { return "" },
		Fence: func(context.Context) sandbox.Report { return sandbox.Report{Level: "bwrap+landlock"} },
		room:  func(string) (uint64, uint64, error) { return 50 << 30, 100 << 30, nil }}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func inDatabase(t *testing.T, dir string, fn func(store.Tx) error) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// is finds a finding by its area and a piece of its text.
func is(r Report, area, text string) (Finding, bool) {
	for _, f := range r.Findings {
		if f.Area == area && strings.Contains(f.Text, text) {
			return f, true
		}
	}
	return Finding{}, false
}

func TestAHealthyHomeHasNothingToDo(t *testing.T) {
	_, o := healthy(t)
	r := Examine(t.Context(), o)
	if r.Todo != 0 {
		t.Errorf("%+v", r.Findings)
	}
	for _, area := range []string{"home", "configuration", "model", "clock", "disk", "sandbox", "database"} {
		if f, ok := is(r, area, ""); !ok || f.Level != Fine {
			t.Errorf("%s: %+v", area, f)
		}
	}
}

// Each case breaks a healthy home in one way.
func TestWhatIsWrongIsFoundWithItsCure(t *testing.T) {
	for name, tt := range map[string]struct {
		harm       func(t *testing.T, dir string, o *Options)
		area, text string
		level      Level
		fixable    bool
	}{
		"no home": {func(t *testing.T, dir string, _ *Options) { remove(t, dir) }, "home", "there is no home", Fault, false},
		"a file in its place": {func(t *testing.T, dir string, _ *Options) {
			remove(t, dir)
			write(t, dir, "x")
		}, "home", "is no folder", Fault, false},
		"a home of the TypeScript Mercury": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "mercury.yaml"), "identity:\n  name: Mercury\n")
		}, "home", "TypeScript Mercury", Fault, false},
		"a half restored home": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, ".restore", "home", "mercury.yaml"), "")
		}, "home", "not restored to the end", Fault, false},
		"a read-only home": {func(_ *testing.T, _ string, o *Options) {
			o.access = func(string) error { return syscall.EROFS }
		}, "home", "nothing can be written", Fault, false},
		"a full disk": {func(_ *testing.T, _ string, o *Options) {
			o.room = func(string) (uint64, uint64, error) { return 3 << 20, 100 << 30, nil }
		}, "disk", "3 MB left", Fault, false},
		"a disk that is nearly full": {func(_ *testing.T, _ string, o *Options) {
			o.room = func(string) (uint64, uint64, error) { return 1 << 30, 100 << 30, nil }
		}, "disk", "1024 MB left", Warning, false},
		"bad yaml": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "mercury.yaml"), "model: [local\n")
		}, "configuration", "mercury.yaml:", Fault, false},
		"an unknown key": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "mercury.yaml"), sound+"modle: x\n")
		}, "configuration", "modle", Fault, false},
		"no model": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "mercury.yaml"), "name: Mercury\n")
		}, "model", "", Fault, false},
		"a key whose variable is missing": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "mercury.yaml"), strings.Replace(sound, "api: openai,", `api: openai, api_key: "${NOT_THERE}",`, 1))
		}, "model", "NOT_THERE", Fault, false},
		"a fallback without its key": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "mercury.yaml"), strings.Replace(sound, "providers: {", "fallbacks: [far/one]\nproviders: { far: { api: openai, base_url: \"http://127.0.0.1:9\", api_key: \"${NOT_THERE}\" },", 1))
		}, "model", "far/one", Warning, false},
		"a channel without its token": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "mercury.yaml"), sound+"channels: { telegram: { token: \"${NOT_THERE}\" } }\n")
		}, "channels", "telegram", Fault, false},
		"an .env that others read": {func(t *testing.T, dir string, _ *Options) { mode(t, dir, ".env", 0o644) }, "permissions", ".env", Warning, true},
		"a token that others read": {func(t *testing.T, dir string, _ *Options) { mode(t, dir, "token", 0o640) }, "permissions", "token", Warning, true},
		"a bot's .env that others read": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "bots", "ann", ".env"), "")
			mode(t, dir, "bots/ann/.env", 0o604)
		}, "permissions", "ann", Warning, true},
		"a home that others look into": {func(t *testing.T, dir string, _ *Options) { mode(t, dir, ".", 0o755) }, "permissions", "0755", Warning, true},
		"a missing folder":             {func(t *testing.T, dir string, _ *Options) { remove(t, filepath.Join(dir, "soul")) }, "home", "missing: soul", Note, true},
		"a file in place of a folder": {func(t *testing.T, dir string, _ *Options) {
			remove(t, filepath.Join(dir, "logs"))
			write(t, filepath.Join(dir, "logs"), "")
		}, "home", "is a file", Fault, false},
		"what a killed backup left": {func(t *testing.T, dir string, _ *Options) {
			path := filepath.Join(dir, "backups", ".part-bk_1")
			write(t, filepath.Join(path, "archive"), "half")
			past(t, path, 2*time.Hour)
		}, "leftovers", ".part-bk_1", Warning, true},
		"a damaged database": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "mercury.db"), strings.Repeat("garbage ", 1000))
		}, "database", "damaged", Fault, false},
		"an empty database": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "mercury.db"), "")
		}, "database", "damaged", Fault, false},
		"a database of a newer Mercury": {func(t *testing.T, dir string, _ *Options) {
			inDatabase(t, dir, func(tx store.Tx) error { return tx.SetMeta("schema", "999") })
		}, "database", "newer Mercury", Fault, false},
		"a database of an older Mercury": {func(t *testing.T, dir string, _ *Options) {
			inDatabase(t, dir, func(tx store.Tx) error { return tx.SetMeta("schema", "1") })
		}, "database", "brought to", Note, false},
		"no database yet": {func(t *testing.T, dir string, _ *Options) { remove(t, filepath.Join(dir, "mercury.db")) }, "database", "none yet", Note, false},
		"a PostgreSQL server that is not there": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "mercury.yaml"), sound+"database: { url: \"postgres://u:sk-canary-0123456789@127.0.0.1:1/x\" }\n")
		}, "database", "127.0.0.1:1", Fault, false},
		"a message of which nobody knows": {func(t *testing.T, dir string, _ *Options) {
			inDatabase(t, dir, func(tx store.Tx) error {
				return tx.InsertDelivery(mercury.Delivery{ID: "dl_1", Address: "relay/a", RequestID: "1", State: mercury.DeliveryUnknown})
			})
		}, "messages", "may or may not", Warning, false},
		"a run that was given up": {func(t *testing.T, dir string, _ *Options) {
			inDatabase(t, dir, func(tx store.Tx) error {
				return tx.InsertRun(mercury.Run{ID: "run_1", State: mercury.RunDead, Key: "a"})
			})
		}, "runs", "1 run was given up", Warning, false},
		"a run in hand for a day": {func(t *testing.T, dir string, _ *Options) {
			inDatabase(t, dir, func(tx store.Tx) error {
				return tx.InsertRun(mercury.Run{ID: "run_1", State: mercury.RunRunning, Key: "a", StartedAt: tx.Now().Add(-24 * time.Hour)})
			})
		}, "runs", "run_1", Warning, false},
		"a question that nobody saw": {func(t *testing.T, dir string, _ *Options) {
			inDatabase(t, dir, func(tx store.Tx) error {
				return tx.InsertQuestion(mercury.Question{ID: "qu_1", Title: "May I?", State: mercury.QuestionOpen, CreatedAt: tx.Now().Add(-3 * time.Hour), ExpiresAt: tx.Now().Add(time.Hour)})
			})
		}, "questions", "3 hours: May I?", Warning, false},
		"a hold without an end": {func(t *testing.T, dir string, _ *Options) {
			inDatabase(t, dir, func(tx store.Tx) error { return tx.PutHold(store.Hold{Key: "*", Reason: "halted"}) })
		}, "holds", "halted", Warning, false},
		"a clock that went back": {func(t *testing.T, dir string, _ *Options) {
			inDatabase(t, dir, func(tx store.Tx) error {
				return tx.InsertRun(mercury.Run{ID: "run_1", State: mercury.RunQueued, Key: "a", CreatedAt: tx.Now().Add(time.Hour)})
			})
		}, "clock", "went back", Warning, false},
		"a restored home": {func(t *testing.T, dir string, _ *Options) {
			inDatabase(t, dir, func(tx store.Tx) error { return tx.SetMeta("restored", `{"at":"2026-01-02T03:04:05Z"}`) })
		}, "restored", "0 messages and 0 runs are held", Warning, false},
		"a backup that failed": {func(t *testing.T, dir string, _ *Options) {
			inDatabase(t, dir, func(tx store.Tx) error {
				return tx.SetMeta("backup.failed", `{"at":"2026-01-02T03:04:05Z","error":"disk is full"}`)
			})
		}, "backups", "disk is full", Fault, false},
		"a backup that is too old": {func(t *testing.T, dir string, _ *Options) {
			write(t, filepath.Join(dir, "backups", "mercury-20200101T000000Z-abcd-auto.tar.gz"), "")
		}, "backups", "days old", Warning, false},
		"no fence": {func(_ *testing.T, _ string, o *Options) {
			o.Fence = func(context.Context) sandbox.Report {
				return sandbox.Report{Level: sandbox.None, Missing: "there is no bwrap", Cure: "apt install bubblewrap"}
			}
		}, "sandbox", "no fence", Warning, false},
		"another program's port": {func(t *testing.T, dir string, _ *Options) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			write(t, filepath.Join(dir, "mercury.yaml"), strings.Replace(sound, "127.0.0.1:1\"", l.Addr().String()+"\"", 1))
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					c.Close()
				}
			}()
		}, "port", "another program", Warning, false},
		"another Mercury's port": {func(t *testing.T, dir string, _ *Options) {
			other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"status":"ok"}`)) }))
			t.Cleanup(other.Close)
			write(t, filepath.Join(dir, "mercury.yaml"), strings.Replace(sound, "127.0.0.1:1\"", strings.TrimPrefix(other.URL, "http://")+"\"", 1))
		}, "port", "another Mercury", Warning, false},
		"a process that has the home and does not answer": {func(t *testing.T, dir string, o *Options) {
			take(t, dir)
			o.Runtime = func(context.Context) (api.Status, error) { return api.Status{}, errors.New("refused") }
		}, "runtime", "does not answer at 127.0.0.1:2", Fault, false},
		"another version that runs": {func(t *testing.T, dir string, o *Options) {
			take(t, dir)
			o.Runtime = func(context.Context) (api.Status, error) { return api.Status{Version: "0"}, nil }
		}, "versions", "version 0 runs", Warning, false},
		"a Mercury that is degraded": {func(t *testing.T, dir string, o *Options) {
			take(t, dir)
			o.Runtime = func(context.Context) (api.Status, error) {
				return api.Status{Version: "1", About: api.About{State: "degraded", Problems: []string{"the disk is full"}}}, nil
			}
		}, "runtime", "the disk is full", Fault, false},
		"a run that nobody takes": {func(t *testing.T, dir string, o *Options) {
			inDatabase(t, dir, func(tx store.Tx) error {
				return tx.InsertRun(mercury.Run{ID: "run_1", State: mercury.RunQueued, Key: "a", CreatedAt: tx.Now().Add(-time.Hour)})
			})
			take(t, dir)
			o.Runtime = func(context.Context) (api.Status, error) { return api.Status{Version: "1"}, nil }
		}, "runs", "nobody takes", Warning, false},
		"a model that does not answer": {func(_ *testing.T, _ string, o *Options) {
			o.Live = func(context.Context, *config.Config) error { return errors.New("401 wrong key") }
		}, "model", "401 wrong key", Fault, false},
		"what another room found": {func(_ *testing.T, _ string, o *Options) {
			o.More = []Check{func(context.Context) []Finding {
				return []Finding{{Area: "service", Level: Warning, Text: "it starts another program", Fix: "install it again"}}
			}}
		}, "service", "another program", Warning, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, o := healthy(t)
			tt.harm(t, dir, &o)
			before := listing(t, dir)
			r := Examine(t.Context(), o)
			f, ok := is(r, tt.area, tt.text)
			if !ok || f.Level != tt.level || f.CanFix != tt.fixable || f.Todo() != (tt.level == Warning || tt.level == Fault) {
				t.Fatalf("found %+v among %+v", f, r.Findings)
			}
			if f.Todo() && f.Fix == "" {
				t.Errorf("no cure for %q", f.Text)
			}
			for _, f := range r.Findings {
				if strings.Contains(f.Text+f.Fix, "canary") {
					t.Errorf("a secret is shown: %q", f.Text)
				}
			}
			if after := listing(t, dir); !slices.Equal(after, before) {
				t.Errorf("it changed the home: %v became %v", before, after)
			}
			if !tt.fixable {
				return
			}
			o.Fix = true
			if f, _ := is(Examine(t.Context(), o), tt.area, tt.text); !f.Fixed {
				t.Errorf("not mended: %+v", f)
			}
			o.Fix = false
			if _, still := is(Examine(t.Context(), o), tt.area, tt.text); still {
				t.Error("it is still there after it was mended")
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func mode(t *testing.T, dir, name string, m os.FileMode) {
	t.Helper()
	if err := os.Chmod(filepath.Join(dir, name), m); err != nil {
		t.Fatal(err)
	}
}

func past(t *testing.T, path string, d time.Duration) {
	t.Helper()
	at := time.Now().Add(-d)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, dir string) {
	t.Helper()
	lock, err := homelock.Take(dir, "127.0.0.1:2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Release() })
}

// listing is every file of a home with its mode, size and time.
func listing(t *testing.T, dir string) (all []string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return nil // there is no home
		}
		info, err := d.Info()
		if err != nil {
			t.Fatal(err)
		}
		if size := info.Size(); !d.IsDir() {
			all = append(all, strings.Join([]string{path, info.Mode().String(), info.ModTime().String(), strconv.FormatInt(size, 10)}, " "))
		}
		return nil
	})
	return all
}

func TestAModelIsAskedOnlyOnRequest(t *testing.T) {
	_, o := healthy(t)
	asked := 0
	o.Live = func(context.Context, *config.Config) error { asked++; return nil }
	r := Examine(t.Context(), o)
	if f, ok := is(r, "model", "local/one answers"); !ok || asked != 1 || f.Level != Fine {
		t.Errorf("asked %d times, %+v", asked, r.Findings)
	}
}

func TestASurveySaysWhatIsKeptAndWhatGoesNext(t *testing.T) {
	dir, o := healthy(t)
	inDatabase(t, dir, func(tx store.Tx) error {
		return errors.Join(tx.InsertConversation(mercury.Conversation{ID: "local/a"}), tx.InsertConversation(mercury.Conversation{ID: "local/b"}))
	})
	unnamed := filepath.Join(dir, "files", "ab", "ab"+strings.Repeat("0", 62))
	write(t, unnamed, strings.Repeat("x", 5000))
	past(t, unnamed, 2*time.Hour)
	for _, day := range []string{"01", "02", "03", "04", "05", "06", "07"} {
		write(t, filepath.Join(dir, "backups", "mercury-202601"+day+"T000000Z-abcd-auto.tar.gz"), "x")
	}
	s, err := Survey(t.Context(), o.Home, config.Default())
	if err != nil {
		t.Fatal(err)
	}
	if s.Engine != "sqlite" || !slices.Contains(s.Tables, Rows{"conversation", 2}) {
		t.Errorf("%+v", s)
	}
	all := strings.Join(s.Removes, "\n")
	if len(s.Removes) != 2 || !strings.Contains(all, "1 large output") || !strings.Contains(all, "20260101T000000Z") {
		t.Errorf("removes %q", s.Removes)
	}
	if i := slices.IndexFunc(s.Places, func(p Place) bool { return p.Path == filepath.Join(dir, "backups") }); i < 0 || s.Places[i].Files != 7 {
		t.Errorf("places %+v", s.Places)
	}
}
