//go:build unix

package trust

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/test/house"
)

// The canaries: a secret in every place where one is kept, and one of a form
// that shows what it is.
var canaries = map[string]string{
	"provider key":  "key-canary-41f0c9d2b7a6",
	"header":        "hdr-canary-52a1d8e3c6b7",
	".env":          "env-canary-63b2e7f4d5c8",
	"channel token": "tok-canary-74c3f6a5e4d9",
	"environment":   "pro-canary-85d4a5b6f3ea",
	"MCP server":    "mcp-canary-96e5b4c7a2fb",
	"foreign shape": "ghp_CANARYa7f6c3d8b1ac0123456789abcdefgh",
}

// finds names the canaries in a text: in clear, and those that Mercury keeps
// as Base64 too. A foreign one that is encoded has no form to know it by.
func finds(text string) (found []string) {
	for name, value := range canaries {
		inner := base64.RawStdEncoding.EncodeToString([]byte(value))
		encoded := name != "foreign shape" && strings.Contains(text, inner[:len(inner)-2])
		if encoded || strings.Contains(text, value[4:]) {
			found = append(found, name)
		}
	}
	return found
}

func TestNoCanaryShowsOnAnySurface(t *testing.T) {
	t.Setenv("CANARY_API_KEY", canaries["environment"])
	key := canaries["provider key"]
	echo := llmtest.Rule{After: ".", Reply: "It says: {{tool}}"}
	tool := func(match string, c llmtest.Call) llmtest.Rule {
		return llmtest.Rule{Match: match, Tools: []llmtest.Call{c}}
	}
	shell := func(match, command string) llmtest.Rule {
		return tool(match, call("run_command", args{"command": command}))
	}
	script := llmtest.Script{Rules: []llmtest.Rule{
		tool("^read the notes", call("read_file", args{"path": "notes.md"})),
		tool("^search", call("search_text", args{"pattern": "canary"})),
		shell("^environment", "env; printenv; cat /proc/self/environ; cat /proc/$PPID/environ"),
		shell("^print the notes", "cat notes.md; base64 notes.md; base64 -w0 notes.md"),
		shell("^print much", "cat large.txt"),
		shell("^echo", "echo "+key+" "+canaries[".env"]),
		tool("^write", call("write_file", args{"path": "copy.md", "content": "the key is " + key})),
		{Match: "^quote", Reply: "Your key is " + key + ", and its code " + base64.StdEncoding.EncodeToString([]byte(key))},
		{Match: "^unauthorised", Fault: "401", Code: "invalid_api_key", Message: "Incorrect API key provided: " + key + ", header " + canaries["header"]},
		{Match: "^bad request", Fault: "400", Code: "bad", Message: "the request of " + canaries[".env"] + " with " + canaries["MCP server"]},
		{Match: "^broken stream", Fault: llmtest.ErrorEvent, Message: "lost " + key},
		echo,
	}, Default: "You said: {{user}}"}
	h := newHome(t, script, "ask", `providers: { scripted: { api: openai, base_url: MODEL, api_key: "${CANARY_PROVIDER}", headers: { X-Extra: "`+canaries["header"]+`" } } }
channels: { relay: { RELAY, token: "${CANARY_TOKEN}" } }
mcp: { servers: { x: { command: ["/bin/false"], env: { SECRET: "`+canaries["MCP server"]+`" } } } }
log: { level: debug }
`)
	h.bridge.Token = canaries["channel token"]
	h.write(h.files.Env(), "CANARY_PROVIDER="+key+"\nCANARY_TOKEN="+canaries["channel token"]+"\nUNUSED="+canaries[".env"]+"\n")
	notes := "# Notes\nthe key is " + key + "\ntoken " + canaries["channel token"] + "\nGitHub: " + canaries["foreign shape"] + "\nfrom env " + canaries[".env"] + "\n"
	h.write(filepath.Join(h.workspace, "notes.md"), notes)
	h.write(filepath.Join(h.workspace, "large.txt"), strings.Repeat("a line of the file\n"+notes, 4000))
	// The bridge quotes the token when it refuses, as some servers do.
	refused := 0
	h.door.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && refused == 0 {
			refused++
			http.Error(w, "not with "+r.Header.Get("Authorization"), http.StatusBadRequest)
			return
		}
		h.bridge.ServeHTTP(w, r)
	})
	h.start()
	surfaces := map[string]string{}

	// Everything that happens is watched as it streams.
	events := make(chan string, 1)
	ready := make(chan struct{})
	go func() {
		var b strings.Builder
		for ev, err := range h.client.Events(t.Context(), "", "", func() { close(ready) }) {
			if err != nil {
				break
			}
			fmt.Fprintf(&b, "%+v\n", ev)
		}
		events <- b.String()
	}()
	<-ready

	said := []string{"read the notes", "search", "environment", "print the notes", "print much", "echo", "write", "quote",
		"my key is " + key + " and " + canaries[".env"], "unauthorised", "bad request", "read the notes again"}
	for i, text := range said {
		h.say(fmt.Sprintf("local/c%d", i), text, "once")
	}
	for i, text := range []string{"quote this", "read the notes"} {
		h.bridge.Push("ann-chat", text)
		h.until("a message on the bridge", func() bool { return len(h.bridge.Sent()) > i || refused > 0 && i == 0 })
	}
	h.until("the end of the bridge's runs", func() bool { return len(h.runs("relay/ann-chat")) == 2 && len(h.bridge.Sent()) > 0 })
	h.through("relay/ann-chat", 2, "once")

	surfaces["conversations"] = h.get("/api/conversations")
	for i := range said {
		surfaces[fmt.Sprintf("entries of %q", said[i])] = h.get(fmt.Sprintf("/api/conversations/c%d/entries", i))
	}
	for _, path := range []string{"/api/runs", "/api/deliveries", "/api/questions?all=true", "/api/status", "/api/health", "/api/openapi.json",
		"/api/commands", "/api/nothing/" + key, "/api/runs/" + key, "/api/conversations/" + key} {
		surfaces["GET "+path] = h.get(path)
	}
	for _, r := range h.runs("") {
		surfaces["run "+r.ID] = h.get("/api/runs/" + r.ID)
	}
	commands(t, h, surfaces)
	h.stop()
	surfaces["events"] = <-events

	for _, r := range h.model.Requests() {
		surfaces[fmt.Sprintf("request %d of the model", r.N)] = string(r.Body)
	}
	for i, m := range h.bridge.Sent() {
		surfaces[fmt.Sprintf("message %d on the bridge", i)] = m.Text
	}
	if len(h.bridge.Sent()) == 0 {
		t.Error("the bridge showed nothing, so nothing was proven about it")
	}
	surfaces["log"] = h.log.String()
	rows(t, h, surfaces)
	for name, text := range surfaces {
		if found := finds(text); len(found) > 0 {
			t.Errorf("%s shows %s: %s", name, strings.Join(found, ", "), around(text))
		}
	}
	// The scene did happen: what was masked stood there.
	if all := fmt.Sprint(surfaces); !strings.Contains(all, "[secret ") || !strings.Contains(all, "[masked]") {
		t.Error("nothing was masked anywhere, so the scene did not happen")
	}
	if n := strings.Count(surfaces["log"], "was masked in a tool's output"); n == 0 {
		t.Error("no warning about a file that holds keys")
	}
}

// commands runs every command that prints, against the running house.
func commands(t *testing.T, h *home, surfaces map[string]string) {
	t.Helper()
	program := house.Program{}.Build(t)
	for _, words := range [][]string{
		{"status"}, {"status", "--json"}, {"runs", "list"}, {"runs", "list", "--json"}, {"deliveries", "list", "--json"}, {"questions", "list", "--json"},
		{"conversations", "list", "--json"}, {"conversations", "show", "c0"}, {"conversations", "show", "c7"}, {"permissions", "show"},
		{"config", "check"}, {"config", "get", "providers.scripted.api_key"}, {"config", "get", "providers.scripted.headers"},
		{"config", "get", "providers"}, {"config", "get", "channels"}, {"config", "get", "mcp"}, {"config", "explain", "providers.scripted.api_key"},
		{"config", "explain", "channels.relay.token", "--json"}, {"config", "explain", "mcp.servers.x.env.SECRET"}, {"config", "schema"},
		{"config", "set", "channels.relay.url", "not an address"}, {"ask", "unauthorised"}, {"ask", "--json", "quote it"}, {"ask", "read the notes"},
	} {
		cmd := exec.CommandContext(t.Context(), program, words...)
		cmd.Env = append(os.Environ(), "MERCURY_HOME="+h.files.Dir())
		out, err := cmd.CombinedOutput()
		surfaces["mercury "+strings.Join(words, " ")] = fmt.Sprintf("%s %v", out, err)
	}
}

// rows takes in every file below the home, the database among them, but for
// those whose purpose it is to hold secrets.
func rows(t *testing.T, h *home, surfaces map[string]string) {
	t.Helper()
	keeps := map[string]bool{".env": true, "token": true, "mercury.yaml": true, "mercury.yaml.good": true}
	database := false
	must(t, filepath.WalkDir(h.files.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || keeps[d.Name()] {
			return err
		}
		b, err := os.ReadFile(path)
		surfaces["file "+strings.TrimPrefix(path, h.files.Dir())] = string(b)
		database = database || d.Name() == "mercury.db"
		return err
	}))
	if !database {
		t.Error("there is no database to look at")
	}
}

func around(text string) string {
	at := strings.Index(strings.ToLower(text), "canary")
	if at < 0 {
		at = 0
	}
	b, _ := json.Marshal(text[max(0, at-120):min(len(text), at+80)])
	return string(b)
}

func TestADatabasePasswordShowsNowhereWhenTheDatabaseIsOutOfReach(t *testing.T) {
	const password = "dbp-canary-a7f6c3d8b1ac"
	h := newHome(t, llmtest.Script{}, "ask", `database: { url: "postgres://ann:`+password+`@127.0.0.1:1/db?connect_timeout=1" }`+"\n")
	h.start()
	h.until("a degraded status", func() bool {
		st, err := h.client.Status(t.Context())
		return err == nil && st.State == "degraded"
	})
	surfaces := map[string]string{"status": h.get("/api/status"), "health": h.get("/api/health"), "runs": h.get("/api/runs")}
	program := house.Program{}.Build(t)
	for _, words := range [][]string{{"status"}, {"config", "get", "database.url"}, {"config", "get", "database"}, {"config", "explain", "database.url"}} {
		cmd := exec.CommandContext(t.Context(), program, words...)
		cmd.Env = append(os.Environ(), "MERCURY_HOME="+h.files.Dir())
		out, _ := cmd.CombinedOutput() // a failure prints too
		surfaces[strings.Join(words, " ")] = string(out)
	}
	h.stop()
	surfaces["log"] = h.log.String()
	for name, text := range surfaces {
		if strings.Contains(text, password[4:]) {
			t.Errorf("%s shows the password: %s", name, around(text))
		}
	}
	if !strings.Contains(surfaces["log"], "the store cannot be used") {
		t.Errorf("the log says nothing of the database: %s", surfaces["log"])
	}
}

func TestASecretGoesToItsOwnHostAlone(t *testing.T) {
	// The bridge that the token is for is asked; a redirect elsewhere is not
	// followed with it.
	reached := make(chan string, 10)
	evil := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached <- r.Header.Get("Authorization") }))
	defer evil.Close()
	h := newHome(t, llmtest.Script{}, "ask", `channels: { relay: { RELAY, token: "tok-canary-74c3f6a5e4d9" } }`+"\n")
	asked := make(chan struct{}, 100)
	h.door.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		http.Redirect(w, r, evil.URL, http.StatusTemporaryRedirect)
	})
	h.start()
	<-asked
	h.until("a log of the failure", func() bool { return strings.Contains(h.log.String(), "relay") })
	h.stop()
	close(reached)
	for header := range reached {
		if strings.Contains(header, "canary") {
			t.Errorf("another host saw %q", header)
		}
	}
}

func TestTheEnvironmentOfACommandHoldsNoSecret(t *testing.T) {
	t.Setenv("CANARY_API_KEY", canaries["environment"])
	t.Setenv("CANARY_PLAIN", "pla-canary-b8e7d6c5a4f3")
	h := newHome(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "^tell", Tools: []llmtest.Call{call("run_command", args{"command": "env > env.txt; tr '\\0' '\\n' < /proc/self/environ >> env.txt"})}},
	}}, "ask", "")
	h.write(h.files.Env(), "UNUSED="+canaries[".env"]+"\n")
	h.start()
	h.say("local/env", "tell", "once")
	b, err := os.ReadFile(filepath.Join(h.workspace, "env.txt"))
	must(t, err)
	if text := string(b); strings.Contains(text, "canary") || strings.Contains(text, "CANARY") || !strings.Contains(text, "PATH=") {
		t.Errorf("the environment of a command: %s", text)
	}
}

func TestAKeyInANoteIsMaskedAndItsOwnerWarnedOnce(t *testing.T) {
	h := newHome(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "^read", Tools: []llmtest.Call{call("read_file", args{"path": "notes.md"})}},
		{After: ".", Reply: "Read."},
	}}, "ask", "").start()
	h.write(filepath.Join(h.workspace, "notes.md"), "github "+canaries["foreign shape"]+"\nand a recipe\n")
	for range 3 {
		h.say("local/notes", "read", "once")
	}
	for _, r := range h.model.Requests() {
		if strings.Contains(string(r.Body), "CANARY") {
			t.Errorf("request %d holds the key", r.N)
		}
	}
	if seen := h.seen("local/notes"); !strings.Contains(seen, "and a recipe") {
		t.Errorf("the rest of the note is gone: %s", seen)
	}
	if n := strings.Count(h.get("/api/deliveries"), "holds what looks like a key"); n != 1 {
		t.Errorf("warned %d times", n)
	}
}
