package tool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// A Set is the tools of a profile behind one gate. It does not change after
// NewSet and may be used from several goroutines.
type Set struct {
	gate  Gate
	tools map[string]Tool
	specs []Spec // sent always, by name
	more  []Spec // sent once they were found, by name
}

// NewSet returns a set of the given tools. Two tools of one name, or a tool
// without a valid name, are a mistake of ours and panic.
func NewSet(g Gate, tools ...Tool) *Set { return NewTieredSet(g, tools, nil) }

// NewTieredSet returns a set whose core tools a model is told about always,
// and the others once it has looked for them: where there are others, the set
// has the tool find_tools as well. All of them stand behind the same gate.
func NewTieredSet(g Gate, core, more []Tool) *Set {
	s := &Set{gate: g, tools: make(map[string]Tool, len(core)+len(more)+1)}
	s.more = s.add(more)
	if len(more) > 0 {
		core = append(slices.Clone(core), finder(s.more))
	}
	s.specs = s.add(core)
	return s
}

// add takes tools in and returns what a model is told about them, by name.
func (s *Set) add(tools []Tool) []Spec {
	var specs []Spec
	for _, t := range tools {
		spec := t.Spec()
		if !validName(spec.Name) {
			panic("tool: name " + spec.Name + " is not valid")
		}
		if s.tools[spec.Name] != nil {
			panic("tool: two tools are called " + spec.Name)
		}
		s.tools[spec.Name] = t
		specs = append(specs, spec)
	}
	slices.SortFunc(specs, func(a, b Spec) int { return strings.Compare(a.Name, b.Name) })
	return specs
}

// validName accepts what every provider accepts as a function's name.
func validName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for _, r := range name {
		if !(r == '_' || r == '-' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') {
			return false
		}
	}
	return true
}

// Specs returns what a model is told about the allowed tools, always with the
// same bytes: the core by name, then what was loaded, in that order, so that
// loading one leaves everything before it as it was. Nil allows all; names of
// no tool are ignored. A list of allowed tools without find_tools needs no
// finding: everything on it is sent.
func (s *Set) Specs(allowed []string, loaded ...string) []Spec {
	may := func(name string) bool { return allowed == nil || slices.Contains(allowed, name) }
	specs := make([]Spec, 0, len(s.specs)+len(loaded))
	for _, spec := range s.specs {
		if may(spec.Name) {
			specs = append(specs, spec)
		}
	}
	if allowed != nil && !slices.Contains(allowed, FindTools) {
		for _, spec := range s.more {
			if may(spec.Name) {
				specs = append(specs, spec)
			}
		}
		return specs
	}
	var have []string
	for _, name := range loaded {
		i := slices.IndexFunc(s.more, func(spec Spec) bool { return spec.Name == name })
		if i >= 0 && may(name) && !slices.Contains(have, name) {
			have, specs = append(have, name), append(specs, s.more[i])
		}
	}
	return specs
}

// Tools returns every tool of the set, by name.
func (s *Set) Tools() []Tool {
	all := slices.Collect(maps.Values(s.tools))
	slices.SortFunc(all, func(a, b Tool) int { return strings.Compare(a.Spec().Name, b.Spec().Name) })
	return all
}

// Names are the names of all tools, sorted.
func (s *Set) Names() []string {
	return slices.Sorted(maps.Keys(s.tools))
}

// Prepared is a judged call. Exactly one of Output, Question and Run is set: a
// result without a run (an error or a denial, for the model), a question that
// must be answered first, or the way to run it.
type Prepared struct {
	Judgement mercury.Judgement
	Effect    mercury.Effect
	Accesses  []mercury.Access

	Output   *Output
	Question *mercury.Question

	// Run does the call, once. It returns an error only when ctx ended; any
	// other failure is an Output for the model.
	Run func(ctx context.Context) (Output, error)

	// Probe finds out whether an interrupted call happened; nil if the tool
	// cannot know. It may be set beside Question too, since looking is not
	// doing.
	Probe func(ctx context.Context) (done *Output, notDone bool, err error)
}

// Prepare checks a call and has it judged. It changes nothing in the world,
// and the same call in the same world gives the same accesses and the same
// hash, so that an approval given in between still fits.
func (s *Set) Prepare(ctx context.Context, c Call) Prepared {
	t := s.tools[c.Name]
	if t == nil || c.Mandate.Tools != nil && !slices.Contains(c.Mandate.Tools, c.Name) {
		return refused(mercury.Read, Error(s.unknown(c)))
	}
	p := Prepared{Effect: t.Effect()}
	accesses, err := s.accesses(ctx, t, c)
	if err != nil {
		return refused(p.Effect, Error(c.Name+": "+forModel(err)))
	}
	p.Accesses = accesses

	r := Request{
		Mandate: c.Mandate, Tool: c.Name, Effect: p.Effect,
		RunID: c.RunID, ConversationID: c.ConversationID, CallID: c.ID,
		Accesses: slices.Clone(accesses), Hash: Hash(accesses), Taint: c.Taint, Dir: c.Folder(),
	}
	if g, ok := s.gate.(CommandGate); ok {
		p.Judgement, c.Exec = g.JudgeCommand(ctx, r)
	} else {
		p.Judgement, c.Exec = s.gate.Judge(ctx, r), nil
	}
	p.Judgement.Hash = bound(r.Hash, p.Judgement.Hash)
	if p.Judgement.Verdict == mercury.Ask && c.Approved == p.Judgement.Hash {
		p.Judgement.Verdict = mercury.Allow
	}

	masker, _ := s.gate.(Masker)
	if masker != nil {
		c.Mask = masker.Mask
	}
	if prober, ok := t.(Prober); ok && p.Judgement.Verdict != mercury.Deny {
		granted := c
		granted.Granted = accesses
		p.Probe = func(ctx context.Context) (*Output, bool, error) { return prober.Probe(ctx, granted) }
	}
	switch p.Judgement.Verdict {
	case mercury.Allow:
		c.Granted = accesses
		p.Run = func(ctx context.Context) (Output, error) { return s.run(ctx, t, c) }
	case mercury.Ask:
		if c.Mask != nil && c.Mask(p.Judgement.Always) != p.Judgement.Always {
			p.Judgement.Always = "" // a lasting rule would keep the secret in it
		}
		p.Question = question(ctx, t, c, p)
		if c.Mask != nil { // it is shown on phones and in notices
			p.Question.Title, p.Question.Body = c.Mask(p.Question.Title), c.Mask(p.Question.Body)
		}
	default:
		out := Error(denial(p.Judgement))
		p.Output = &out
	}
	return p
}

// bound is what an approval is given for: the accesses, and what the gate
// found them to mean.
func bound(accesses, meaning string) string {
	if meaning == "" {
		return accesses
	}
	sum := sha256.Sum256([]byte(accesses + " " + meaning))
	return hex.EncodeToString(sum[:])
}

func refused(e mercury.Effect, out Output) Prepared {
	return Prepared{Effect: e, Output: &out}
}

// accesses asks the tool, and makes a panic over strange arguments an error.
func (s *Set) accesses(ctx context.Context, t Tool, c Call) (as []mercury.Access, err error) {
	defer func() {
		if r := recover(); r != nil {
			as, err = nil, fmt.Errorf("internal error: %v", r)
		}
	}()
	return t.Accesses(ctx, c)
}

// unknown says that there is no such tool, and which one was perhaps meant.
func (s *Set) unknown(c Call) string {
	var names []string
	for _, spec := range slices.Concat(s.specs, s.more) {
		if c.Mandate.Tools == nil || slices.Contains(c.Mandate.Tools, spec.Name) {
			names = append(names, spec.Name)
		}
	}
	if near := nearest(c.Name, names); near != "" {
		return fmt.Sprintf("There is no tool %q here. Did you mean %s?", c.Name, near)
	}
	return fmt.Sprintf("There is no tool %q here. The tools are: %s.", c.Name, strings.Join(names, ", "))
}

// denial is one sentence for the model.
func denial(j mercury.Judgement) string {
	why := strings.TrimRight(strings.TrimSpace(j.Why), ".")
	if why == "" {
		why = "no rule allows it"
	}
	return "Not permitted: " + why + "."
}

// run does an allowed call, and takes the secrets out of what comes back.
func (s *Set) run(ctx context.Context, t Tool, c Call) (Output, error) {
	masker, ok := s.gate.(Masker)
	if !ok {
		return run(ctx, t, c)
	}
	var found atomic.Bool
	c.Mask = func(text string) string {
		clean := masker.Mask(text)
		if clean != text {
			found.Store(true)
		}
		return clean
	}
	if show := c.Progress; show != nil {
		c.Progress = func(line string) { show(masker.Mask(line)) }
	}
	out, err := run(ctx, t, c)
	if err != nil {
		return out, err
	}
	// What a tool took through a Capture is clean by now; a mask is no secret.
	out.Text, out.Diff = c.Mask(out.Text), c.Mask(out.Diff)
	if q := out.Question; q != nil {
		q.Title, q.Body = c.Mask(q.Title), c.Mask(q.Body)
	}
	if found.Load() {
		masker.Masked(ctx, c)
		out.Text = strings.TrimRight(out.Text, "\n") + "\n[what looked like a secret is masked above; do not write the mask back]"
	}
	return out, nil
}

// run does an allowed call and bounds what comes back.
func run(ctx context.Context, t Tool, c Call) (out Output, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = Error(fmt.Sprintf("%s: internal error: %v\n%s", c.Name, r, firstFrames(debug.Stack()))), nil
		}
	}()
	out, err = t.Run(ctx, c)
	if ctx.Err() != nil && err != nil {
		return Output{}, ctx.Err()
	}
	if err != nil {
		taint := out.Taint
		out = Error(c.Name + ": " + forModel(err))
		out.Taint = taint
	}
	return limit(out, c), nil
}

// firstFrames keeps what a bug report needs of a stack.
func firstFrames(stack []byte) string {
	lines := strings.SplitN(string(stack), "\n", 24)
	return strings.Join(lines[:len(lines)-1], "\n")
}

// forModel is an error's text with the advice that goes with it.
func forModel(err error) string {
	text := err.Error()
	if help := mercury.HelpOf(err); help != "" {
		text += ". " + help
	}
	if errors.Is(err, context.DeadlineExceeded) {
		text += " (it took too long)"
	}
	return text
}

// Hash names a list of accesses: SHA-256, in lower-case hex, over their
// canonical JSON (fields in the order of the type, no spaces, no HTML
// escapes).
func Hash(accesses []mercury.Access) string {
	if accesses == nil {
		accesses = []mercury.Access{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(accesses); err != nil {
		panic(err) // strings cannot fail to encode
	}
	sum := sha256.Sum256(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return hex.EncodeToString(sum[:])
}
