package file

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

//go:embed write.md
var writeUsage string

type writeInput struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// write is the tool that creates or overwrites a file.
func (f *Files) write() tool.Tool {
	return tool.Define(tool.Definition[writeInput]{
		Name: "write_file", Usage: writeUsage, Effect: mercury.Once,
		Access: func(_ context.Context, c tool.Call, in writeInput) ([]mercury.Access, error) {
			if len(in.Content) > changeMax {
				return nil, invalid(fmt.Sprintf("content has %s; at most %s can be written", bytesText(int64(len(in.Content))), bytesText(changeMax)), "")
			}
			return f.access(c, mercury.WritePath, in.Path)
		},
		Run: f.runWrite,
		Show: func(_ context.Context, _ tool.Call, in writeInput) string {
			return fmt.Sprintf("%s (%s)\n\n%s", in.Path, bytesText(int64(len(in.Content))), in.Content)
		},
		Probe: f.probeWrite,
	})
}

func (f *Files) runWrite(ctx context.Context, c tool.Call, in writeInput) (tool.Output, error) {
	v := NewView(f.opts, c)
	real, err := v.admit(mercury.WritePath, in.Path)
	if err != nil {
		return tool.Output{}, err
	}
	defer f.lock(real)()
	p, err := v.placeFor(real)
	if err != nil {
		return tool.Output{}, explain(in.Path, err)
	}
	defer p.dir.Close()

	data := []byte(in.Content)
	if p.old == nil {
		r := f.replaced(ctx, c, p, real, nil, data, nil)
		if err := p.replace(ctx, data); err != nil {
			return tool.Output{}, explain(in.Path, err)
		}
		return remember(tool.Output{
			Text: fmt.Sprintf("Created %s (%s).", real, bytesText(int64(len(data)))),
			Diff: diff(real, nil, data),
		}, r), nil
	}
	// The old content is for the diff alone; a file too large to compare is
	// still replaced.
	before, err := p.content()
	if errors.Is(err, errChanged) || errors.Is(err, errMoved) || errors.Is(err, errHidden) {
		return tool.Output{}, explain(in.Path, err)
	}
	if err == nil && bytes.Equal(before, data) {
		return tool.Output{Text: fmt.Sprintf("%s has this content already; nothing was written.", real)}, nil
	}
	comparable := err == nil
	r := f.replaced(ctx, c, p, real, before, data, err)
	if err := p.replace(ctx, data); err != nil {
		return tool.Output{}, explain(in.Path, err)
	}
	out := tool.Output{Text: fmt.Sprintf("Changed %s (now %s).", real, bytesText(int64(len(data))))}
	if comparable {
		out.Diff = diff(real, before, data)
		if added, removed := changes(out.Diff); added+removed > 0 {
			out.Text = fmt.Sprintf("Changed %s (+%d −%d lines, now %s).", real, added, removed, bytesText(int64(len(data))))
		}
	}
	return remember(out, r), nil
}

// probeWrite finds out whether an interrupted write happened. The file is
// replaced in one step, so it holds the wanted content or the write did not
// happen; unless someone wrote after it, which nobody can tell.
func (f *Files) probeWrite(_ context.Context, c tool.Call, in writeInput) (*tool.Output, bool, error) {
	data, err := f.current(c, in.Path)
	if errors.Is(err, fs.ErrNotExist) || mercury.KindOf(err) == mercury.NotFound {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	if string(data) == in.Content {
		return &tool.Output{Text: fmt.Sprintf("%s has the content that was to be written.", in.Path)}, false, nil
	}
	return nil, false, nil
}

// current reads the file a call writes, for a probe.
func (f *Files) current(c tool.Call, path string) ([]byte, error) {
	v := NewView(f.opts, c)
	real, err := v.admit(mercury.WritePath, path)
	if err != nil {
		return nil, err
	}
	p, err := v.existing(real)
	if err != nil {
		return nil, explain(path, err)
	}
	defer p.dir.Close()
	return p.content()
}
