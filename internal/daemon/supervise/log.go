package supervise

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// Size and number of log files that are kept.
const (
	LogSize  = 5 << 20 // bytes of one
	LogFiles = 5
)

// A Log is a file that is begun anew when it is full; the former ones are kept
// as NAME.1, the newest, to NAME.4. A full disk loses lines and stops nothing.
type Log struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
	last []byte // the newest bytes, for who asks what was said last
}

// OpenLog appends to the log at path.
func OpenLog(path string) (*Log, error) {
	l := &Log{path: path}
	return l, l.open()
}

func (l *Log) open() error {
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open the log: %w", err), f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write adds b. It always takes all of it.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, b...)
	if n := len(l.last) - keptTail; n > 0 {
		l.last = append(l.last[:0], l.last[n:]...)
	}
	if l.size > 0 && l.size+int64(len(b)) > LogSize {
		l.rotate()
	}
	if l.file != nil {
		n, _ := l.file.Write(b)
		l.size += int64(n)
	}
	return len(b), nil
}

// rotate makes room. What cannot be renamed is written on.
func (l *Log) rotate() {
	for i := LogFiles - 1; i > 0; i-- {
		from := l.path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", l.path, i-1)
		}
		err := os.Rename(from, fmt.Sprintf("%s.%d", l.path, i))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	if l.file.Close(); l.open() != nil {
		l.file = nil
	}
}

// Last returns the newest bytes that were written.
func (l *Log) Last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.last)
}

// Close ends the log.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

var _ io.WriteCloser = (*Log)(nil)
