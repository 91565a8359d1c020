package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// photo is a JPEG whose left half is red, with a camera's data in it.
func photo(t *testing.T, w, h, orientation int) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			img.Set(x, y, map[bool]color.Color{true: color.RGBA{255, 0, 0, 255}, false: color.RGBA{0, 0, 255, 255}}[x < w/2])
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	tiff := []byte("II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00")
	tiff = binary.LittleEndian.AppendUint16(tiff, uint16(orientation))
	tiff = append(tiff, "\x00\x00\x00\x00\x00\x00GPS 48.2N 16.3E"...)
	segment := append([]byte("Exif\x00\x00"), tiff...)
	head := binary.BigEndian.AppendUint16([]byte{0xFF, 0xD8, 0xFF, 0xE1}, uint16(len(segment)+2))
	return append(append(head, segment...), b.Bytes()[2:]...)
}

func TestAPhotoIsMadeSmallUprightAndTellsNoPlace(t *testing.T) {
	in := photo(t, 4000, 2000, 6) // held so that the left side is up
	out, media, err := Fit(in)
	if err != nil || media != "image/jpeg" {
		t.Fatal(media, err)
	}
	if bytes.Contains(out, []byte("GPS")) || bytes.Contains(out, []byte("Exif")) {
		t.Error("the camera's data are still there")
	}
	img, _, err := image.Decode(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != MaxEdge/2 || b.Dy() != MaxEdge {
		t.Errorf("size %v", b)
	}
	r, _, blue, _ := img.At(img.Bounds().Dx()/2, 10).RGBA()
	if r < 0xC000 || blue > 0x4000 {
		t.Errorf("the upper part is %x red and %x blue", r, blue)
	}
	for o := range 10 {
		if _, _, err := Fit(photo(t, 40, 20, o)); err != nil {
			t.Errorf("orientation %d: %v", o, err)
		}
	}
}

func TestTransparencyAndSmallGraphicsStayPNG(t *testing.T) {
	img := image.NewNRGBA(image.Rect(0, 0, 30, 20))
	img.Set(3, 3, color.NRGBA{0, 255, 0, 255})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	out, media, err := Fit(b.Bytes())
	if err != nil || media != "image/png" {
		t.Fatal(media, err)
	}
	again, err := png.Decode(bytes.NewReader(out))
	if _, _, _, a := again.At(0, 0).RGBA(); err != nil || a != 0 {
		t.Errorf("%v, alpha %d", err, a)
	}
	b.Reset()
	if err := gif.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	if _, media, err := Fit(b.Bytes()); err != nil || media != "image/png" {
		t.Error(media, err)
	}
}

func TestWhatIsNoPictureOrTooLargeIsRefused(t *testing.T) {
	huge := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x01\x00\x00\x00\x01\x00\x00\x08\x06\x00\x00\x00")
	huge = append(huge, 0x72, 0x9b, 0x1e, 0x5c) // a wrong sum is no matter: the size is looked at first
	for in, want := range map[string]string{"text": "no picture", "": "no picture", string(photo(t, 400, 400, 1)[:900]): "picture", string(make([]byte, MaxBytes+1)): "the limit is 20"} {
		if _, _, err := Fit([]byte(in)); mercury.KindOf(err) != mercury.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", in, err, want)
		}
	}
	if _, _, err := Fit(huge); mercury.KindOf(err) != mercury.Invalid {
		t.Errorf("a huge one: %v", err)
	}
}

func FuzzFit(f *testing.F) {
	f.Add([]byte("\xFF\xD8\xFF\xE1\x00\x10Exif\x00\x00MM\x00*\x00\x00\x00\x08"))
	f.Fuzz(func(t *testing.T, b []byte) {
		orientation(b)
		if c, _, err := image.DecodeConfig(bytes.NewReader(b)); err == nil && c.Width*c.Height > 1<<20 {
			return // slow, and bounded by its own limit
		}
		if _, _, err := Fit(b); err != nil && mercury.KindOf(err) != mercury.Invalid {
			t.Errorf("%v", err)
		}
	})
}
