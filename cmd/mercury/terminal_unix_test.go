//go:build unix

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
)

// terminal is a program with a person in front of it.
type terminal struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	mu   sync.Mutex
	seen bytes.Buffer
	at   int // what was waited for before ends here
	more chan struct{}
}

// open starts mercury at a terminal of so many columns.
func open(t *testing.T, columns uint16, env []string, args ...string) *terminal {
	t.Helper()
	c := exec.Command("mercury", args...)
	c.Env = env
	tty, err := pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, cmd: c, tty: tty, more: make(chan struct{}, 1)}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := tty.Read(b)
			term.mu.Lock()
			term.seen.Write(b[:n])
			term.mu.Unlock()
			select {
			case term.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		c.Process.Kill()
		tty.Close()
	})
	return term
}

// until waits for text behind what was waited for before.
func (term *terminal) until(text string) *terminal {
	term.t.Helper()
	for end := time.After(20 * time.Second); ; {
		term.mu.Lock()
		i := strings.Index(term.seen.String()[term.at:], text)
		if i >= 0 {
			term.at += i + len(text)
		}
		term.mu.Unlock()
		if i >= 0 {
			return term
		}
		select {
		case <-term.more:
		case <-end:
			term.t.Fatalf("the terminal never showed %q:\n%s", text, term.screen())
		}
	}
}

func (term *terminal) press(keys string) *terminal {
	term.t.Helper()
	if _, err := io.WriteString(term.tty, keys); err != nil {
		term.t.Fatal(err)
	}
	return term
}

func (term *terminal) screen() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.seen.String()
}

// code waits for the end of the program.
func (term *terminal) code() int {
	term.cmd.Wait()
	return term.cmd.ProcessState.ExitCode()
}

const goodKey = "sk-ant-api03-GoodGoodGoodGood1234567890"

// house is a new home with an Anthropic server of its own, which knows one key
// and refuses others as Anthropic does.
type house struct {
	home string
	env  []string
}

func newHouse(t *testing.T) house {
	t.Helper()
	model, err := llmtest.NewServer(script, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != goodKey {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`)
			return
		}
		model.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	user := t.TempDir()
	home := filepath.Join(user, "home")
	return house{home: home, env: []string{"MERCURY_HOME=" + home, "HOME=" + user, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "NO_COLOR=1",
		"TZ=Europe/Lisbon", "MERCURY_DISCOVER=off", "MERCURY_LISTEN=127.0.0.1:0", "ANTHROPIC_BASE_URL=" + s.URL}}
}

func (h house) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(h.home, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAPastedKeyIsTriedKeptAndNeverShown(t *testing.T) {
	h := newHouse(t)
	wrong := "sk-ant-api03-WrongWrongWrong1234567890"
	s := open(t, 80, h.env, "setup")
	s.until("Which model").until("Key (").press("\x1b[200~" + wrong + "\x1b[201~").press("\r")
	s.until("No.").until("invalid x-api-key").until("The key was not kept").until("Key (").press(goodKey).press("\r")
	s.until("It answers").until("2 of 2").until("(Europe/Lisbon)").press("tokyo\r").until("Asia/Tokyo, where it is")
	s.until("name Mercury").press("name=Nova, budget=500,000\r").until("name Nova").until("budget 500,000 tokens").press("\r")
	s.until("Ready")
	if code := s.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if shown := s.screen(); strings.Contains(shown, wrong[:12]) || strings.Contains(shown, goodKey[:12]) {
		t.Errorf("a key was shown:\n%s", shown)
	}
	yaml := h.read(t, "mercury.yaml")
	for _, want := range []string{"model: anthropic/claude-sonnet-5", "timezone: Asia/Tokyo", "name: Nova", "daily_tokens: 500000", "$schema=./mercury.schema.json"} {
		if !strings.Contains(yaml, want) {
			t.Errorf("mercury.yaml lacks %q:\n%s", want, yaml)
		}
	}
	if env := h.read(t, ".env"); env != "ANTHROPIC_API_KEY="+goodKey+"\n" || strings.Contains(yaml, goodKey) {
		t.Errorf(".env is %q", env)
	}
	if info, err := os.Stat(filepath.Join(h.home, ".env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(h.home, "setup.json")); !os.IsNotExist(err) {
		t.Errorf("the set-up left its notes behind: %v", err)
	}
}

func TestASetUpThatIsKilledGoesOnWhereItWas(t *testing.T) {
	h := newHouse(t)
	s := open(t, 80, h.env, "setup")
	s.until("Key (").press(goodKey).press("\r").until("2 of 2").until("Is it")
	s.cmd.Process.Kill()
	s.code()
	s = open(t, 80, h.env, "setup")
	s.until("Going on where it was left").until("anthropic/claude-sonnet-5 answers").until("2 of 2").until("Is it").press("\x03").until("goes on from there")
	if code := s.code(); code != 0 || strings.Contains(s.screen(), "Which model") {
		t.Errorf("exit code %d\n%s", code, s.screen())
	}
	s = open(t, 80, h.env) // alone it goes on too, and opens the conversation
	s.until("2 of 2").until("Is it").press("\r").until("name Mercury").press("\r").until("Ready").until("/help").press("hello\r").until("Hello there.").press("/quit\r")
	if code := s.code(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.screen())
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")

func TestASetUpFitsFortyColumnsWithoutColour(t *testing.T) {
	h := newHouse(t)
	s := open(t, 40, append(h.env, "ANTHROPIC_API_KEY="+goodKey), "setup")
	s.until("[1]:").press("\r").until("It answers").until("Is it").press("\r").until("name Mercury").press("\r").until("Ready").until("demo")
	s.code()
	colours := regexp.MustCompile("\x1b\\[[0-9;]*m")
	if colours.MatchString(s.screen()) {
		t.Errorf("colour:\n%q", s.screen())
	}
	for line := range strings.Lines(escapes.ReplaceAllString(s.screen(), "")) {
		line = strings.TrimRight(line, "\r\n")
		if n := len([]rune(line)); n > 40 && strings.Contains(line, " ") { // a path cannot be broken
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

func TestATypeScriptMercuryIsOfferedToBeTakenOverAndLeftAlone(t *testing.T) {
	h := newHouse(t)
	user := filepath.Dir(h.home)
	old := filepath.Join(user, ".mercury")
	if err := os.MkdirAll(filepath.Join(old, "soul"), 0o700); err != nil {
		t.Fatal(err)
	}
	yaml := "identity: { name: Hermia, owner: Ada }\nproviders:\n  default: anthropic\n  anthropic: { apiKey: " + goodKey + ", model: claude-sonnet-5 }\n"
	for name, text := range map[string]string{"mercury.yaml": yaml, "soul/soul.md": "Calm.\n"} {
		if err := os.WriteFile(filepath.Join(old, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, 80, append(h.env, "MERCURY_HOME="))
	s.until(old).until("left as it is").until(old + "2").until("127.0.0.1:61").until("Take over").press("\r")
	s.until("From mercury").until("Do it").press("\r").until("Taken over").until("anthropic/claude-sonnet-5 answers")
	s.until("/help").press("hello\r").until("Hello there.").press("/quit\r")
	if code := s.code(); code != 0 || strings.Contains(s.screen(), goodKey) {
		t.Errorf("exit code %d\n%s", code, s.screen())
	}
	if b, err := os.ReadFile(filepath.Join(old, "mercury.yaml")); err != nil || string(b) != yaml {
		t.Errorf("the old home was changed: %v\n%s", err, b)
	}
	if entries, _ := os.ReadDir(old); len(entries) != 2 {
		t.Errorf("the old home holds %v", entries)
	}
	if b, _ := os.ReadFile(filepath.Join(old+"2", ".env")); !strings.Contains(string(b), goodKey) {
		t.Error("the key did not come along")
	}
}
