// Package wire is what the model clients share: the event-stream reader, the
// call with its two timers, the classing of failures, and JSON written by
// hand so that the same words are always the same bytes.
package wire

import (
	"bytes"
	"errors"
	"io"
)

// MaxEvent bounds one event of a stream, far above any tool argument.
const MaxEvent = 64 << 20

// ErrTooLarge is returned for an event above MaxEvent and a body above its limit.
var ErrTooLarge = errors.New("it is larger than any answer")

// Event is one server-sent event. Data is valid until the next call of Next.
type Event struct {
	Name    string
	Data    []byte
	Comment bool // a line starting with a colon: alive, nothing to say
	Tail    bool // the stream ended inside it; its data may be incomplete
}

// Reader reads server-sent events (WHATWG HTML §9.2): lines ended by LF, CR
// or CRLF, of any length; a byte-order mark; comments; data over several
// lines. Unlike the standard it also hands out an event that the end of the
// stream cut, marked Tail, since several servers omit the last blank line.
type Reader struct {
	src    io.Reader
	buf    []byte
	start  int // of what is unread in buf
	seen   int // bytes after start already searched for a line end
	err    error
	begun  bool
	skipLF bool
	data   []byte
	name   string
	has    bool
}

// NewReader returns a Reader of src.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, buf: make([]byte, 0, 8<<10)}
}

// Next returns the next event or comment; io.EOF after the last.
func (r *Reader) Next() (Event, error) {
	r.data, r.name, r.has = r.data[:0], "", false
	for {
		line, err := r.line()
		if err != nil {
			if r.has && err == io.EOF {
				return Event{Name: r.name, Data: r.data, Tail: true}, nil
			}
			return Event{}, err
		}
		if len(line) == 0 {
			if r.has {
				return Event{Name: r.name, Data: r.data}, nil
			}
			r.name = ""
			continue
		}
		if line[0] == ':' {
			if !r.has && r.name == "" {
				return Event{Comment: true}, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte{':'})
		value = bytes.TrimPrefix(value, []byte{' '})
		switch string(field) {
		case "data":
			if r.has {
				r.data = append(r.data, '\n')
			}
			if len(r.data)+len(value) > MaxEvent {
				return Event{}, ErrTooLarge
			}
			r.data, r.has = append(r.data, value...), true
		case "event":
			r.name = string(value)
		}
	}
}

// line returns the next line without its end. A last line without an end is
// returned too, before io.EOF.
func (r *Reader) line() ([]byte, error) {
	for {
		unread := r.buf[r.start:]
		if r.skipLF && len(unread) > 0 {
			r.skipLF = false
			if unread[0] == '\n' {
				r.start++
				unread = unread[1:]
			}
		}
		if i := bytes.IndexAny(unread[min(r.seen, len(unread)):], "\r\n"); i >= 0 {
			i += min(r.seen, len(unread))
			r.skipLF = unread[i] == '\r'
			r.start += i + 1
			r.seen = 0
			return r.trimMark(unread[:i]), nil
		}
		r.seen = len(unread)
		if r.err != nil {
			if len(unread) > 0 {
				r.start, r.seen = len(r.buf), 0
				return r.trimMark(unread), nil
			}
			return nil, r.err
		}
		if len(unread) > MaxEvent {
			return nil, ErrTooLarge
		}
		r.fill()
	}
}

func (r *Reader) trimMark(line []byte) []byte {
	if !r.begun {
		r.begun = true
		return bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}

// fill reads once more, moving what is unread to the front and growing the
// buffer when it is full.
func (r *Reader) fill() {
	if r.start > 0 {
		n := copy(r.buf, r.buf[r.start:])
		r.buf, r.start = r.buf[:n], 0
	}
	if len(r.buf) == cap(r.buf) {
		grown := make([]byte, len(r.buf), 2*cap(r.buf))
		copy(grown, r.buf)
		r.buf = grown
	}
	for range 100 { // as io.Reader asks: a reader may return nothing a few times
		n, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+n]
		if err != nil {
			r.err = err
			return
		}
		if n > 0 {
			return
		}
	}
	r.err = io.ErrNoProgress
}
