package config

import (
	"errors"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestSetChangesItsValueAndNotAnotherByte(t *testing.T) {
	for _, tt := range []struct{ name, before, key, value, after string }{
		{"a plain value before a comment", "model: openai/a      # mine\n\n\nname: X\n", "model", "anthropic/b", "model: anthropic/b      # mine\n\n\nname: X\n"},
		{"a value in double quotes", "name:   \"Old\" # x\n", "name", "New", "name:   \"New\" # x\n"},
		{"a value in single quotes", "name: 'It''s' # x\n", "name", "That's", "name: 'That''s' # x\n"},
		{"a number with underscores", "budget: { daily_tokens: 1_000_000 }   # day\n", "budget.daily_tokens", "2_000_000", "budget: { daily_tokens: 2_000_000 }   # day\n"},
		{"a key missing in a flow section", "web:      { listen: \"127.0.0.1:1\" }  # c\n", "web.hosts", "a.example, b", "web:      { listen: \"127.0.0.1:1\", hosts: [a.example, b] }  # c\n"},
		{"a key missing in a tight flow section", "web: {listen: \"127.0.0.1:1\"}\n", "web.hosts", "[a]", "web: {listen: \"127.0.0.1:1\", hosts: [a]}\n"},
		{"an empty flow section", "web: {}\n", "web.listen", "127.0.0.1:7", "web: { listen: \"127.0.0.1:7\" }\n"},
		{"a key missing in a block section", "web:\n  listen: \"127.0.0.1:1\"   # a\n\n# next\nname: X\n", "web.hosts", "a", "web:\n  listen: \"127.0.0.1:1\"   # a\n  hosts: [a]\n\n# next\nname: X\n"},
		{"a section that is missing", "name: X # n\n", "channels.telegram.token", "${TELEGRAM_BOT_TOKEN}", "name: X # n\nchannels:\n  telegram:\n    token: \"${TELEGRAM_BOT_TOKEN}\"\n"},
		{"a section that is empty", "channels:   # all\nname: X\n", "channels.telegram.token", "abc", "channels:   # all\n  telegram:\n    token: abc\nname: X\n"},
		{"a deep one beside others", "channels:\n    relay:\n        url: https://a\n    # end\nname: X\n", "channels.telegram.progress", "true", "channels:\n    relay:\n        url: https://a\n    telegram:\n      progress: true\n    # end\nname: X\n"},
		{"a value that was never written", "name:\nmodel: openai/x\n", "name", "X", "name: X\nmodel: openai/x\n"},
		{"a value that was never written, with a comment", "name:  # who\n", "name", "X", "name: X  # who\n"},
		{"a null", "name: null # who\n", "name", "X", "name: X # who\n"},
		{"a block list by a line", "fallbacks: # order\n  - openai/a # first\n  - openai/b\n\n# after\nname: X\n", "fallbacks", "openai/c", "fallbacks: [openai/c] # order\n\n# after\nname: X\n"},
		{"a block list at the same indent", "fallbacks:\n- openai/a\n- openai/b\nname: X\n", "fallbacks", "[]", "fallbacks: []\nname: X\n"},
		{"a flow list", "fallbacks: [openai/a, openai/b]   # x\n", "fallbacks", "openai/c,openai/d", "fallbacks: [openai/c, openai/d]   # x\n"},
		{"one entry of a list", "fallbacks: [openai/a, openai/b]\n", "fallbacks.1", "openai/c", "fallbacks: [openai/a, openai/c]\n"},
		{"a literal block", "owner: |\n  one\n  two\nname: X\n", "owner", "Ada", "owner: Ada\nname: X\n"},
		{"a folded text", "owner: Ada\n  Lovelace\nname: X\n", "owner", "Ada", "owner: Ada\nname: X\n"},
		{"a text that reads as something else", "name: X\n", "name", "true", "name: \"true\"\n"},
		{"a text with a hash and a colon", "name: X\n", "name", "a: b # c", "name: \"a: b # c\"\n"},
		{"a text in another script", "name: Ünï   # ü\n", "name", "メルクリ", "name: \"メルクリ\"   # ü\n"},
		{"behind wide characters in one line", "providers: { \"日本\": { base_url: \"http://a\", quirks: x } }\n", `providers.日本.quirks`, "y", "providers: { \"日本\": { base_url: \"http://a\", quirks: y } }\n"},
		{"a name with a dot", "name: X\n", `prices."openai/gpt-4.1".input`, "2.5", "name: X\nprices:\n  openai/gpt-4.1:\n    input: 2.5\n"},
		{"line ends of Windows", "name: X # a\r\n\r\nowner: A\r\n", "name", "Y", "name: Y # a\r\n\r\nowner: A\r\n"},
		{"a byte order mark", "\xef\xbb\xbfname: X\n", "name", "Y", "\xef\xbb\xbfname: Y\n"},
		{"an empty file", "", "name", "Y", "name: Y\n"},
		{"a file of comments", "# hello\n\n", "name", "Y", "# hello\nname: Y\n\n"},
		{"no newline at the end", "name: X", "owner", "A", "name: X\nowner: A\n"},
		{"a switch", "memory: {learn: true}\n", "memory.learn", "false", "memory: {learn: false}\n"},
		{"a section at once", "limits:\n  turn:\n    steps: 5\n", "limits.turn", "{steps: 7, minutes: 3}", "limits:\n  turn: {steps: 7, minutes: 3}\n"},
		{"what was broken", "log: { level: loud }\n", "log.level", "debug", "log: { level: debug }\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := homeWith(t, map[string]string{"mercury.yaml": tt.before})
			src := Source{Home: h, Getenv: variables(nil)}
			if _, err := Set(src, tt.key, tt.value); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(h.Config())
			if err != nil || string(got) != tt.after {
				t.Fatalf("got %v\n%s\nwant\n%s", err, got, tt.after)
			}
			if b, _ := os.ReadFile(h.Schema()); string(b) != string(Schema()) {
				t.Error("the schema is not beside the file")
			}
			if info, _ := os.Stat(h.Config()); runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("others can read it: %v", info.Mode())
			}
		})
	}
}

func TestSetRefusesWhatWouldNotLoadAndLeavesTheFile(t *testing.T) {
	for _, tt := range []struct{ name, before, key, value string }{
		{"an unknown key", "name: X\n", "nmae", "Y"},
		{"a wrong type", "name: X\n", "budget.daily_tokens", "lots"},
		{"an impossible value", "name: X\n", "timezone", "Europe/Atlantis"},
		{"a provider that is not there", "name: X\n", "model", "nobody/x"},
		{"a file broken elsewhere", "name: X\nzebra: 1\n", "name", "Y"},
		{"a file that is not YAML", "name: \"X\n", "name", "Y"},
		{"several lines", "name: X\n", "name", "a\nb: c"},
		{"a value that would add a key", "name: X\n", "limits.turn", "{steps: 1}, zebra: 2"},
		{"a value behind an alias", "limits:\n  turn: &t {steps: 5}\n  code: *t\n", "limits.code.steps", "6"},
		{"a value that an alias shares", "limits:\n  turn: &t {steps: 5}\n  code: *t\n", "limits.turn.steps", "6"},
		{"an entry the list does not have", "fallbacks: [openai/a]\n", "fallbacks.3", "openai/b"},
		{"a broken reference", "name: X\n", "github.token", "${"},
		{"a comment in place of a number", "name: X\n", "budget.daily_tokens", "# none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := homeWith(t, map[string]string{"mercury.yaml": tt.before})
			_, err := Set(Source{Home: h, Getenv: variables(nil)}, tt.key, tt.value)
			if err == nil {
				b, _ := os.ReadFile(h.Config())
				t.Fatalf("it was set:\n%s", b)
			}
			if kind := mercury.KindOf(err); kind == mercury.Unknown {
				t.Errorf("the error has no kind: %v", err)
			}
			if got, _ := os.ReadFile(h.Config()); string(got) != tt.before {
				t.Errorf("the file became\n%s", got)
			}
		})
	}
}

func TestSetMakesTheHomeAndTheFileWithItsSchemaLine(t *testing.T) {
	h, _ := HomeAt(t.TempDir() + "/new/home")
	c, err := Set(Source{Home: h, Getenv: variables(nil)}, "owner", "Ada")
	if err != nil || c.Owner != "Ada" {
		t.Fatalf("%v, %v", c, err)
	}
	if got, _ := os.ReadFile(h.Config()); string(got) != header+"owner: Ada\n" {
		t.Errorf("got\n%s", got)
	}
}

func TestAHomeOfTheTypeScriptMercuryIsNeverWritten(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"by its identity":        {"mercury.yaml": "# x\nidentity:\n  name: M\n"},
		"by its quoted identity": {"mercury.yaml": "\"identity\" : {name: M}\n"},
		"by its schedules":       {"schedules.yaml": "[]\n"},
		"by one that is broken":  {"mercury.yaml": "identity:\n\tname: [\n"},
	} {
		t.Run(name, func(t *testing.T) {
			h := homeWith(t, files)
			src := Source{Home: h, Getenv: variables(nil)}
			_, load := Load(src)
			_, set := Set(src, "name", "X")
			_, token := h.Token()
			_, _, good := LoadOrLastGood(src)
			for what, err := range map[string]error{
				"load": load, "set": set, "token": token, "last good": good,
				"create": h.Create(), "schema": WriteSchema(h), "variable": SetVariable(h, "A", "b"),
			} {
				if !errors.Is(err, ErrForeignHome) || !strings.Contains(mercury.HelpOf(err), "MERCURY_HOME") {
					t.Errorf("%s: %v (%s)", what, err, mercury.HelpOf(err))
				}
			}
			entries, _ := os.ReadDir(h.Dir())
			if len(entries) != len(files) {
				t.Errorf("%d files, want %d", len(entries), len(files))
			}
		})
	}
}

func TestAHomeThatCannotBeWrittenSaysHowToMendIt(t *testing.T) {
	dir := t.TempDir() + "/file"
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, _ := HomeAt(dir + "/home")
	_, set := Set(Source{Home: h, Getenv: variables(nil)}, "name", "X")
	_, token := h.Token()
	for what, err := range map[string]error{"set": set, "token": token, "variable": SetVariable(h, "A", "b")} {
		if mercury.KindOf(err) != mercury.Setup || mercury.HelpOf(err) == "" {
			t.Errorf("%s: %v (%s)", what, err, mercury.HelpOf(err))
		}
	}
}

func TestEveryKeyCanBeSetInFilesOfEveryLayout(t *testing.T) {
	layouts := map[string]string{
		"empty":      "",
		"example":    example,
		"comments":   "# one\n\n  # two\n# three\n",
		"empty keys": "# c\nweb:\nlimits: # l\n\nchannels: {}\nproviders: ~   # p\npermissions: {mode: ask}\nlog: # last",
		"blocks":     "web: # w\n    # inside\n    listen: \"127.0.0.1:1\"\n\nlimits:\n  turn:\n    steps: 5 # s\n\n  # before code\n  code:\n    minutes: 6\nchannels:\n  relay:\n    url: http://r # r\n    owners:\n    - a\n    # between\n    - b\n# end\nproviders:\n  openai:\n    headers:\n      X: y\nname: 'Q' # q",
		"windows":    "web: # w\r\n  listen: \"127.0.0.1:1\"\r\n\r\nbackup: { keep: 3 } # b\r\n",
		"trailing":   "channels:\n  telegram: { token: x, }\nbackup: {keep: 3,}\nmemory: {  }\n",
	}
	keys := Default().Keys()
	for _, channel := range []string{"telegram.token", "telegram.progress", "discord.owners", "relay.url", "slack.app_token", "imessage.members"} {
		keys = append(keys, "channels."+channel)
	}
	keys = append(keys, "providers.mine.base_url", "providers.openai.max_output", "providers.openai.headers.X-Y", "providers.openai.idle_timeout", "mcp.servers.x.url")
	// Of the values for a type, those that no check of the key refuses are set.
	values := func(t reflect.Type) []string {
		switch {
		case t.Kind() == reflect.Bool:
			return []string{"true", "false"}
		case t == reflect.TypeFor[Duration](), t == reflect.TypeFor[*Duration]():
			return []string{"1h", "0"}
		case isText(t):
			return []string{"https://h", "~/x", "127.0.0.1:9", "ask", "openai/x", "UTC", "debug", "landlock", "brave", "postgres://h/d"}
		case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
			return []string{"[{read: true, path: ~/y}]"}
		case t.Kind() == reflect.Slice:
			return []string{"openai/a, openai/b", "[openai/a]"}
		case t.Kind() == reflect.Map:
			return []string{"{}"}
		}
		return []string{"7", "7000"}
	}
	for name, text := range layouts {
		t.Run(name, func(t *testing.T) {
			src := Source{Home: homeWith(t, nil), Getenv: variables(nil)}
			for i, key := range keys {
				if name == "example" && i%5 != 0 {
					continue // it is long, and much like the others
				}
				if key == "quiet_hours.from" || key == "quiet_hours.to" || strings.HasPrefix(key, "mcp.servers.x.command") {
					continue // valid only together with another
				}
				path, _ := splitKey(key)
				at, _ := typeAt(reflect.TypeFor[Config](), path)
				set := 0
				for _, value := range values(at) {
					if key == "channels.relay.url" && !strings.HasPrefix(value, "http") {
						continue
					}
					want := valueFor(at, value)
					got, err := edit([]byte(text), path, want)
					if err != nil {
						t.Fatalf("%s = %s: %v", key, value, err)
					}
					if _, err := build(src, "mercury.yaml", got, nil); err != nil {
						continue // a value of another type
					}
					set++
					if err := onlyChanged(src, []byte(text), got, path, want); err != nil {
						t.Errorf("%s = %s: %v\n%s", key, value, err, got)
					}
					if a, b := strings.Count(text, "#"), strings.Count(string(got), "#"); a != b && !strings.HasPrefix(key, "channels.relay.owners") {
						t.Errorf("%s = %s: %d comments became %d\n%s", key, value, a, b, got)
					}
				}
				if set == 0 && !strings.HasPrefix(key, "channels.") {
					t.Errorf("%s took none of the values", key)
				}
			}
		})
	}
}

func TestSeveralKeysAreWrittenTogetherOrNotAtAll(t *testing.T) {
	before := "# mine\nname: X # n\n"
	h := homeWith(t, map[string]string{"mercury.yaml": before})
	src := Source{Home: h, Getenv: variables(nil)}
	if _, err := Change(src, Setting{"name", "Nova"}, Setting{"quiet_hours.from", "22:00"}); err == nil || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("half of the quiet hours: got %v", err)
	}
	if got, _ := os.ReadFile(h.Config()); string(got) != before {
		t.Fatalf("a refused change left\n%s", got)
	}
	c, err := Change(src, Setting{"name", "Nova"}, Setting{"quiet_hours.from", "22:00"}, Setting{"quiet_hours.to", "07:00"})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(h.Config())
	if want := "# mine\nname: Nova # n\nquiet_hours:\n  from: \"22:00\"\n  to: \"07:00\"\n"; string(got) != want || c.Name != "Nova" {
		t.Errorf("got %q\n%s\nwant\n%s", c.Name, got, want)
	}
}
