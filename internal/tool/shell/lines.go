package shell

import (
	"bytes"
	"time"

	"github.com/mercury-agent/mercury/internal/tool"
)

// Limits of what people who watch are shown: of one line in bytes, and lines
// in a tenth of a second. A command may print faster than anyone reads.
const (
	lineMax   = 500
	burst     = 20
	burstTime = 100 * time.Millisecond
)

// lines hands whole lines of output to a progress function.
type lines struct {
	tell    func(string)
	line    []byte
	since   time.Time
	inBurst int
}

func newLines(tell func(string)) *lines { return &lines{tell: tell} }

func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	if l.tell == nil {
		return n, nil
	}
	for len(p) > 0 {
		piece, rest, whole := bytes.Cut(p, []byte("\n"))
		p = rest
		if room := lineMax - len(l.line); room > 0 {
			l.line = append(l.line, piece[:min(room, len(piece))]...)
		}
		if whole {
			l.flush()
		}
	}
	return n, nil
}

func (l *lines) flush() {
	if now := time.Now(); now.Sub(l.since) > burstTime {
		l.since, l.inBurst = now, 0
	}
	if l.inBurst++; l.inBurst <= burst {
		l.tell(tool.Clean(string(bytes.TrimSuffix(l.line, []byte("\r")))))
	}
	l.line = l.line[:0]
}
