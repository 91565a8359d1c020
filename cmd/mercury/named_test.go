package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Advice that names a command which is not there is worse than none: people
// try it at the worst moment.
func TestEveryCommandThatATextNamesExists(t *testing.T) {
	slashes := map[string]bool{"quit": true, "exit": true, "tmp": true} // the terminal's own; and a folder
	for _, c := range intake.New(nil, intake.Options{}).Commands(mercury.Actor{Role: mercury.Owner}) {
		for _, name := range append(c.Aliases, c.Name) {
			slashes[name] = true
		}
	}
	commands := regexp.MustCompile("`mercury ([a-z]+(?: [a-z]+)*)")
	words := regexp.MustCompile("`/([a-z]+)`")
	found := 0
	for path, text := range texts(t) {
		for _, m := range commands.FindAllStringSubmatch(text, -1) {
			found++
			if c, rest, err := newRoot().Find(strings.Fields(m[1])); err != nil || !c.HasParent() || c.HasSubCommands() && len(rest) > 0 {
				t.Errorf("%s: there is no command `mercury %s`", path, m[1])
			}
		}
		for _, m := range words.FindAllStringSubmatch(text, -1) {
			found++
			if !slashes[m[1]] {
				t.Errorf("%s: there is no command /%s", path, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d commands are named in all texts; the patterns are wrong", found)
	}
}

// texts are the sources and documents whose words a person may read.
func texts(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, root := range []string{"../../internal", "../../cmd", "../../docs", "../../README.md"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "decisions" || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			if d.Name() == "guarantees.md" {
				return nil // it names what is not there yet, and says so
			}
			ext := filepath.Ext(path)
			if d.IsDir() || ext != ".go" && ext != ".md" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			b, err := os.ReadFile(path)
			found[path] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
