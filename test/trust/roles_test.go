//go:build unix

package trust

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm/llmtest"
)

const rolesConfig = `roles:
  reader: { permissions: [prompt], tools: [read_file, list_dir], messages_per_minute: 3 }
  watcher: { permissions: ["tasks.*"] }
  thrifty: { permissions: [prompt], daily_tokens: 100 }
`

func TestEachRoleHasItsOwnRights(t *testing.T) {
	h := newHome(t, llmtest.Script{Rules: []llmtest.Rule{
		{Match: "write", Tools: []llmtest.Call{call("write_file", args{"path": "canary", "content": "x"})}},
		{After: ".", Reply: "It says {{tool}}"},
	}, Default: "Hello."}, "guided", rolesConfig+"channels: { relay: { RELAY, roles: { ada: admin, rex: reader, wes: watcher, tim: thrifty } } }\n").start()

	h.bridge.PushFrom("rex", "rex", "write something")
	h.told("rex", "There is no tool")
	if h.canary() {
		t.Error("a reader wrote a file")
	}
	for _, tool := range h.model.Requests()[0].Request.Tools {
		if tool.Name != "read_file" && tool.Name != "list_dir" {
			t.Errorf("a reader's model is offered %s", tool.Name)
		}
	}
	h.bridge.PushFrom("rex", "rex", "/stop")
	h.told("rex", "You have no permission to use 'stop'")
	for i := range 3 {
		h.bridge.PushFrom("rex", "rex", fmt.Sprintf("and again %d", i))
	}
	h.told("rex", "rate limit exceeded")

	h.bridge.PushFrom("wes", "wes", "hello")
	h.told("wes", "no permission to use the agent")
	h.bridge.PushFrom("wes", "wes", "/help")
	h.told("wes", "/status")
	if all := strings.Join(h.shown("wes"), "\n"); strings.Contains(all, "/yes") || strings.Contains(all, "/stop") {
		t.Errorf("a watcher is offered what is not theirs: %s", all)
	}

	h.bridge.PushFrom("tim", "tim", "hello")
	h.told("tim", "Hello.")
	h.bridge.PushFrom("tim", "tim", "hello again")
	h.told("tim", "today's 100 tokens are used up")
}

func TestAnAdminDecidesOnlyWhereTheOwnerSaysSo(t *testing.T) {
	for _, granted := range []bool{false, true} {
		t.Run(fmt.Sprint("granted: ", granted), func(t *testing.T) {
			more := "channels: { relay: { RELAY, roles: { ada: admin } } }\n"
			if granted {
				more += "roles: { admin: { permissions: [prompt, stop, questions.answer] } }\n"
			}
			h := newHome(t, llmtest.Script{}, "guided", more).start()
			q := h.parked("touch canary; true")
			h.bridge.PushFrom("ada", "room", "/yes once "+q.ID)
			if granted {
				h.told("room", "Allowed")
			} else {
				h.told("room", "no permission to use 'yes'")
				h.bridge.Push("room", "/no")
			}
			h.through("relay/room", 1, "no")
			if h.canary() != granted {
				t.Errorf("the command ran: %v", h.canary())
			}
		})
	}
}

func TestAMemberEndsOnlyTheirOwnWork(t *testing.T) {
	h := newRoom(t)
	q := h.parked("touch canary; true")
	for _, text := range []string{"/stop", "/new"} {
		h.bridge.PushFrom("ben", "room", text)
	}
	h.told("room", "another person's")
	if open := h.open(); len(open) != 1 || open[0].ID != q.ID {
		t.Errorf("the owner's question is gone: %v", open)
	}
	h.bridge.Push("room", "/stop")
	h.told("room", "Stopped.")
}
