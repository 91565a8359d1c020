package tool

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// masker allows what touches nothing, asks about the rest, and knows one secret.
type masker struct{ told int }

const hush = "secret-0123456789"

func (m *masker) Judge(_ context.Context, r Request) mercury.Judgement {
	if len(r.Accesses) == 0 {
		return mercury.Judgement{Verdict: mercury.Allow}
	}
	return mercury.Judgement{Verdict: mercury.Ask, Rule: "test", Why: "it holds " + hush, Always: "run:=" + hush}
}

func (m *masker) Mask(text string) string          { return strings.ReplaceAll(text, hush, "[hidden]") }
func (m *masker) Masked(_ context.Context, _ Call) { m.told++ }
func quiet(struct{}) []mercury.Access              { return nil }
func says(text string) func(context.Context, Call, struct{}) (Output, error) {
	return func(_ context.Context, c Call, _ struct{}) (Output, error) {
		if c.Progress != nil {
			c.Progress("at " + hush)
		}
		return Output{Text: text, Diff: "+" + hush}, nil
	}
}

func TestNoSecretIsInWhatAToolBrings(t *testing.T) {
	gate := &masker{}
	long := strings.Repeat("a line with "+hush+" in it\n", 40_000)
	s := NewSet(gate, New("short", "s", mercury.Read, quiet, says("it is "+hush)), New("long", "l", mercury.Read, quiet, says(long)),
		New("plain", "p", mercury.Read, quiet, func(context.Context, Call, struct{}) (Output, error) { return Output{Text: "nothing"}, nil }))
	dir := t.TempDir()
	var lines []string
	for name, secrets := range map[string]int{"short": 1, "long": 1, "plain": 0} {
		before := gate.told
		p := s.Prepare(t.Context(), Call{ID: "1", Name: name, Args: []byte(`{}`), Outputs: dir, Progress: func(l string) { lines = append(lines, l) }})
		out, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.Text+out.Diff, hush) || gate.told-before != secrets {
			t.Errorf("%s: told %d times, %.80q %q", name, gate.told-before, out.Text, out.Diff)
		}
		if out.Truncated != "" {
			whole, err := os.ReadFile(out.Truncated)
			if err != nil || strings.Contains(string(whole), hush) || strings.Count(string(whole), "[hidden]") != 40_000 {
				t.Errorf("the whole output of %s: %v, %d bytes", filepath.Base(out.Truncated), err, len(whole))
			}
		}
	}
	if strings.Contains(strings.Join(lines, ""), hush) || len(lines) != 2 {
		t.Errorf("progress: %q", lines)
	}
}

func TestAQuestionHoldsNoSecretAndOffersNoRuleWithOne(t *testing.T) {
	s := NewSet(&masker{}, New("run", "r", mercury.Once,
		func(struct{}) []mercury.Access {
			return []mercury.Access{{Kind: mercury.RunCommand, Target: "echo " + hush}}
		}, says("")))
	q := s.Prepare(t.Context(), Call{ID: "1", Name: "run", Args: []byte(`{}`)}).Question
	if q == nil || strings.Contains(q.Title+q.Body+q.Always, hush) || q.Always != "" {
		t.Errorf("%+v", q)
	}
}
