package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/homelock"
	"github.com/mercury-agent/mercury/internal/store/storetest"
)

func TestARestoreWantsAnEmptyHomeThatNobodyLivesIn(t *testing.T) {
	home, s := lived(t)
	path := created(t, New(home, s, Options{}), Request{}).Path
	restore := func(dir string) error {
		_, err := Restore(t.Context(), path, dir, RestoreOptions{})
		return err
	}
	var held *homelock.HeldError
	if err := restore(home); !errors.As(err, &held) {
		t.Errorf("a home that is lived in: got %v", err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mercury.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restore(full); mercury.KindOf(err) != mercury.Conflict || mercury.HelpOf(err) == "" {
		t.Errorf("a home that is not empty: got %v", err)
	}
	if found, _ := os.ReadDir(full); len(found) > 2 {
		t.Errorf("something was written: %v", found)
	}
	made := t.TempDir() // as setting up leaves it
	for _, name := range []string{"soul", "files/x", "backups"} {
		if err := os.MkdirAll(filepath.Join(made, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := restore(made); err != nil {
		t.Errorf("a home of empty folders: %v", err)
	}
	half := t.TempDir()
	if err := os.MkdirAll(filepath.Join(half, staging), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, staging, complete), []byte("bk_other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := restore(half); mercury.KindOf(err) != mercury.Conflict {
		t.Errorf("where another one is half restored: got %v", err)
	}
}

func TestALinkOfAPersonIsFollowedAndALoopIsNot(t *testing.T) {
	home, s := lived(t)
	away := t.TempDir()
	if err := os.WriteFile(filepath.Join(away, "SKILL.md"), []byte("linked"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(away, filepath.Join(home, "skills", "linked")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(home, "skills"), filepath.Join(home, "skills", "loop")); err != nil {
		t.Fatal(err)
	}
	m, err := Verify(t.Context(), created(t, New(home, s, Options{}), Request{}).Path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range m.Entries {
		if strings.HasPrefix(e.Path, "skills/") {
			names = append(names, e.Path)
		}
	}
	if want := []string{"skills/greet/SKILL.md", "skills/greet/scripts/run.sh", "skills/linked/SKILL.md"}; !slices.Equal(names, want) {
		t.Errorf("got %v", names)
	}
}

func TestScheduledBackupsAreMadeWhenDueAlsoAfterDowntimeAndRotated(t *testing.T) {
	home, s := lived(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		if err := os.Chtimes(filepath.Join(home, "node"), now, now); err != nil {
			t.Fatal(err)
		}
		hand := ""
		run := func(d time.Duration) {
			t.Helper()
			s := opened(t, home)
			defer s.Close()
			k := New(home, s, Options{Keep: 3})
			if hand == "" {
				hand = created(t, k, Request{}).Name
			}
			ctx, stop := context.WithTimeout(t.Context(), d)
			defer stop()
			if err := k.Run(ctx, 24*time.Hour, nil); err != nil {
				t.Error(err)
			}
		}
		made := func() (n int, newest time.Time) {
			t.Helper()
			list, err := List(home)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range list {
				if i.Kind == Scheduled {
					n++
					if i.CreatedAt.After(newest) {
						newest = i.CreatedAt
					}
				}
			}
			return n, newest
		}
		run(23 * time.Hour)
		if n, _ := made(); n != 0 {
			t.Errorf("%d were made within a day", n)
		}
		run(2 * time.Hour) // it was started again meanwhile: a day is a day
		if n, _ := made(); n != 1 {
			t.Errorf("%d after a day, want 1", n)
		}
		time.Sleep(10 * 24 * time.Hour) // nobody is at home
		back := time.Now()
		run(time.Hour)
		n, newest := made()
		if n != 2 || newest.Sub(back) > 5*time.Minute {
			t.Errorf("after downtime %d, the newest %v after the start", n, newest.Sub(back))
		}
		run(5 * 24 * time.Hour)
		if n, _ := made(); n != 3 {
			t.Errorf("%d are kept, want 3", n)
		}
		if _, err := os.Stat(filepath.Join(home, "backups", hand)); err != nil {
			t.Errorf("one made by hand was rotated: %v", err)
		}
	})
}

func TestABackupThatFailsIsNotedAndTriedAgain(t *testing.T) {
	home, s := lived(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	inTheWay := filepath.Join(home, "backups")
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, home)
		defer s.Close()
		noted := func() (f *Failure) {
			t.Helper()
			err := s.View(t.Context(), func(tx store.Tx) (err error) {
				f, err = LastFailure(tx)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go New(home, s, Options{}).Run(ctx, 24*time.Hour, nil)
		now := time.Now()
		if err := os.Chtimes(filepath.Join(home, "node"), now.Add(-48*time.Hour), now.Add(-48*time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if f := noted(); f == nil || f.Error == "" {
			t.Errorf("noted: %v", f)
		}
		if err := os.Remove(inTheWay); err != nil {
			t.Fatal(err)
		}
		time.Sleep(afterFailure)
		synctest.Wait()
		if f := noted(); f != nil {
			t.Errorf("still noted: %v", f)
		}
		stop()
		synctest.Wait()
	})
}

func TestContentsThatNothingNamesAreSweptAndOthersKept(t *testing.T) {
	home := t.TempDir()
	s := opened(t, home)
	put := func(text string, age time.Duration) string {
		t.Helper()
		ref, err := s.Blobs().Put(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(home, "files", ref[:2], ref), at, at); err != nil {
			t.Fatal(err)
		}
		return ref
	}
	step, undo := put("named by a step", 48*time.Hour), put("needed for undo", 48*time.Hour)
	fresh, old := put("just put", time.Minute), put("named by nothing", 48*time.Hour)
	err := s.Update(t.Context(), func(tx store.Tx) error {
		return errors.Join(tx.PutStep(mercury.Step{RunID: "run_1", CallID: "c", OutputRef: step}),
			tx.PutUndo(store.UndoRow{ID: "u", RunID: "run_1", BeforeRef: undo, At: time.Now()}))
	})
	if err != nil {
		t.Fatal(err)
	}
	n, err := New(home, s, Options{}).Sweep(t.Context())
	if n != 1 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	for ref, want := range map[string]bool{step: true, undo: true, fresh: true, old: false} {
		r, err := s.Blobs().Open(t.Context(), ref)
		if err == nil {
			r.Close()
		}
		if (err == nil) != want {
			t.Errorf("%s: %v, want it there: %t", ref, err, want)
		}
	}
}

// Each case is what a home finds at a start: a database, and its own record.
func TestADatabaseThatIsNotWhereTheHomeLeftItIsRecognised(t *testing.T) {
	for name, tt := range map[string]struct {
		between func(t *testing.T, dir string)
		want    bool
	}{
		"nothing happened":       {func(*testing.T, string) {}, false},
		"killed after the start": {func(t *testing.T, dir string) { recognise(t, dir, false, true) }, false},
		"a look":                 {func(t *testing.T, dir string) { recognise(t, dir, false, false) }, false},
		"an older copy": {func(t *testing.T, dir string) {
			old := kept(t, dir)
			recognise(t, dir, true, true)
			put(t, dir, old)
		}, true},
		"a copy from the same start, after an orderly end": {func(t *testing.T, dir string) {
			var old []byte
			within(t, dir, func(s Station) {
				recogniseIn(t, s, true)
				path := filepath.Join(t.TempDir(), "copy.db")
				if err := s.Store.(interface {
					Snapshot(context.Context, string) error
				}).Snapshot(t.Context(), path); err != nil {
					t.Fatal(err)
				}
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				old = b
				if err := s.Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
			put(t, dir, old)
		}, true},
		"another home's": {func(t *testing.T, dir string) {
			other := t.TempDir()
			recognise(t, other, true, true)
			put(t, dir, kept(t, other))
		}, true},
		"no record": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, identityFile)); err != nil {
				t.Fatal(err)
			}
		}, true},
		"a torn record": {func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, identityFile), []byte(`{"incarn`), 0o600); err != nil {
				t.Fatal(err)
			}
		}, true},
		"a new database": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, databaseEntry)); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			recognise(t, dir, true, true)
			tt.between(t, dir)
			if tt.want { // holding breaks off after the record was written
				broken := errors.New("broken")
				within(t, dir, func(s Station) {
					s.Parts = []Part{{Name: "broken", Hold: func(store.Tx) error { return broken }}}
					if _, _, err := s.Recognise(t.Context()); !errors.Is(err, broken) {
						t.Errorf("got %v", err)
					}
				})
			}
			for range 2 { // what was found once stays, until a person resumes
				if got := recognise(t, dir, true, true); (got != nil) != tt.want {
					t.Errorf("restored: %v, want %t", got, tt.want)
				}
			}
		})
	}
}

func within(t *testing.T, dir string, fn func(Station)) {
	t.Helper()
	s := opened(t, dir)
	defer s.Close()
	fn(Station{Home: dir, Node: "node_1", Store: s})
}

func recogniseIn(t *testing.T, s Station, working bool) *Restored {
	t.Helper()
	held, count, err := s.Recognise(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !working {
		return held
	}
	if err := count(t.Context()); err != nil {
		t.Fatal(err)
	}
	return held
}

// recognise is one life of a home, which ends in order or by a kill.
func recognise(t *testing.T, dir string, orderly, working bool) (held *Restored) {
	t.Helper()
	within(t, dir, func(s Station) {
		held = recogniseIn(t, s, working)
		if orderly {
			if err := s.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
	return held
}

func kept(t *testing.T, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, databaseEntry))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func put(t *testing.T, dir string, database []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, databaseEntry), database, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatElseStartsByItselfIsHeldAndResumedInTheSameCommit(t *testing.T) {
	home, s := lived(t)
	path := created(t, New(home, s, Options{}), Request{}).Path
	to := filepath.Join(t.TempDir(), "there")
	if _, err := Restore(t.Context(), path, to, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	part := Part{Name: "schedules",
		Hold:    func(tx store.Tx) error { return tx.SetMeta("schedules", "held") },
		Waiting: func(store.Tx) ([]string, error) { return []string{"the morning digest, 08:00"}, nil },
	}
	within(t, to, func(s Station) {
		s.Parts = []Part{{Name: "broken", Hold: func(store.Tx) error { return broken }}, part}
		if _, _, err := s.Recognise(t.Context()); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		s.Parts = []Part{part}
		if recogniseIn(t, s, true) == nil {
			t.Error("it was not recognised after a failure")
		}
		err := s.Store.View(t.Context(), func(tx store.Tx) error {
			h, err := FindHeld(tx, s.Parts)
			if err != nil || len(h.Waiting) != 1 || h.Waiting[0] != "schedules: the morning digest, 08:00" {
				t.Errorf("got %v, %v", h, err)
			}
			if v, _ := tx.MetaValue("schedules"); v != "held" {
				t.Errorf("schedules are %q", v)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func TestASnapshotBeforeAMigrationIsListedCheckedAndRestored(t *testing.T) {
	home, s := lived(t)
	want := storetest.Tables(t, s)
	path := filepath.Join(home, "backups", migrationMark+"1.db")
	if err := s.Snapshot(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	list, err := List(home)
	if err != nil || len(list) != 1 || list[0].Kind != Migration {
		t.Fatalf("%v, %v", list, err)
	}
	if m, err := Verify(t.Context(), path); err != nil || m.Schema == 0 {
		t.Errorf("%+v, %v", m, err)
	}
	to := filepath.Join(t.TempDir(), "there")
	if _, err := Restore(t.Context(), path, to, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	within(t, to, func(s Station) {
		got := storetest.Tables(t, s.Store.(store.Portable))
		if want := want[:len(want)-1]; !slices.Equal(got[:len(got)-1], want) { // contents are files
			t.Errorf("got %v\nwant %v", got, want)
		}
		if recogniseIn(t, s, true) == nil {
			t.Error("it is not known to be a copy")
		}
	})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"cut": b[:len(b)/2], "empty": nil, "no database": []byte("text")} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(t.Context(), path); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
