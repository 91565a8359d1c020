package permission

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// corpusCase is one line of a corpus; each corpus uses some of the fields.
type corpusCase struct {
	ID      string   `json:"id"`
	Want    string   `json:"want"`
	Also    []string `json:"also"`
	Why     string   `json:"why"`
	Cmd     string   `json:"cmd"`
	Fixture string   `json:"fixture"`
	Op      string   `json:"op"`
	Path    string   `json:"path"`
	Setup   []string `json:"setup"`
	Scopes  []mercury.Scope
	URL     string `json:"url"`
	Text    string `json:"text"`
	line    []byte
}

func corpus(t testing.TB, name string) []corpusCase {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var cases []corpusCase
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		c := corpusCase{line: slices.Clone(lines.Bytes())}
		if err := json.Unmarshal(c.line, &c); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return cases
}
