package daemon

import (
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/mercury-agent/mercury/internal/llm/catalog"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/picture"
)

// pictures reads the pictures that people send, and keeps the latest at hand: a
// turn sends the same ones with each of its steps.
type pictures struct {
	mu   sync.Mutex
	kept []keptPicture // newest last
}

type keptPicture struct {
	path  string
	size  int64
	at    int64 // modification time, nanoseconds
	b     []byte
	media string
}

// pictureCache is how many pictures are kept at hand.
const pictureCache = 8

// read returns a picture as a model takes it. The same file gives the same
// bytes.
func (p *pictures) read(file mercury.File) (b []byte, media string, err error) {
	f, err := os.Open(file.Path)
	if err != nil {
		return nil, "", fmt.Errorf("read the picture: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, "", fmt.Errorf("read the picture: %s is no file: %w", file.Name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.kept {
		if k.path == file.Path && k.size == info.Size() && k.at == info.ModTime().UnixNano() {
			return k.b, k.media, nil
		}
	}
	raw, err := io.ReadAll(io.LimitReader(f, picture.MaxBytes+1))
	if err != nil {
		return nil, "", fmt.Errorf("read the picture: %w", err)
	}
	if b, media, err = picture.Fit(raw); err != nil {
		return nil, "", err
	}
	p.kept = append(p.kept, keptPicture{file.Path, info.Size(), info.ModTime().UnixNano(), b, media})
	if len(p.kept) > pictureCache {
		p.kept = p.kept[1:]
	}
	return b, media, nil
}

// sees reports whether a model is shown pictures: one that sees none may refuse
// the whole request, so it must be known that it does.
func sees(model string) bool {
	known, _ := catalog.Find(model)
	return known.Images
}
