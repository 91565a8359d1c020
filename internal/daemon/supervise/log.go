package supervise

import (
	"errors"
	"fmt"
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
// as NAME.1, the newest, to NAME.4. One process writes it; others may add lines
// with Append. A full disk, or a file that cannot be opened, loses lines and
// stops nothing.
type Log struct {
	path string

	mu   sync.Mutex
	file *os.File // nil: to be opened by the next line
	size int64
}

// OpenLog appends to the log at path.
func OpenLog(path string) (*Log, error) {
	l := &Log{path: path}
	return l, l.open()
}

func (l *Log) open() error {
	f, err := openLog(l.path)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open the log: %w", err), f.Close())
	}
	l.file, l.size = f, info.Size()
	return nil
}

func openLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return f, nil
}

// Write adds b. It always takes all of it.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil && l.open() != nil {
		return len(b), nil
	}
	if l.size > 0 && l.size+int64(len(b)) > LogSize && !l.rotate() {
		return len(b), nil
	}
	n, _ := l.file.Write(b)
	l.size += int64(n)
	return len(b), nil
}

// rotate begins a new file. What cannot be renamed is written on; false says
// that there is no file to write to now.
func (l *Log) rotate() bool {
	for i := LogFiles - 1; i > 0; i-- {
		from := l.path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", l.path, i-1)
		}
		err := os.Rename(from, fmt.Sprintf("%s.%d", l.path, i))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	l.file.Close()
	l.file = nil
	return l.open() == nil
}

// Close ends the log; a later line opens it again.
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

// Append adds a line to a log that another process writes.
func Append(path, line string) error {
	f, err := openLog(path)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}
