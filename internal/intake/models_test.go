package intake

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// desk is a house with two models, which remembers what it was asked.
type desk struct {
	model string
	asked []string
}

func (d *desk) Answering() []string { return []string{d.model, "b/spare"} }
func (d *desk) Known() []string     { return []string{"a/one", "a/two"} }

func (d *desk) List(_ context.Context, provider string) (string, error) {
	d.asked = append(d.asked, "list "+provider)
	return "a, 2 models", nil
}

func (d *desk) Use(_ context.Context, name string) (string, error) {
	d.asked = append(d.asked, "use "+name)
	if name == "nobody" {
		return "", &mercury.Error{Kind: mercury.NotFound, Err: errors.New("no provider has it"), Help: "Look."}
	}
	if name == "lost" {
		return "", errors.New("the disk is on fire")
	}
	d.model = "a/" + name
	return d.model, nil
}

func TestTheOwnerSeesAndChangesTheModelInATalk(t *testing.T) {
	d := &desk{model: "a/one"}
	h := newHouse(t, Options{Models: d})
	for _, tt := range []struct{ say, want string }{
		{"/model", "a/one answers. If it cannot: b/spare."},
		{"/model two", "a/two answers from the next turn on."},
		{"/models", "a, 2 models"},
		{"/model nobody", "No provider has it. Look."},
		{"/model lost", "The disk is on fire."},
	} {
		if r := h.say(tt.say); r.Outcome != Commanded || !strings.HasPrefix(r.Reply, tt.want) {
			t.Errorf("%s: %+v", tt.say, r)
		}
	}
	asked := len(d.asked)
	for _, text := range []string{"/model one", "/models"} {
		if r := h.accept(h.from("ben", text)); !strings.Contains(r.Reply, "no permission") {
			t.Errorf("a member's %s: %+v", text, r)
		}
	}
	if len(d.asked) != asked || d.model != "a/two" {
		t.Errorf("a member reached the models: %q", d.asked)
	}
	if !slices.Equal(d.asked, []string{"use two", "list ", "use nobody", "use lost"}) {
		t.Errorf("asked %q", d.asked)
	}
}
