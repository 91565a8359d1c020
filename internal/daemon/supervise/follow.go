package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// followEvery is how often a followed log is looked at.
const followEvery = 250 * time.Millisecond

// Show writes the last lines of the log at path and, with follow, what comes
// after them until ctx ends, also past the beginning of a new file.
func Show(ctx context.Context, out io.Writer, path string, lines int, follow bool) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && follow {
		f, err = nil, nil
	}
	if err != nil {
		return err
	}
	if f != nil {
		if err := lastLines(f, out, lines); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	for follow && ctx.Err() == nil {
		if f != nil {
			if _, err := io.Copy(out, f); err != nil {
				return errors.Join(fmt.Errorf("read the log: %w", err), f.Close())
			}
		}
		if f = newer(f, path); f == nil || atEnd(f) {
			select {
			case <-ctx.Done():
			case <-time.After(followEvery):
			}
		}
	}
	if f == nil {
		return nil
	}
	return f.Close()
}

// newer returns the file that stands at path now: f itself while it does.
func newer(f *os.File, path string) *os.File {
	now, err := os.Stat(path)
	if err != nil {
		return f
	}
	if f != nil {
		if old, err := f.Stat(); err == nil && os.SameFile(old, now) {
			return f
		}
	}
	next, err := os.Open(path)
	if err != nil {
		return f
	}
	if f != nil {
		f.Close()
	}
	return next
}

func atEnd(f *os.File) bool {
	at, err := f.Seek(0, io.SeekCurrent)
	info, statErr := f.Stat()
	return err != nil || statErr != nil || at >= info.Size()
}

// lastLines writes the last n lines of f and leaves it at its end.
func lastLines(f *os.File, out io.Writer, n int) error {
	const most = 1 << 20
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	if _, err := f.Seek(max(0, info.Size()-most), io.SeekStart); err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	at := len(bytes.TrimSuffix(b, []byte("\n")))
	for ; n > 0 && at > 0; n-- {
		at = bytes.LastIndexByte(b[:at], '\n')
		if at < 0 {
			at = -1
			break
		}
	}
	if n > 0 || at < 0 {
		at = -1
	}
	_, err = out.Write(b[at+1:])
	return err
}
