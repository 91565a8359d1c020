package tool_test

import (
	"encoding/json"
	"testing"

	"github.com/mercury-agent/mercury/internal/tool"
	"github.com/mercury-agent/mercury/internal/tool/ask"
	"github.com/mercury-agent/mercury/internal/tool/file"
	"github.com/mercury-agent/mercury/internal/tool/shell"
)

// coreMax is what the core tools may weigh in every request, in bytes.
const coreMax = 4500

func TestTheCoreToolsAreLight(t *testing.T) {
	tools := append(file.Tools(file.Options{}), shell.Run(shell.Options{}), ask.User())
	specs := tool.NewSet(nil, tools...).Specs(nil)
	if len(specs) != 8 {
		t.Errorf("there are %d core tools", len(specs))
	}
	b, err := json.Marshal(specs)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(b))
	if len(b) > coreMax {
		t.Errorf("they weigh %d bytes, at most %d are allowed", len(b), coreMax)
	}
}
