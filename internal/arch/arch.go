// Package arch knows the rooms of Mercury and which may import which. Its test
// fails when an import runs up and prints the import; docs/architecture.md is
// drawn from the same table.
//
// It reads the source files themselves, whatever system they are built for, so
// a driver for Windows is judged on Linux too.
package arch

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the path of Mercury's module.
const Module = "github.com/mercury-agent/mercury"

// A Room is a folder below internal, with the folders in it, or one of the
// folders outside: cmd, bench, test.
type Room struct {
	Name    string
	Purpose string
}

// Layers are the rooms from the ground up. A package imports packages of lower
// layers, and of its own room; rooms that share a layer do not know each other.
// A new room needs a line here.
var Layers = [][]Room{
	{{"mercury", "the words of the house, as values"}},
	{
		{"words", "text of any script cut into what it can be found by"},
		{"argv", "one command line, parsed and refused when in doubt"},
		{"picture", "pictures made fit for a model"},
		{"atomicfile", "files replaced whole or not at all"},
		{"sandbox", "the fence a command runs inside"},
		{"crash", "points between which a kill must lose nothing; empty in ordinary builds"},
	},
	{{"store", "what is kept: contract, SQLite, PostgreSQL"}},
	{
		{"llm", "models: requests, streams, chain of fallbacks"},
		{"tool", "what a model may do"},
		{"channel", "where people talk"},
		{"permission", "may this actor do that"},
	},
	{
		{"soul", "who we are"},
		{"skill", "what we can learn to do"},
		{"memory", "what we know"},
		{"budget", "what a day and a month may cost"},
	},
	{{"engine", "queue, journal, outbox: nothing accepted is lost"}},
	{{"agent", "one turn: ask the model, run its tools, until it answers"}},
	{
		{"schedule", "work that starts itself"},
		{"longrun", "work that goes on for a given time"},
	},
	{{"fleet", "bots, mail, assignments, helpers"}},
	{{"intake", "what becomes of an arriving message; commands"}},
	{{"api", "HTTP, events, cockpit, client"}},
	{{"tui", "the terminal, a client of api"}},
	{{"tour", "the demonstration: a private house with a stand-in for a model"}},
	{
		{"config", "mercury.yaml: read, checked, explained"},
		{"move", "in from another agent's home, and out of ours"},
	},
	{{"backup", "copies of a home, and the way back"}},
	{{"doctor", "what is wrong with a home, and the cure"}},
	{{"daemon", "builds the house, runs it, stops it"}},
	{
		{"cmd", "commands: parse flags, call one function, print"},
		{"bench", "measurements, side by side with others"},
		{"test", "the whole program, as a process, under faults"},
	},
}

// Rules narrow what the layers allow.
var Rules = []Rule{
	{From: "engine", Never: "llm", Why: "the engine runs handlers by kind and knows no model"},
	{From: "engine", Never: "agent", Why: "the engine runs handlers by kind and knows no model"},
	{From: "engine", Never: "channel", Why: "the engine hands deliveries to a Sender that it declares"},
	{From: "agent", Never: "channel", Why: "a turn does not know where people talk"},
	{From: "agent", Never: "memory", Why: "memory reaches a turn as a section of its profile"},
	{From: "agent", Never: "fleet", Why: "the agent asks for the profile of a run and knows no bot"},
	{From: "tool", Never: "permission", Why: "a tool states its accesses; the set of tools asks the gate"},
	{From: "permission", Never: "tool", Why: "the gate judges accesses, not tools"},
	{From: "tui", Never: "store", Why: "the terminal is a client of the API"},
	{From: "tui", Never: "engine", Why: "the terminal is a client of the API"},
	{From: "tui", Never: "agent", Why: "the terminal is a client of the API"},
	{Never: "config", But: []string{"daemon", "doctor", "cmd"}, Why: "the daemon turns the configuration into each room's options"},
}

// A Rule forbids the room From, or every room when it is empty, to import the
// room Never; the rooms in But may.
type Rule struct {
	From, Never string
	But         []string
	Why         string
}

// A Package is one folder of Go files with the imports from this module.
type Package struct {
	Path    string              // below the module, such as "internal/store/sqlite"
	Imports map[string][]string // imported path below the module → the files that do
	Program bool                // package main
}

// Room is the name of the room that holds the package.
func (p Package) Room() string { return room(p.Path) }

func room(path string) string {
	name := strings.TrimPrefix(path, "internal/")
	name, _, _ = strings.Cut(name, "/")
	return name
}

// ForTests reports whether a package exists for tests alone: it lies in a folder
// whose name ends in "test", such as storetest, or it is one of the two that
// guard the tree.
func ForTests(path string) bool {
	for _, folder := range strings.Split(path, "/") {
		if strings.HasSuffix(folder, "test") {
			return true
		}
	}
	return room(path) == "testenv" || room(path) == "arch"
}

// Read finds the packages of the module in tree and what their files other than
// tests import from it. It leaves out testdata, hidden folders and other modules.
func Read(tree fs.FS) ([]Package, error) {
	found := map[string]*Package{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(tree, name)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		p := found[dir]
		if p == nil {
			p = &Package{Path: dir, Imports: map[string][]string{}}
			found[dir] = p
		}
		p.Program = p.Program || file.Name.Name == "main"
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
			}
			if below, ok := strings.CutPrefix(imported, Module+"/"); ok {
				p.Imports[below] = append(p.Imports[below], name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read packages: %w", err)
	}
	var packages []Package
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		packages = append(packages, *found[dir])
	}
	return packages, nil
}

// enter decides whether Read looks into a folder.
func enter(tree fs.FS, name string) error {
	base := path.Base(name)
	if name == "." {
		return nil
	}
	if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := fs.Stat(tree, path.Join(name, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

// Check returns one sentence for each import that breaks the layers or a rule,
// and for each room that has no line in the table.
func Check(packages []Package) []string {
	height := heights()
	var faults []string
	for _, p := range packages {
		if p.Path == "." || room(p.Path) == "testenv" || room(p.Path) == "arch" {
			continue
		}
		if _, known := height[p.Room()]; !known {
			faults = append(faults, fmt.Sprintf("%s: room %q has no line in internal/arch/arch.go; decide on which layer it stands", p.Path, p.Room()))
			continue
		}
		for _, imported := range slices.Sorted(maps.Keys(p.Imports)) {
			if fault := judge(height, p, imported); fault != "" {
				faults = append(faults, fmt.Sprintf("%s imports %s (%s): %s", p.Path, imported, strings.Join(p.Imports[imported], ", "), fault))
			}
		}
	}
	return faults
}

// judge says what is wrong with an import, or nothing.
func judge(height map[string]int, p Package, imported string) string {
	from, to := p.Room(), room(imported)
	if ForTests(imported) {
		if ForTests(p.Path) || from == "bench" {
			return ""
		}
		return "a package for tests must not be part of the program"
	}
	for _, r := range Rules {
		if to == r.Never && from != to && (r.From == "" || r.From == from) && !slices.Contains(r.But, from) {
			return r.Why
		}
	}
	if from == to {
		if roomHasDrivers[from] && p.Path == "internal/"+from {
			return "a contract does not know its drivers"
		}
		return ""
	}
	above, known := height[to]
	if !known {
		return "" // the imported package is reported itself
	}
	switch below := height[from]; {
	case above > below:
		return fmt.Sprintf("the import runs up, from layer %d to layer %d", below, above)
	case above == below:
		return fmt.Sprintf("%s and %s share a layer and do not know each other", from, to)
	}
	return ""
}

// roomHasDrivers names the rooms of one shape: a contract, a suite, and a folder
// a driver.
var roomHasDrivers = map[string]bool{"store": true, "llm": true, "channel": true, "tool": true}

// heights gives each room its layer, counted from 1.
func heights() map[string]int {
	height := map[string]int{}
	for i, layer := range Layers {
		for _, r := range layer {
			height[r.Name] = i + 1
		}
	}
	return height
}
