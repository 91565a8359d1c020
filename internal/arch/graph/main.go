// Command graph prints a document with its section on imports drawn anew: the
// table of rooms and the diagram between the two marks. `make gen` runs it.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/arch"
)

// The marks between which the drawn section stands.
const (
	begin = "<!-- imports: begin, drawn by make gen -->\n"
	end   = "<!-- imports: end -->\n"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: graph DOCUMENT, from the top of the repository")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "graph:", err)
		os.Exit(1)
	}
}

func run(document string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	packages, err := arch.Read(os.DirFS("."))
	if err != nil {
		return err
	}
	drawn, err := replace(string(text), draw(imports(packages)))
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	fmt.Print(drawn)
	return nil
}

// replace puts section between the marks of text.
func replace(text, section string) (string, error) {
	head, rest, ok := strings.Cut(text, begin)
	if !ok {
		return "", fmt.Errorf("no line %q", strings.TrimSpace(begin))
	}
	_, tail, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("no line %q", strings.TrimSpace(end))
	}
	return head + begin + "\n" + section + "\n" + end + tail, nil
}

// imports says for each room that exists which other rooms it imports.
func imports(packages []arch.Package) map[string]map[string]bool {
	graph := map[string]map[string]bool{}
	for _, p := range packages {
		if arch.ForTests(p.Path) {
			continue
		}
		from := p.Room()
		if graph[from] == nil {
			graph[from] = map[string]bool{}
		}
		for imported := range p.Imports {
			if to := (arch.Package{Path: imported}).Room(); to != from && !arch.ForTests(imported) {
				graph[from][to] = true
			}
		}
	}
	return graph
}

// draw returns the table of rooms, the highest layer first, and the diagram.
func draw(graph map[string]map[string]bool) string {
	var b strings.Builder
	b.WriteString("| Layer | Room | What it is for | Imports |\n|---:|---|---|---|\n")
	for i := len(arch.Layers); i > 0; i-- {
		for _, r := range arch.Layers[i-1] {
			if graph[r.Name] == nil {
				continue
			}
			list := strings.Join(slices.Sorted(maps.Keys(graph[r.Name])), ", ")
			if list == "" {
				list = "–"
			}
			fmt.Fprintf(&b, "| %d | `%s` | %s | %s |\n", i, r.Name, r.Purpose, list)
		}
	}
	b.WriteString("\n```mermaid\nflowchart TD\n")
	for _, from := range slices.Sorted(maps.Keys(graph)) {
		for _, to := range slices.Sorted(maps.Keys(graph[from])) {
			if !roundabout(graph, from, to) {
				fmt.Fprintf(&b, "  %s --> %s\n", from, to)
			}
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// roundabout reports whether from reaches to through another room it imports.
// The diagram leaves such arrows out, as the longer way shows them.
func roundabout(graph map[string]map[string]bool, from, to string) bool {
	for via := range graph[from] {
		if via != to && reaches(graph, via, to) {
			return true
		}
	}
	return false
}

func reaches(graph map[string]map[string]bool, from, to string) bool {
	if graph[from][to] {
		return true
	}
	for via := range graph[from] {
		if reaches(graph, via, to) {
			return true
		}
	}
	return false
}
