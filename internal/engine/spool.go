package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/mercury-agent/mercury/internal/crash"
)

// spool keeps the text of a streaming answer in a file, so that a killed
// process leaves what it had. A write to a file survives a kill without a
// sync; after a power cut the text is lost, and nothing else. All of it is
// best effort: a spool that cannot be written is silently none.
type spool struct {
	path string // empty: nothing is kept

	mu    sync.Mutex
	file  *os.File
	round int    // of the model step under way
	left  string // from an earlier claim
}

// newSpool returns the spool of a run and picks up what an earlier claim left
// of a model step that finished does not know as finished.
func newSpool(folder, runID string, resumed bool, finished func(round int) bool) *spool {
	if folder == "" {
		return &spool{}
	}
	s := &spool{path: filepath.Join(folder, runID)}
	if !resumed {
		return s
	}
	b, err := os.ReadFile(s.path)
	if err != nil {
		return s
	}
	head, text, _ := strings.Cut(string(b), "\n")
	if round, err := strconv.Atoi(head); err == nil && !finished(round) {
		s.left = strings.ToValidUTF8(text, "")
	}
	os.Remove(s.path)
	return s
}

// open says which round the text to come belongs to. The file is made with
// the first text.
func (s *spool) open(round int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeFile()
	s.round = round
}

func (s *spool) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.path == "" || text == "" {
		return
	}
	if s.file == nil {
		f, err := create(s.path)
		if err != nil {
			return
		}
		s.file = f
		crash.Reach("spool.made")
		text = strconv.Itoa(s.round) + "\n" + text
	}
	s.file.WriteString(text)
}

// create makes the file, and its folder in a home that has none yet.
func create(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
}

func (s *spool) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.left
	s.left = ""
	return left
}

// discard forgets the text: its step is in the journal, or its run has ended.
func (s *spool) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.closeFile()
		crash.Reach("spool.discard")
		os.Remove(s.path)
	}
}

// keep closes the file and leaves it for the next claim.
func (s *spool) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeFile()
}

func (s *spool) closeFile() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}
