package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Definition describes a tool whose arguments are an In: a struct with json
// tags, optional fields marked omitempty, and descriptions for the model in
// jsonschema tags.
type Definition[In any] struct {
	Name   string
	Usage  string // one to three sentences for the model
	Effect mercury.Effect

	// Access states what a call would touch; see Tool.
	Access func(ctx context.Context, c Call, in In) ([]mercury.Access, error)
	Run    func(ctx context.Context, c Call, in In) (Output, error)

	// Show and Probe may be nil; see Shower and Prober.
	Show  func(ctx context.Context, c Call, in In) string
	Probe func(ctx context.Context, c Call, in In) (done *Output, notDone bool, err error)
}

// New returns a tool whose accesses follow from its arguments alone.
func New[In any](name, usage string, effect mercury.Effect, access func(In) []mercury.Access, run func(context.Context, Call, In) (Output, error)) Tool {
	return Define(Definition[In]{
		Name: name, Usage: usage, Effect: effect, Run: run,
		Access: func(_ context.Context, _ Call, in In) ([]mercury.Access, error) { return access(in), nil },
	})
}

// Define returns the tool that d describes. The schema comes from In; an In
// that has none is a mistake of ours and panics.
func Define[In any](d Definition[In]) Tool {
	schema, err := jsonschema.For[In](nil)
	if err != nil {
		panic("tool: " + d.Name + ": " + err.Error())
	}
	plainTypes(schema)
	raw, err := json.Marshal(schema)
	if err != nil {
		panic("tool: " + d.Name + ": " + err.Error())
	}
	t := defined[In]{
		def:  d,
		spec: Spec{Name: d.Name, Description: strings.TrimSpace(d.Usage), Schema: raw},
		args: newArgs(schema),
	}
	if d.Probe == nil {
		return t
	}
	return probing[In]{t}
}

// plainTypes takes back the null that the schema allows for slices, maps and
// pointers: a model that leaves a field out need not be told it may be null.
func plainTypes(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	for _, p := range s.Properties {
		plainTypes(p)
	}
	plainTypes(s.Items)
}

type defined[In any] struct {
	def  Definition[In]
	spec Spec
	args args
}

func (t defined[In]) Spec() Spec             { return t.spec }
func (t defined[In]) Effect() mercury.Effect { return t.def.Effect }

func (t defined[In]) Accesses(ctx context.Context, c Call) ([]mercury.Access, error) {
	in, err := t.in(c)
	if err != nil {
		return nil, err
	}
	return t.def.Access(ctx, c, in)
}

func (t defined[In]) Run(ctx context.Context, c Call) (Output, error) {
	in, err := t.in(c)
	if err != nil {
		return Output{}, err
	}
	return t.def.Run(ctx, c, in)
}

func (t defined[In]) Show(ctx context.Context, c Call) string {
	in, err := t.in(c)
	if err != nil || t.def.Show == nil {
		return ""
	}
	return t.def.Show(ctx, c, in)
}

func (t defined[In]) in(c Call) (In, error) {
	var in In
	raw, err := t.args.check(c.Args)
	if err != nil {
		return in, err
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return in, fmt.Errorf("arguments do not fit: %w", err)
	}
	return in, nil
}

type probing[In any] struct{ defined[In] }

func (t probing[In]) Probe(ctx context.Context, c Call) (*Output, bool, error) {
	in, err := t.in(c)
	if err != nil {
		return nil, false, err
	}
	return t.def.Probe(ctx, c, in)
}
