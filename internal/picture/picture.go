// Package picture makes pictures of people fit for a model: small enough,
// upright, and without what a camera writes beside them, such as the place.
package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // the first frame
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Limits of a picture. Models scale what is larger than MaxEdge down
// themselves, so more would only cost.
const (
	MaxEdge   = 1568     // pixels of the longer side that is sent
	MaxBytes  = 20 << 20 // of a file that is read
	maxPixels = 50 << 20 // of a picture that is decoded: a small file can be a huge picture
	quality   = 85       // of JPEG
)

// Fit reads a PNG, JPEG, GIF (its first frame) or WebP picture and writes it
// anew, at most MaxEdge long: as PNG where it has transparency or few enough
// bytes, else as JPEG. Nothing but what is seen is kept. The error is
// mercury.Invalid for what is no picture or too large.
func Fit(b []byte) (out []byte, media string, err error) {
	if len(b) > MaxBytes {
		return nil, "", invalid("the picture has %d MB, the limit is %d", len(b)>>20, MaxBytes>>20)
	}
	size, kind, err := image.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		return nil, "", invalid("it is no picture that can be read (PNG, JPEG, GIF, WebP): %v", err)
	}
	if size.Width <= 0 || size.Height <= 0 || size.Width > maxPixels/size.Height {
		return nil, "", invalid("the picture is %d × %d pixels large, which is too many", size.Width, size.Height)
	}
	img, _, err := image.Decode(bytes.NewReader(b))
	if err != nil {
		return nil, "", invalid("the picture is damaged: %v", err)
	}
	img = scaled(img)
	if kind == "jpeg" {
		img = upright(img, orientation(b))
	}
	if kind != "jpeg" {
		if out, err := encode(img, true); err == nil && (len(out) <= 200<<10 || transparent(img)) {
			return out, "image/png", nil
		}
	}
	out, err = encode(img, false)
	return out, "image/jpeg", err
}

func encode(img image.Image, asPNG bool) ([]byte, error) {
	var b bytes.Buffer
	var err error
	if asPNG {
		err = png.Encode(&b, img)
	} else {
		err = jpeg.Encode(&b, flat(img), &jpeg.Options{Quality: quality})
	}
	if err != nil {
		return nil, fmt.Errorf("write the picture: %w", err)
	}
	return b.Bytes(), nil
}

// scaled makes the longer side at most MaxEdge long.
func scaled(img image.Image) image.Image {
	w, h := img.Bounds().Dx(), img.Bounds().Dy()
	if w <= MaxEdge && h <= MaxEdge {
		return img
	}
	if w >= h {
		w, h = MaxEdge, max(h*MaxEdge/w, 1)
	} else {
		w, h = max(w*MaxEdge/h, 1), MaxEdge
	}
	to := image.NewNRGBA(image.Rect(0, 0, w, h))
	draw.CatmullRom.Scale(to, to.Bounds(), img, img.Bounds(), draw.Src, nil)
	return to
}

// transparent reports whether something shines through.
func transparent(img image.Image) bool {
	o, ok := img.(interface{ Opaque() bool })
	return ok && !o.Opaque()
}

// flat puts a picture with transparency on white, since JPEG knows none.
func flat(img image.Image) image.Image {
	if !transparent(img) {
		return img
	}
	to := image.NewRGBA(img.Bounds())
	draw.Draw(to, to.Bounds(), image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(to, to.Bounds(), img, img.Bounds().Min, draw.Over)
	return to
}

func invalid(format string, args ...any) error {
	return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf(format, args...)}
}

// errNoTag says that a picture does not say how it was held.
var errNoTag = errors.New("no orientation")
