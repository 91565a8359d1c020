package intake

import (
	"context"
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/engine"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Models knows which models there are and which of them answers.
type Models interface {
	// Answering is the model that answers and those tried after it, each
	// written provider/model.
	Answering() []string
	// Known are models that were listed before, without asking anybody.
	Known() []string
	// List asks the providers, or one of them, what they have and writes it
	// for a person. It may take seconds.
	List(ctx context.Context, provider string) (string, error)
	// Use makes a model the one that answers, from the next turn on, and
	// returns its whole name. It is safe to repeat.
	Use(ctx context.Context, name string) (string, error)
}

var errNoModels = &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("models cannot be chosen here"), Help: "`mercury models list` shows them."}

// useModel changes the model before the reply is recorded: the configuration
// is a file, which no transaction can hold.
func (i *Intake) useModel(call Call) (any, error) {
	if i.opts.Models == nil {
		return nil, errNoModels
	}
	if call.Args == "" {
		return "", nil
	}
	return i.opts.Models.Use(call.Context, call.Args)
}

func (i *Intake) model(_ *engine.Tx, call Call) (Reply, error) {
	if name, _ := call.Found.(string); name != "" {
		return Reply{Text: name + " answers from the next turn on."}, nil
	}
	list := i.opts.Models.Answering()
	if len(list) == 0 || list[0] == "" {
		return Reply{Text: "No model is configured. /models lists what there is, /model NAME chooses one."}, nil
	}
	text := list[0] + " answers."
	if len(list) > 1 {
		text += " If it cannot: " + strings.Join(list[1:], ", ") + "."
	}
	return Reply{Text: text + " /models lists what there is, /model NAME changes it."}, nil
}

func (i *Intake) modelNames(*engine.Tx, Call) ([]string, error) {
	if i.opts.Models == nil {
		return nil, nil
	}
	return i.opts.Models.Known(), nil
}

func (i *Intake) listModels(call Call) (any, error) {
	if i.opts.Models == nil {
		return nil, errNoModels
	}
	return i.opts.Models.List(call.Context, call.Args)
}

func (i *Intake) models(_ *engine.Tx, call Call) (Reply, error) {
	text, _ := call.Found.(string)
	return Reply{Text: text}, nil
}
