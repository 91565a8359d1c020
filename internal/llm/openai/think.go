package openai

import (
	"strings"

	"github.com/mercury-agent/mercury/internal/llm"
)

// thinkState follows a model that thinks aloud inside <think> tags at the
// start of its text, as models behind plain local servers do.
type thinkState int

const (
	thinkOff   thinkState = iota // all is text
	thinkStart                   // nothing decided yet
	thinkIn                      // between the tags
	thinkEnd                     // after them, white space is dropped
)

const (
	openTag  = "<think>"
	closeTag = "</think>"
)

// say takes in a piece of content and tells thought from text.
func (d *decoder) say(text string) {
	if text == "" {
		return
	}
	if d.think == thinkOff {
		d.write(text)
		return
	}
	text, d.held = d.held+text, ""
	if d.think == thinkStart {
		rest := strings.TrimLeft(text, " \t\r\n")
		switch {
		case strings.HasPrefix(rest, openTag):
			d.think = thinkIn
			text = rest[len(openTag):]
		case strings.HasPrefix(openTag, rest): // also when it is empty
			d.held = text
			return
		default:
			d.think = thinkOff
			d.write(text)
			return
		}
	}
	if d.think == thinkIn {
		i := strings.Index(text, closeTag)
		if i < 0 {
			keep := partial(text, closeTag)
			d.held = text[len(text)-keep:]
			d.reason(text[:len(text)-keep])
			return
		}
		d.reason(text[:i])
		d.think = thinkEnd
		text = text[i+len(closeTag):]
	}
	if text = strings.TrimLeft(text, " \t\r\n"); text != "" {
		d.think = thinkOff
		d.write(text)
	}
}

// partial returns how many bytes at the end of text may begin tag.
func partial(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}

// flush gives out what was held back when no more comes.
func (d *decoder) flush() {
	held := d.held
	d.held = ""
	if held == "" {
		return
	}
	if d.think == thinkIn {
		d.reason(held)
	} else {
		d.write(held)
	}
}

func (d *decoder) write(text string) {
	if text == "" {
		return
	}
	d.text.WriteString(text)
	d.show(llm.Event{Kind: llm.TextDelta, Text: text})
}
