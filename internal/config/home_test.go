package config

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestTheHomeIsWhereTheEnvironmentSaysElseTheUsualPlace(t *testing.T) {
	user, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ env, want string }{
		"nothing set":   {"", filepath.Join(user, ".mercury")},
		"absolute":      {filepath.Join(user, "m"), filepath.Join(user, "m")},
		"with a tilde":  {"~/m", filepath.Join(user, "m")},
		"another user":  {filepath.Join(user, "~x"), filepath.Join(user, "~x")},
		"not yet clean": {user + "/a/../m/", filepath.Join(user, "m")},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := FindHome(variables(map[string]string{"MERCURY_HOME": tt.env}))
			if err != nil || h.Dir() != tt.want || h.Usual() != (tt.env == "") {
				t.Errorf("got %s, usual %v, %v; want %s", h.Dir(), h.Usual(), err, tt.want)
			}
		})
	}
}

func TestTheTokenIsMadeOnceAndIsTheSameForAll(t *testing.T) {
	h, _ := HomeAt(filepath.Join(t.TempDir(), "home"))
	tokens := make([]string, 8)
	var all sync.WaitGroup
	for i := range tokens {
		all.Go(func() {
			var err error
			if tokens[i], err = h.Token(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, token := range tokens {
		if len(token) != 64 || token != tokens[0] {
			t.Fatalf("tokens differ or are short: %v", tokens)
		}
	}
	for path, mode := range map[string]os.FileMode{h.TokenFile(): 0o600, h.Dir(): 0o700, h.Bots(): 0o700} {
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, mode)
		}
	}
}

func TestATokenFileThatHoldsNoTokenIsNotReplacedInSilence(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("z", 64)} {
		h := homeWith(t, map[string]string{"token": text})
		if token, err := h.Token(); err == nil {
			t.Errorf("%q became %q", text, token)
		}
		if got, _ := os.ReadFile(h.TokenFile()); string(got) != text {
			t.Errorf("the file was changed to %q", got)
		}
	}
}

func TestDotenvReadsWhatPeopleWrite(t *testing.T) {
	text := "\xef\xbb\xbf# keys\r\nA=1\r\n\n export B = two words # comment\nC=\"a\\nb \\\"q\\\" $HOME # in\"\nD='lit\\n $x' # c\nE=\nF=a#b\nA=2\nexport=yes\nG=# none\nH=\"\"\nI=a=b\n"
	want := map[string]string{
		"A": "2", "B": "two words", "C": "a\nb \"q\" $HOME # in", "D": `lit\n $x`, "E": "", "F": "a#b", "export": "yes", "G": "", "H": "", "I": "a=b",
	}
	vars, problems := parseDotenv([]byte(text))
	got := map[string]string{}
	for name, v := range vars {
		got[name] = v.value
	}
	if !maps.Equal(got, want) || len(problems) != 0 {
		t.Errorf("got %q, %v", got, problems)
	}
}

func TestDotenvRefusesTheRestWithItsLineAndWithoutItsValue(t *testing.T) {
	for _, line := range []string{canary, "1A=" + canary, "A B=" + canary, "A=\"" + canary, "A='x' " + canary, "A-B=" + canary, "=" + canary, "A=" + canary + "\xff"} {
		_, problems := parseDotenv([]byte("OK=1\n" + line + "\n"))
		if len(problems) != 1 || problems[0].Line != 2 || strings.Contains(problems.Error(), canary) {
			t.Errorf("%q: %v", line, problems)
		}
	}
}

func TestAnOpenDotenvIsAWarning(t *testing.T) {
	h := homeWith(t, map[string]string{".env": "A=1\n"})
	if runtime.GOOS == "windows" {
		return // where files have no such modes, there is nothing to warn of
	}
	if err := os.Chmod(h.Env(), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Source{Home: h, Getenv: variables(nil)})
	if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "chmod 600") {
		t.Errorf("got %v, %v", c.Warnings, err)
	}
}

func TestTheCurrentFolderIsNeverRead(t *testing.T) {
	here := t.TempDir()
	for name, text := range map[string]string{".env": "OPENAI_API_KEY=x\n", "mercury.yaml": "owner: Eve\n", ".mercury/mercury.yaml": "owner: Eve\n"} {
		path := filepath.Join(here, name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(here)
	c, err := Load(Source{Home: homeWith(t, nil), Getenv: variables(nil)})
	if err != nil || c.Owner != "" || c.Model != "" {
		t.Errorf("got owner %q, model %q, %v", c.Owner, c.Model, err)
	}
}

func TestAVariableIsSetInItsLineAndReadBack(t *testing.T) {
	h := homeWith(t, map[string]string{".env": "# mine\nA=1 # one\n\nB=2"})
	for name, value := range map[string]string{"A": "x y#\"'\\\n\t$z", "C": "plain-Key_1", "B": ""} {
		if err := SetVariable(h, name, value); err != nil {
			t.Fatal(err)
		}
		env, problems := readEnvironment(h, variables(nil))
		if got := env.dotenv[name].value; got != value || len(problems) != 0 {
			t.Errorf("%s is %q, want %q; %v", name, got, value, problems)
		}
	}
	text, _ := os.ReadFile(h.Env())
	if want := "# mine\nA=\"x y#\\\"'\\\\\\n\\t$z\"\n\nB=\"\"\nC=plain-Key_1\n"; string(text) != want {
		t.Errorf("got %q, want %q", text, want)
	}
	if err := SetVariable(h, "A=B", "x"); err == nil {
		t.Error("a broken name was accepted")
	}
}

func TestAHomeOfTheTypeScriptMercuryIsLeftAloneAndAnotherStandsBesideIt(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	t.Setenv("USERPROFILE", user)
	old := filepath.Join(user, ".mercury")
	if err := os.MkdirAll(old, 0o700); err != nil {
		t.Fatal(err)
	}
	h, err := FindHome(variables(nil))
	if err != nil || h.Dir() != old || h.Beside() != "" {
		t.Fatalf("an empty folder: got %s beside %q, %v", h.Dir(), h.Beside(), err)
	}
	if err := os.WriteFile(filepath.Join(old, "mercury.yaml"), []byte("identity:\n  name: Mercury\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err = FindHome(variables(nil))
	if err != nil || h.Dir() != old+"2" || h.Beside() != old || !h.Usual() {
		t.Errorf("got %s beside %q, usual %v, %v", h.Dir(), h.Beside(), h.Usual(), err)
	}
	if h, _ := FindHome(variables(map[string]string{"MERCURY_HOME": old})); h.Guard() == nil {
		t.Error("the old home was accepted when it was named")
	}
}
