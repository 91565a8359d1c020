//go:build !android

package daemon

import (
	"encoding/json"
	"github.com/mercury-agent/mercury/internal/testenv"
	"os"
	"strconv"
	"strings"
	"testing"
)

// mapped is the part of this process's memory that is files, in KB.
func mapped(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "RssFile:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		testenv.Missing(t, "the size of mapped files", "run on a Linux that tells it in /proc")
	}
	return n
}

func TestForgottenCodeLeavesMemoryAndRunsAgain(t *testing.T) {
	before := mapped(t)
	forgetCode()
	if after := mapped(t); after >= before {
		t.Errorf("%d KB of files before, %d KB after", before, after)
	}
	var got map[string]int
	if err := json.Unmarshal([]byte(`{"seven":7}`), &got); err != nil || got["seven"] != 7 {
		t.Errorf("got %v, %v", got, err)
	}
}
