package agent

import (
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
	"github.com/mercury-agent/mercury/internal/llm/llmtest"
	"github.com/mercury-agent/mercury/internal/tool/ask"
	"github.com/mercury-agent/mercury/internal/tool/file"
	"github.com/mercury-agent/mercury/internal/tool/shell"
)

// helloMax is what a first "hello" may weigh on the wire with the core tools,
// in bytes.
const helloMax = 8 << 10

func TestHelloIsSmall(t *testing.T) {
	for _, wire := range []llm.Wire{llm.OpenAIWire, llm.AnthropicWire} {
		t.Run(string(wire), func(t *testing.T) {
			h := newHouse(t, llmtest.Script{})
			h.wire = wire
			h.tools = append(file.Tools(file.Options{}), shell.Run(shell.Options{}), ask.User())
			h.start()
			h.ends(h.say("hello").RunID)
			first := h.server.Requests()[0]
			t.Logf("%d bytes with %d tools", first.Bytes, len(first.Request.Tools))
			if first.Bytes > helloMax || len(first.Request.Tools) != 8 {
				t.Errorf("%d bytes with %d tools, at most %d are allowed", first.Bytes, len(first.Request.Tools), helloMax)
			}
			h.sound()
		})
	}
}

func TestTheDefaultPromptIsShortAndNamesWhoItIs(t *testing.T) {
	got := System("Iris", "Kim")
	if len(got) > 1200 || !strings.Contains(got, "Iris") || !strings.Contains(got, "Kim") || strings.Contains(got, "{") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if System("", "") != System("Mercury", "your owner") {
		t.Error("the defaults are others")
	}
}
