package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"mercury": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
			stop()
			os.Exit(code)
		},
	})
}

// ready waits until the runtime of the script's home answers.
func ready(ts *testscript.TestScript, _ bool, _ []string) {
	home, err := config.HomeAt(ts.Getenv("MERCURY_HOME"))
	ts.Check(err)
	for deadline := time.Now().Add(20 * time.Second); ; {
		if _, err = attach(context.Background(), home); err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("no runtime answers: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// jobID sets JOB to the first job that the last command named, and waits until
// it has printed something.
func jobID(ts *testscript.TestScript, _ bool, _ []string) {
	id := regexp.MustCompile(`job_[0-9a-f]+`).FindString(ts.ReadFile("stdout"))
	ts.Setenv("JOB", id)
	home, err := config.HomeAt(ts.Getenv("MERCURY_HOME"))
	ts.Check(err)
	for deadline := time.Now().Add(20 * time.Second); ; {
		c, err := attach(context.Background(), home)
		ts.Check(err)
		j, err := c.Job(context.Background(), id)
		ts.Check(err)
		if j.Output == "up" {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("it printed %q", j.Output)
		}
	}
}

// until waits for a line of `mercury status`.
func until(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[0])
	for deadline := time.Now().Add(20 * time.Second); ; {
		err := ts.Exec("mercury", "status")
		if out := ts.ReadFile("stdout"); err == nil && want.MatchString(out) {
			return
		} else if time.Now().After(deadline) {
			ts.Fatalf("the status never said %q: %v\n%s", args[0], err, out)
		}
	}
}

// foreign writes the fixture of another agent's home: foreign NAME FOLDER.
func foreign(ts *testscript.TestScript, _ bool, args []string) {
	a, err := txtar.ParseFile(filepath.Join(fixtures, args[0]+".txtar"))
	ts.Check(err)
	for _, f := range a.Files {
		at := filepath.Join(ts.MkAbs(args[1]), filepath.FromSlash(f.Name))
		ts.Check(os.MkdirAll(filepath.Dir(at), 0o700))
		ts.Check(os.WriteFile(at, f.Data, 0o600))
	}
}

// fixtures is where the homes of other agents lie; scripts run elsewhere.
var fixtures, _ = filepath.Abs("../../internal/move/testdata")

// script is what the model of every script says.
var script = llmtest.Script{Default: "Noted.", Rules: []llmtest.Rule{
	{Match: `work/apple\.txt`, Reply: "It came along."},
	{Match: "hello", Reply: "Hello there."},
	{Match: "look", Tools: []llmtest.Call{{Name: "list_dir", Args: []byte(`{"path":"."}`)}}},
	{Match: "look", After: "apple", Reply: "I see an apple."},
	{Match: "touch", Tools: []llmtest.Call{{Name: "run_command", Args: []byte(`{"command":"touch x.txt; echo touched"}`)}}},
	{Match: "touch", After: "touched", Reply: "It is there."},
	{Match: "touch", After: ".*", Reply: "I left it."},
	{Match: "write it", Tools: []llmtest.Call{{Name: "write_file", Args: []byte(`{"path":"note.txt","content":"noted\n"}`)}}, Times: 1},
	{Match: "launch it again", Tools: []llmtest.Call{{Name: "run_command", Args: []byte(`{"command":"sleep 61","background":true}`)}}, Times: 1},
	{Match: "launch it", Tools: []llmtest.Call{{Name: "run_command", Args: []byte(`{"command":"echo up; sleep 60","background":true}`)}}, Times: 1},
	{Match: "launch it", After: "background", Reply: "It runs."},
	{Match: "forever", Fault: llmtest.Hang},
	{Match: "refuse the key", Fault: "401", Message: "Incorrect API key provided."},
	{Match: "<data>", Reply: "I read it."},
}}

// Each script has a home with a configured model, a workspace to stand in,
// and an address of its own to serve on.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata", UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"ready": ready, "jobid": jobID, "foreign": foreign, "until": until}, Deadline: time.Now().Add(5 * time.Minute),
		Setup: func(env *testscript.Env) error {
			model := llmtest.Start(t, script)
			home, work := filepath.Join(env.WorkDir, "home"), filepath.Join(env.WorkDir, "work")
			for _, dir := range []string{home, work} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					return err
				}
			}
			free, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			listen := free.Addr().String()
			free.Close()
			config := fmt.Sprintf("model: local/scripted\nproviders:\n  local: { api: openai, base_url: %q }\nweb: { listen: %q }\nworkspace: %q\npermissions: { mode: ask }\n",
				model.URL+"/v1", listen, work)
			if err := os.WriteFile(filepath.Join(home, "mercury.yaml"), []byte(config), 0o600); err != nil {
				return err
			}
			env.Setenv("MERCURY_HOME", home)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("NO_COLOR", "1")
			env.Setenv("MERCURY_DISCOVER", "off")
			env.Cd = work
			return nil
		},
	})
}
