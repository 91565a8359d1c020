package llm

import (
	"sync"
	"unicode/utf8"
)

// EstimateText guesses how many tokens text takes. Tokens per character differ
// by script far more than by model: about four Latin letters, two Cyrillic or
// Arabic ones, or a single Chinese, Japanese or Korean one make a token.
func EstimateText(text string) int {
	if text == "" {
		return 0
	}
	return estimateMilli(text)/1000 + 1
}

// estimateMilli is EstimateText in thousandths of a token.
func estimateMilli(text string) int {
	milli := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			switch {
			case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == ' ':
				milli += 235
			case c >= '0' && c <= '9':
				milli += 450
			default: // punctuation, newlines, brackets
				milli += 500
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		i += n
		switch {
		case r < 0x250: // accented Latin
			milli += 450
		case r < 0x900: // Greek, Cyrillic, Armenian, Hebrew, Arabic
			milli += 500
		case r < 0x1100: // Indic, Thai, Georgian
			milli += 800
		case r >= 0x2e80 && r < 0xe000: // Chinese, Japanese, Korean
			milli += 900
		default: // symbols, emoji
			milli += 1800
		}
	}
	return milli
}

// Flat costs of what is not text, in tokens.
const (
	perMessage = 4
	perTool    = 12
	perImage   = 1600 // an image of about a megapixel
)

// An Estimator guesses the size of requests and learns from what providers
// report. The zero value is ready; it may be used by several goroutines.
type Estimator struct {
	mu     sync.Mutex
	factor map[string]float64 // by model; 1 when absent
}

// Request guesses the input tokens of req, for its model.
func (e *Estimator) Request(req Request) int {
	return int(float64(EstimateRequest(req)) * e.of(req.Model))
}

// Text guesses the tokens of text for model.
func (e *Estimator) Text(model, text string) int {
	return int(float64(EstimateText(text)) * e.of(model))
}

// Learn corrects the factor of model: guessed is what EstimateRequest said,
// reported what the provider counted. One odd report moves it by a quarter at
// most, and it stays between a half and two and a half.
func (e *Estimator) Learn(model string, guessed, reported int) {
	if guessed < 50 || reported <= 0 {
		return
	}
	seen := min(max(float64(reported)/float64(guessed), 0.5), 2.5)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.factor == nil {
		e.factor = map[string]float64{}
	}
	old, known := e.factor[model]
	if !known {
		old = 1
	}
	e.factor[model] = old + (seen-old)/4
}

func (e *Estimator) of(model string) float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f, ok := e.factor[model]; ok {
		return f
	}
	return 1
}

// EstimateRequest guesses the input tokens of req without any correction.
func EstimateRequest(req Request) int {
	milli, flat := estimateMilli(req.Tail), 0
	for _, s := range req.System {
		milli += estimateMilli(s)
	}
	for _, t := range req.Tools {
		flat += perTool
		milli += estimateMilli(t.Name) + estimateMilli(t.Description) + len(t.Schema)*300
	}
	for _, m := range req.Messages {
		flat += perMessage
		for _, p := range m.Parts {
			milli += estimateMilli(p.Text) + estimateMilli(p.Name) + len(p.Args)*300
			if p.Kind == Image {
				flat += perImage
			}
		}
	}
	return flat + milli/1000 + 1
}

// EstimateParts guesses the output tokens of an answer.
func EstimateParts(parts []Part) int {
	milli := 0
	for _, p := range parts {
		milli += estimateMilli(p.Text) + estimateMilli(p.Name) + (len(p.Args)+len(p.BadArgs))*300
	}
	if milli == 0 {
		return 0
	}
	return milli/1000 + 1
}
