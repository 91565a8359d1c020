package llm_test

import (
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/llm"
)

func TestEstimatesFollowTheScriptOfAText(t *testing.T) {
	// Rules of thumb: a token a word in English, one and a half in Russian,
	// somewhat less than one a character in Chinese.
	for _, tt := range []struct {
		text string
		want int
	}{
		{strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20), 200},
		{strings.Repeat("Съешь же ещё этих мягких французских булок. ", 20), 260},
		{strings.Repeat("我们今天去公园散步吧。", 20), 160},
		{strings.Repeat("func main() {\n\tfmt.Println(\"x\")\n}\n", 20), 260},
	} {
		got := llm.EstimateText(tt.text)
		if got < tt.want*6/10 || got > tt.want*16/10 {
			t.Errorf("%.20s…: %d, want about %d", tt.text, got, tt.want)
		}
	}
	if llm.EstimateText("") != 0 {
		t.Error("nothing costs something")
	}
}

func TestTheEstimatorLearnsAModelsFactor(t *testing.T) {
	var e llm.Estimator
	words := strings.Repeat("hello world ", 100)
	before := e.Text("dense", words)
	for range 20 {
		e.Learn("dense", 1000, 1500)
	}
	e.Learn("dense", 1000, 1_000_000) // an odd report moves it a little only
	after := e.Text("dense", words)
	if after < before*14/10 || after > before*18/10 {
		t.Errorf("%d became %d", before, after)
	}
	if e.Text("other", words) != before {
		t.Error("another model learned too")
	}
}
