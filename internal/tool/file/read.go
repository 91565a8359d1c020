package file

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed read.md
var readUsage string

type readInput struct {
	Path   string `json:"path"`
	Offset int    `json:"offset,omitempty" jsonschema:"first line, from 1"`
	Limit  int    `json:"limit,omitempty" jsonschema:"number of lines"`
}

const (
	readMax    = 512 << 20             // bytes; larger files are not read through
	readText   = tool.MaxBytes - 1<<10 // bytes of lines shown at once; the rest is for the note
	readLine   = 8 << 10               // bytes shown of one line
	sniffBytes = 8 << 10               // looked at to tell text from binary
)

// read is the tool that shows a file.
func (f *Files) read() tool.Tool {
	return tool.Define(tool.Definition[readInput]{
		Name: "read_file", Usage: readUsage, Effect: mercury.Read,
		Access: func(_ context.Context, c tool.Call, in readInput) ([]mercury.Access, error) {
			return f.access(c, mercury.ReadPath, in.Path)
		},
		Run: func(ctx context.Context, c tool.Call, in readInput) (tool.Output, error) {
			file, info, err := NewView(f.opts, c).Open(in.Path)
			if err != nil {
				return tool.Output{}, err
			}
			defer file.Close()
			return show(ctx, file, info, in)
		},
	})
}

func (f *Files) access(c tool.Call, kind mercury.AccessKind, path string) ([]mercury.Access, error) {
	a, err := NewView(f.opts, c).Access(kind, path)
	if err != nil {
		return nil, err
	}
	return []mercury.Access{a}, nil
}

// show reads the wanted lines, and counts all of them so that the model knows
// where it is.
func show(ctx context.Context, file *os.File, info os.FileInfo, in readInput) (tool.Output, error) {
	if info.Size() > readMax {
		return tool.Output{}, fmt.Errorf("%s has %s; more than %s is not read. Use run_command to look at a part of it", in.Path, bytesText(info.Size()), bytesText(readMax))
	}
	r := bufio.NewReaderSize(&contextReader{ctx, file}, 64<<10)
	start, err := r.Peek(sniffBytes)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return tool.Output{}, explain(in.Path, err)
	}
	if len(start) == 0 {
		return tool.Output{Text: "(the file is empty)"}, nil
	}
	if binary(start) {
		return tool.Output{Text: fmt.Sprintf("%s is a binary file (%s, %s); its bytes are not shown.", in.Path, mediaType(start), bytesText(info.Size()))}, nil
	}

	first := max(in.Offset, 1)
	last := first + min(max(in.Limit, 0), tool.MaxLines-1) - 1
	if in.Limit <= 0 {
		last = first + tool.MaxLines - 2
	}
	var (
		text   strings.Builder
		n      int // lines so far
		shown  int // last line shown
		full   bool
		longer int // lines of which only the beginning is shown
	)
	for {
		line, length, err := readLineMax(r, readLine)
		if length > 0 {
			n++
			if n >= first && n <= last && !full {
				if length > len(line) {
					line = append(line, fmt.Sprintf(" [… the line has %s]\n", bytesText(int64(length)))...)
					longer++
				}
				clean := tool.Clean(string(line))
				if text.Len()+len(clean) > readText {
					full = true
				} else {
					text.WriteString(clean)
					shown = n
				}
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if ctx.Err() != nil {
				return tool.Output{}, ctx.Err()
			}
			return tool.Output{}, explain(in.Path, err)
		}
	}
	if first > n {
		return tool.Output{}, invalid(fmt.Sprintf("%s has %s; there is no line %d", in.Path, mercury.Count(n, "line", "lines"), first), "")
	}
	out := text.String()
	if first > 1 || shown < n {
		if !strings.HasSuffix(out, "\n") {
			out += "\n"
		}
		out += fmt.Sprintf("[lines %d to %d of %d", first, shown, n)
		if shown < n {
			out += fmt.Sprintf("; read on with offset %d", shown+1)
		}
		out += "]"
	}
	return tool.Output{Text: out}, nil
}

// readLineMax reads one line with its line feed, of which it returns at most
// limit bytes; length is that of all of it.
func readLineMax(r *bufio.Reader, limit int) (line []byte, length int, err error) {
	for {
		piece, err := r.ReadSlice('\n')
		length += len(piece)
		if room := limit - len(line); room > 0 {
			line = append(line, piece[:min(room, len(piece))]...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, length, err
		}
	}
}

// binary reports whether what starts like this is no text.
func binary(start []byte) bool { return bytes.IndexByte(start, 0) >= 0 }

func mediaType(start []byte) string {
	t, _, _ := strings.Cut(http.DetectContentType(start), ";")
	return t
}

// A contextReader stops reading when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// bytesText says a number of bytes.
func bytesText(n int64) string {
	switch {
	case n == 1:
		return "1 byte"
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}
