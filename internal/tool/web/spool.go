package web

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// A spool holds a body: its beginning in memory, the rest in a file that is
// gone when the spool is closed, or this process ends on a system that allows
// an open file without a name.
type spool struct {
	folder string
	held   []byte
	file   *os.File
	size   int64
	named  bool // the file still has a name
}

func newSpool(folder string) *spool { return &spool{folder: folder} }

// Write implements io.Writer.
func (s *spool) Write(p []byte) (int, error) {
	room := min(heldMax-len(s.held), len(p))
	s.held = append(s.held, p[:room]...)
	s.size += int64(room)
	if room == len(p) {
		return room, nil
	}
	if s.file == nil {
		if s.folder != "" {
			if err := os.MkdirAll(s.folder, 0o700); err != nil {
				return room, fmt.Errorf("keep the body: %w", err)
			}
		}
		file, err := os.CreateTemp(s.folder, "mercury-fetch-*")
		if err != nil {
			return room, fmt.Errorf("keep the body: %w", err)
		}
		s.file, s.named = file, os.Remove(file.Name()) != nil // Windows refuses
	}
	n, err := s.file.Write(p[room:])
	s.size += int64(n)
	if err != nil {
		return room + n, fmt.Errorf("keep the body: %w", err)
	}
	return len(p), nil
}

// head is the beginning, for a look at what it is.
func (s *spool) head() []byte { return s.held[:min(int64(len(s.held)), s.size)] }

// reader reads the body from its beginning.
func (s *spool) reader() (io.Reader, error) {
	if s.file == nil {
		return bytes.NewReader(s.head()), nil
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	return io.LimitReader(io.MultiReader(bytes.NewReader(s.held), s.file), s.size), nil
}

// all is the whole body in memory.
func (s *spool) all() ([]byte, error) {
	r, err := s.reader()
	if err != nil {
		return nil, err
	}
	b := make([]byte, s.size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, fmt.Errorf("read the body: %w", err)
	}
	return b, nil
}

func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
		if s.named {
			_ = os.Remove(s.file.Name())
		}
		s.file = nil
	}
}
