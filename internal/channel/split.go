package channel

import (
	"strings"
	"unicode/utf8"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Parts turns a delivery into the messages a channel with these limits can
// show: the text in pieces, then one message for each file. Where files
// cannot be sent their names are listed in the text. A delivery without text
// and files has no parts.
func Parts(d mercury.Delivery, l Limits) []mercury.Part {
	text := d.Text
	if !l.Files {
		for _, f := range d.Files {
			text += "\n[file: " + f.Name + "]"
		}
	}
	var parts []mercury.Part
	for _, piece := range Split(text, l.Text) {
		parts = append(parts, mercury.Part{N: len(parts), Text: piece, State: mercury.DeliveryPending})
	}
	if l.Files {
		for _, f := range d.Files {
			parts = append(parts, mercury.Part{N: len(parts), File: &f, State: mercury.DeliveryPending})
		}
	}
	return parts
}

// Split cuts Markdown text into pieces of at most limit UTF-16 code units,
// the unit chat platforms count in; limit 0 does not cut. It cuts between
// blocks where it can, else between lines, words, and at last characters. A
// code fence that a cut runs through is closed before it and opened again
// after it, so that each piece stands by itself. Blank pieces are left out.
func Split(text string, limit int) []string {
	text = strings.Trim(strings.ToValidUTF8(text, "\uFFFD"), "\n")
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if limit <= 0 || Units(text) <= limit {
		return []string{text}
	}
	var pieces []string
	open := "" // the fence line in force where the rest begins
	for text != "" {
		prefix := ""
		if open != "" {
			prefix = open + "\n"
		}
		if Units(prefix)+Units(text) <= limit {
			pieces = appendPiece(pieces, prefix+text)
			break
		}
		room := limit - Units(prefix)
		if room-longestFence < 16 { // too little for fences: plain cuts
			prefix, open, room = "", "", limit
		}
		head := cut(text, room)
		inside := fenceAfter(open, head)
		if inside != "" { // leave room for the line that closes it
			head = cut(text, max(1, room-len("\n")-longestFence))
			inside = fenceAfter(open, head)
		}
		rest := strings.TrimLeft(text[len(head):], "\n")
		piece := prefix + strings.TrimRight(head, "\n ")
		if inside != "" {
			piece += "\n" + fenceMarks(inside)
		}
		pieces = appendPiece(pieces, piece)
		text, open = rest, inside
	}
	return pieces
}

func appendPiece(pieces []string, piece string) []string {
	if strings.TrimSpace(piece) == "" {
		return pieces
	}
	return append(pieces, piece)
}

// Units returns the length of s in UTF-16 code units.
func Units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xFFFF {
			n++
		}
	}
	return n
}

// cut returns the longest head of text within room that ends at the best
// border found in its second half: a blank line, a line end, a blank, else a
// character.
func cut(text string, room int) string {
	end, n := 0, 0
	for i, r := range text {
		w := 1
		if r > 0xFFFF {
			w = 2
		}
		if n+w > room {
			break
		}
		n += w
		end = i + utf8.RuneLen(r)
	}
	if end == 0 { // room for less than one character: take it all the same
		_, size := utf8.DecodeRuneInString(text)
		return text[:size]
	}
	head := text[:end]
	for _, border := range []string{"\n\n", "\n", " "} {
		if i := strings.LastIndex(head, border); i > end/2 {
			return head[:i+len(border)]
		}
	}
	return head
}

// fenceAfter returns the fence line in force after head, given the one in
// force before it; empty is none. A fence is closed by a line of at least as
// many of the same marks and nothing else (CommonMark §4.5).
func fenceAfter(open, head string) string {
	for line := range strings.Lines(head) {
		line = strings.TrimRight(line, "\r\n ")
		marks := fenceMarks(line)
		switch {
		case marks == "":
		case open == "":
			open = line
		default:
			was := fenceMarks(open)
			if marks[0] == was[0] && len(marks) >= len(was) && strings.TrimLeft(line, " ") == marks {
				open = ""
			}
		}
	}
	if len(open) > 64 { // a hostile info string is not carried along
		return fenceMarks(open)
	}
	return open
}

// longestFence is the most marks that a fence is carried over a cut with; a
// longer run is no fence anybody wrote to quote code.
const longestFence = 12

func fenceMarks(line string) string {
	trimmed := strings.TrimLeft(line, " ")
	if len(line)-len(trimmed) > 3 {
		return ""
	}
	for _, mark := range []byte{'`', '~'} {
		n := 0
		for n < len(trimmed) && trimmed[n] == mark {
			n++
		}
		if n >= 3 && n <= longestFence && (mark == '~' || !strings.Contains(trimmed[n:], "`")) {
			return trimmed[:n]
		}
	}
	return ""
}
