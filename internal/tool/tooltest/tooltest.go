// Package tooltest is what every tool is held to: a schema that providers
// take, accesses stated before anything happens and the same each time, no
// touch beyond them, prompt cancellation, bounded and printable results, and
// no panic over any arguments.
package tooltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/testenv"
	"github.com/mercury-agent/mercury/internal/tool"
)

// Secret stands in the files of a World that no call may show.
const Secret = "CANARY-7f3a91"

// A World is a small file system for one test. The workspace holds notes.txt
// (three lines), sub/deep.txt, a binary file blob.bin, a file of 5,000 lines
// long.txt, and links: out.txt to a file outside, outdir to a folder outside.
type World struct {
	Workspace string
	Outside   string // holds secret.txt
	Home      string // Mercury's own, inside the workspace; holds token
	Outputs   string
}

// NewWorld makes a World in a temporary folder.
func NewWorld(t testing.TB) World {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := World{
		Workspace: filepath.Join(top, "work"), Outside: filepath.Join(top, "outside"),
		Home: filepath.Join(top, "work", "home"), Outputs: filepath.Join(top, "outputs"),
	}
	for path, text := range map[string]string{
		filepath.Join(w.Workspace, "notes.txt"):       "alpha\nbeta\ngamma\n",
		filepath.Join(w.Workspace, "sub", "deep.txt"): "deep alpha\n",
		filepath.Join(w.Workspace, "blob.bin"):        "\x00\xff\x1b[2J",
		filepath.Join(w.Workspace, "long.txt"):        strings.Repeat("a line that is here many times\n", 5000),
		filepath.Join(w.Outside, "secret.txt"):        Secret + "\n",
		filepath.Join(w.Home, "token"):                Secret + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"out.txt": filepath.Join(w.Outside, "secret.txt"), "outdir": w.Outside} {
		if err := os.Symlink(target, filepath.Join(w.Workspace, name)); err != nil {
			testenv.Missing(t, "symbolic links", "on Windows, turn on the developer mode")
		}
	}
	return w
}

// Call is a call with args in w: the owner's, in a workspace that may be read
// and written.
func (w World) Call(name, args string) tool.Call {
	return tool.Call{
		ID: "call_1", RunID: "run_1", ConversationID: "local/test", Name: name, Args: json.RawMessage(args),
		Outputs: w.Outputs,
		Mandate: mercury.Mandate{
			Actor: mercury.Actor{Role: mercury.Owner}, Mode: "ask", Interactive: true, Workspace: w.Workspace,
			Scopes: []mercury.Scope{{Path: w.Workspace, Read: true, Write: true}},
		},
	}
}

// Gate is a gate that gives one verdict for everything, and remembers what it
// was asked.
type Gate struct {
	Verdict mercury.Verdict
	Why     string
	Asked   []tool.Request
}

// Judge implements tool.Gate.
func (g *Gate) Judge(_ context.Context, r tool.Request) mercury.Judgement {
	g.Asked = append(g.Asked, r)
	return mercury.Judgement{Verdict: g.Verdict, Rule: "test", Why: g.Why}
}

// A Fixture is a tool under test, with arguments that are valid in a World.
type Fixture struct {
	Tool  func(w World) tool.Tool
	Calls []string
}

// Run holds the tool to the contract.
func Run(t *testing.T, f Fixture) {
	t.Run("its specification is what every provider takes", f.spec)
	t.Run("it states its accesses first, the same each time, and changes nothing by it", f.accesses)
	t.Run("a run changes nothing beyond what was granted", f.confined)
	t.Run("a run without a grant changes nothing", f.ungranted)
	t.Run("a cancelled call ends at once", f.cancelled)
	t.Run("results are bounded and printable", f.bounded)
	t.Run("strange arguments are an answer, not a panic", f.strange)
}

func (f Fixture) spec(t *testing.T) {
	w := NewWorld(t)
	s := f.Tool(w).Spec()
	if again := f.Tool(w).Spec(); string(again.Schema) != string(s.Schema) || again.Description != s.Description {
		t.Error("the bytes of the specification change")
	}
	if n := len(s.Description); n == 0 || n > 400 {
		t.Errorf("the description has %d bytes, want 1 to 400", n)
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(s.Schema, &schema); err != nil {
		t.Fatalf("the schema is not one: %v", err)
	}
	if _, err := schema.Resolve(nil); err != nil {
		t.Errorf("the schema does not resolve: %v", err)
	}
	if schema.Type != "object" || schema.AdditionalProperties == nil {
		t.Error("the schema is not that of a closed object")
	}
	for name, p := range schema.Properties {
		if p.Type == "" {
			t.Errorf("the type of %q is not one plain word", name)
		}
	}
}

func (f Fixture) accesses(t *testing.T) {
	w := NewWorld(t)
	for _, args := range f.Calls {
		tl := f.Tool(w)
		c := w.Call(tl.Spec().Name, args)
		before := w.snapshot(t)
		first, err := tl.Accesses(t.Context(), c)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		second, _ := tl.Accesses(t.Context(), c)
		if len(first) == 0 {
			t.Errorf("%s: no access is stated", args)
		}
		if tool.Hash(first) != tool.Hash(second) {
			t.Errorf("%s: two statements differ: %v, %v", args, first, second)
		}
		if changed := differences(before, w.snapshot(t)); len(changed) > 0 {
			t.Errorf("%s: stating accesses changed %v", args, changed)
		}
	}
}

func (f Fixture) confined(t *testing.T) {
	for _, args := range f.Calls {
		w := NewWorld(t)
		tl := f.Tool(w)
		c := w.Call(tl.Spec().Name, args)
		granted, err := tl.Accesses(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		c.Granted = granted
		before := w.snapshot(t)
		out, err := tl.Run(t.Context(), c)
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if strings.Contains(out.Text+out.Diff, Secret) {
			t.Errorf("%s: shows what is outside", args)
		}
		for _, path := range differences(before, w.snapshot(t)) {
			if !strings.HasPrefix(path, w.Outputs) && !covered(path, granted) { // large outputs are the Set's
				t.Errorf("%s: changed %s, which no access names", args, path)
			}
		}
	}
}

func (f Fixture) ungranted(t *testing.T) {
	for _, args := range f.Calls {
		w := NewWorld(t)
		tl := f.Tool(w)
		c := w.Call(tl.Spec().Name, args)
		c.Granted = []mercury.Access{}
		before := w.snapshot(t)
		_, _ = tl.Run(t.Context(), c) // an error and an answer are both fine
		if changed := differences(before, w.snapshot(t)); len(changed) > 0 {
			t.Errorf("%s: changed %v", args, changed)
		}
	}
}

// promptly is how soon a cancelled call must have ended.
const promptly = 2 * time.Second

func (f Fixture) cancelled(t *testing.T) {
	for _, args := range f.Calls {
		w := NewWorld(t)
		tl := f.Tool(w)
		c := w.Call(tl.Spec().Name, args)
		c.Granted, _ = tl.Accesses(t.Context(), c)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		_, _ = tl.Run(ctx, c) // it may have been done already
		if took := time.Since(began); took > promptly {
			t.Errorf("%s: took %v", args, took)
		}
	}
}

func (f Fixture) bounded(t *testing.T) {
	for _, args := range f.Calls {
		w := NewWorld(t)
		tl := f.Tool(w)
		set := tool.NewSet(&Gate{Verdict: mercury.Allow}, tl)
		p := set.Prepare(t.Context(), w.Call(tl.Spec().Name, args))
		if p.Run == nil {
			t.Fatalf("%s: is not run: %+v", args, p.Output)
		}
		out, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		Bounded(t, out)
	}
}

// Bounded checks that an output is within the limits and harmless.
func Bounded(t testing.TB, out tool.Output) {
	t.Helper()
	if n := len(out.Text); n > tool.MaxBytes {
		t.Errorf("the text has %d bytes", n)
	}
	if n := strings.Count(out.Text, "\n"); n > tool.MaxLines {
		t.Errorf("the text has %d lines", n)
	}
	if !utf8.ValidString(out.Text) || strings.ContainsAny(out.Text, "\x00\x1b\x07") {
		t.Error("the text is not harmless")
	}
}

// Strange are arguments that models and attackers send.
var Strange = []string{
	``, `null`, `[]`, `"x"`, `1`, `{`, `{}`, `{"`, `{}{}`, "\x00", `{"path":null}`, `{"path":1}`, `{"path":{}}`,
	`{"path":""}`, `{"path":"\u0000"}`, `{"path":"a\nb"}`, `{"path":"../../../../etc/passwd"}`, `{"path":"~"}`,
	`{"path":"/dev/zero"}`, `{"path":"/proc/self/environ"}`, `{"Path":"notes.txt"}`, `{"path":"notes.txt","path":"x"}`,
	`{"path":"notes.txt","offset":-9223372036854775808}`, `{"path":"notes.txt","offset":1e300,"limit":1e18}`,
	`{"path":"notes.txt","offset":9223372036854775807,"limit":9223372036854775807}`,
	`{"path":"notes.txt","offset":"2","limit":null}`, `{"pattern":"(","path":"."}`, `{"pattern":"[","path":"."}`,
	`{"pattern":"**/{a,b","path":"."}`, `{"pattern":"(a*)*b"}`, `{"command":"\u0000"}`, `{"command":""}`,
	`{"command":"true","timeout_seconds":-1}`, `{"question":""}`, `{"question":"q","choices":[""]}`,
	`{"question":"q","choices":"a"}`, `{"path":"` + strings.Repeat("a/", 3000) + `"}`, `{"path":"` + strings.Repeat("a", 300) + `"}`,
	strings.Repeat(`{"a":`, 2000), strings.Repeat("[", 20000), `{"path":"\ud800"}`, "{\"path\":\"\xff\xfe\"}",
}

func (f Fixture) strange(t *testing.T) {
	w := NewWorld(t)
	for _, args := range Strange {
		f.try(t, w, args)
	}
}

func (f Fixture) try(t testing.TB, w World, args string) {
	tl := f.Tool(w)
	set := tool.NewSet(&Gate{Verdict: mercury.Ask}, tl)
	p := set.Prepare(t.Context(), w.Call(tl.Spec().Name, args))
	if (p.Output == nil) == (p.Question == nil) || p.Run != nil {
		t.Fatalf("%.200q: neither an answer nor a question: %+v", args, p)
	}
	if p.Output != nil {
		if strings.Contains(p.Output.Text, "internal error") {
			t.Errorf("%.200q: %s", args, p.Output.Text)
		}
		if !p.Output.IsError || p.Output.Text == "" || len(p.Output.Text) > 6000 {
			t.Errorf("%.200q: not a readable error: %.300q", args, p.Output.Text)
		}
		return
	}
	if !utf8.ValidString(p.Question.Title + p.Question.Body) {
		t.Errorf("%.200q: the question is not printable", args)
	}
}

// Fuzz prepares calls with any arguments, which must never panic.
func Fuzz(f *testing.F, x Fixture) {
	for _, args := range append(slices.Clone(Strange), x.Calls...) {
		f.Add(args)
	}
	w := NewWorld(f)
	f.Fuzz(func(t *testing.T, args string) { x.try(t, w, args) })
}

// snapshot maps each path of the world to what is there.
func (w World) snapshot(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	top := filepath.Dir(w.Workspace)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(b)
			what += hex.EncodeToString(sum[:])
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what += target
		}
		out[path] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func differences(a, b map[string]string) []string {
	var out []string
	for path := range a {
		if a[path] != b[path] {
			out = append(out, path)
		}
	}
	for path := range b {
		if _, ok := a[path]; !ok {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

// covered reports whether an access allows path to change. A file that is
// written may bring the folders above it, and a folder goes with what is in it.
func covered(path string, granted []mercury.Access) bool {
	return slices.ContainsFunc(granted, func(a mercury.Access) bool {
		switch a.Kind {
		case mercury.WritePath, mercury.DeletePath:
			sep := string(filepath.Separator)
			return path == a.Target || strings.HasPrefix(a.Target, path+sep) || strings.HasPrefix(path, a.Target+sep)
		case mercury.RunCommand:
			return a.Dir != "" && strings.HasPrefix(path, a.Dir)
		}
		return false
	})
}
