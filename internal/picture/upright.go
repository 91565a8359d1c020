package picture

import (
	"bytes"
	"encoding/binary"
	"image"
)

// orientation reads how a camera was held from the EXIF data of a JPEG (EXIF
// 2.3, tag 0x0112): 1 to 8, where 1 is upright. What cannot be read is upright.
func orientation(b []byte) int {
	exif, err := exifOf(b)
	if err != nil {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	if bytes.HasPrefix(exif, []byte("MM")) {
		order = binary.BigEndian
	}
	if len(exif) < 8 {
		return 1
	}
	at := int64(order.Uint32(exif[4:]))
	if at+2 > int64(len(exif)) {
		return 1
	}
	n := int64(order.Uint16(exif[at:]))
	for i := range n {
		entry := at + 2 + i*12
		if entry+12 > int64(len(exif)) {
			return 1
		}
		if order.Uint16(exif[entry:]) == 0x0112 {
			if o := int(order.Uint16(exif[entry+8:])); o >= 1 && o <= 8 {
				return o
			}
			return 1
		}
	}
	return 1
}

// exifOf returns the TIFF part of the first APP1 segment with EXIF data.
func exifOf(b []byte) ([]byte, error) {
	for at := 2; at+4 <= len(b) && b[at] == 0xFF; {
		marker, size := b[at+1], int(binary.BigEndian.Uint16(b[at+2:]))
		if marker == 0xDA || size < 2 || at+2+size > len(b) { // the picture itself begins
			return nil, errNoTag
		}
		segment := b[at+4 : at+2+size]
		if rest, ok := bytes.CutPrefix(segment, []byte("Exif\x00\x00")); marker == 0xE1 && ok {
			return rest, nil
		}
		at += 2 + size
	}
	return nil, errNoTag
}

// upright turns and mirrors a picture as its orientation says.
func upright(img image.Image, o int) image.Image {
	if o <= 1 {
		return img
	}
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	if o >= 5 {
		w, h = h, w
	}
	to := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range b.Dy() {
		for x := range b.Dx() {
			var tx, ty int
			switch o {
			case 2:
				tx, ty = b.Dx()-1-x, y
			case 3:
				tx, ty = b.Dx()-1-x, b.Dy()-1-y
			case 4:
				tx, ty = x, b.Dy()-1-y
			case 5:
				tx, ty = y, x
			case 6:
				tx, ty = b.Dy()-1-y, x
			case 7:
				tx, ty = b.Dy()-1-y, b.Dx()-1-x
			case 8:
				tx, ty = y, b.Dx()-1-x
			}
			to.Set(tx, ty, img.At(b.Min.X+x, b.Min.Y+y))
		}
	}
	return to
}
