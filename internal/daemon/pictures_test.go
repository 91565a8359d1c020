package daemon

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

func TestAPictureIsReadOnceAndAnewWhenItHasChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.png")
	draw := func(w int) {
		t.Helper()
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, w, 10))); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &pictures{}
	draw(10)
	first, media, err := p.read(mercury.File{Path: path})
	if err != nil || media != "image/png" {
		t.Fatal(media, err)
	}
	again, _, err := p.read(mercury.File{Path: path})
	if err != nil || &again[0] != &first[0] {
		t.Errorf("it was read again: %v", err)
	}
	draw(3000)
	changed, _, err := p.read(mercury.File{Path: path})
	if c, _, configErr := image.DecodeConfig(bytes.NewReader(changed)); err != nil || configErr != nil || c.Width != 1568 {
		t.Errorf("width %d, %v, %v", c.Width, err, configErr)
	}
	for _, bad := range []string{filepath.Dir(path), path + "x", os.DevNull} {
		if _, _, err := p.read(mercury.File{Path: bad}); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
	for model, want := range map[string]bool{"anthropic/claude-sonnet-4-5": true, "local/none-such": false} {
		if sees(model) != want {
			t.Errorf("%s sees: %v", model, !want)
		}
	}
}
