package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lives plays endings one after another; each life lasts as long as it says.
func lives(ends ...func(ctx context.Context) Ending) func(context.Context) (Ending, error) {
	n := 0
	return func(ctx context.Context) (Ending, error) {
		n++
		return ends[min(n, len(ends))-1](ctx), nil
	}
}

func after(d time.Duration, code int) func(context.Context) Ending {
	return func(ctx context.Context) Ending {
		select {
		case <-ctx.Done():
			return Ending{}
		case <-time.After(d):
			return Ending{Code: code, How: fmt.Sprintf("exit code %d", code), Last: "no luck"}
		}
	}
}

func TestACrashIsFollowedByAStartAndManyByNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		var said []string
		began := time.Now()
		_, err := Run(t.Context(), Options{Live: lives(after(time.Second, 1)), File: file, Say: func(s string) { said = append(said, s) }})
		if !errors.Is(err, ErrParked) || !strings.Contains(err.Error(), "no luck") {
			t.Errorf("err: %v", err)
		}
		if took := time.Since(began); took != 5*time.Second+15*time.Second { // five lives, 1+2+4+8 between
			t.Errorf("it took %v", took)
		}
		if len(said) != 4 {
			t.Errorf("said %q", said)
		}
		s, err := Read(file)
		if err != nil || s.Why() == "" || len(s.Crashes) != 5 {
			t.Errorf("kept %+v, %v", s, err)
		}
	})
}

func TestALongLifeForgetsCrashesAndAnOrderedEndIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		short, long := after(time.Second, 1), after(time.Hour, 1)
		code, err := Run(t.Context(), Options{Live: lives(short, short, short, short, long, short, short, after(time.Second, 0)), File: file, Say: func(string) {}})
		if code != 0 || err != nil {
			t.Errorf("%d, %v", code, err)
		}
		code, err = Run(t.Context(), Options{Live: lives(after(time.Second, 3)), Final: []int{3}, File: file, Say: func(string) {}})
		if code != 3 || err != nil {
			t.Errorf("a final code: %d, %v", code, err)
		}
		if s, _ := Read(file); len(s.Crashes) != 3 {
			t.Errorf("a new supervisor begins with %+v, want the end of the long life and the two crashes since", s)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		if code, err := Run(ctx, Options{Live: lives(short, long), Say: func(string) {}}); code != 0 || err != nil {
			t.Errorf("asked to end: %d, %v", code, err)
		}
	})
}

// A service manager starts the supervisor again at once; that must not bring
// back what was parked.
func TestParkedHoldsForTheNextSupervisorUntilForgottenOrOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		started := 0
		crash := Options{File: file, Say: func(string) {}, Live: func(ctx context.Context) (Ending, error) {
			started++
			return after(time.Second, 1)(ctx), nil
		}}
		run := func(want int) {
			t.Helper()
			started = 0
			if _, err := Run(t.Context(), crash); !errors.Is(err, ErrParked) || !strings.Contains(err.Error(), "no luck") || started != want {
				t.Errorf("%d lives, want %d: %v", started, want, err)
			}
		}
		run(tooMany)
		run(0)
		time.Sleep(steady / 2)
		run(0)
		if err := Forget(file); err != nil {
			t.Fatal(err)
		}
		run(tooMany)
		time.Sleep(steady)
		run(tooMany)
	})
}

func TestCrashesOfTheLastMinutesCountForTheNextSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "state")
		ctx, stop := context.WithTimeout(t.Context(), 4500*time.Millisecond) // two lives and the waits 1 and 2
		defer stop()
		o := Options{Live: lives(after(time.Second, 1)), File: file, Say: func(string) {}}
		if _, err := Run(ctx, o); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := Run(t.Context(), o); !errors.Is(err, ErrParked) {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 3*time.Second+(4+8)*time.Second { // three lives more
			t.Errorf("it took %v", took)
		}
	})
}

func TestALifeKeepsItsLastWords(t *testing.T) {
	dir := t.TempDir()
	p := Program{Path: os.Args[0], Args: []string{"-test.run=^$", "-nonsense"}, Words: filepath.Join(dir, "words"), End: (*os.Process).Kill}
	if err := os.WriteFile(p.Words, []byte("of an earlier life\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := p.Live(t.Context())
	if err != nil || end.Code != 2 || !strings.Contains(end.How, "2") || !strings.HasSuffix(end.Last, "print additional output\n") || strings.Contains(end.Last, "earlier") {
		t.Errorf("%+v, %v", end, err)
	}
	if len(end.Last) > keptTail {
		t.Errorf("%d bytes of last words", len(end.Last))
	}
	p.Path = filepath.Join(dir, "gone")
	if _, err := p.Live(t.Context()); err == nil || !strings.Contains(err.Error(), p.Path) {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestALogIsBoundedAndFollowedThroughItsChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mercury.log")
	l, err := OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fmt.Fprintln(l, "first")
	ctx, cancel := context.WithCancel(t.Context())
	out, seen := &lines{}, make(chan error, 1)
	go func() { seen <- Show(ctx, out, path, 10, true) }()
	line := strings.Repeat("x", 1023) + "\n"
	for range LogFiles * LogSize / len(line) {
		fmt.Fprint(l, line)
	}
	fmt.Fprintln(l, "last")
	for !out.has("last\n") {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-seen; err != nil {
		t.Error(err)
	}
	found, _ := filepath.Glob(path + "*")
	if len(found) != LogFiles {
		t.Errorf("files: %v", found)
	}
	total := int64(0)
	for _, f := range found {
		info, err := os.Stat(f)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", f, info.Mode(), err)
		}
		total += info.Size()
	}
	if total > LogFiles*LogSize {
		t.Errorf("%d bytes are kept", total)
	}
}

func TestTheLastLinesAreShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for text, want := range map[string]string{"a\nb\nc\n": "b\nc\n", "a\nb\nc": "b\nc", "c\n": "c\n", "": ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := Show(t.Context(), &out, path, 2, false); err != nil || out.String() != want {
			t.Errorf("%q: %q, %v, want %q", text, out.String(), err, want)
		}
	}
}

// lines is a buffer for two goroutines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.b.String(), s)
}
