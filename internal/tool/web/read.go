package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"io"
	"mime"
	"net/http"
	"strings"

	"golang.org/x/net/html/charset"
)

// mediaType is what a body is: as the server says, or by its first bytes when
// the server is silent or says no more than that it is bytes.
func mediaType(header string, head []byte) (media, set string) {
	media, params, err := mime.ParseMediaType(header)
	media = strings.ToLower(media)
	if err != nil || media == "" || media == "application/octet-stream" || media == "binary/octet-stream" {
		media, params, _ = mime.ParseMediaType(http.DetectContentType(head))
		delete(params, "charset") // a guess; the text itself may say more
	}
	if bytes.HasPrefix(head, []byte("%PDF-")) {
		media = "application/pdf"
	}
	return media, params["charset"]
}

// read writes what is to be read of p.
func (f *fetcher) read(ctx context.Context, p page, raw bool, w io.Writer) error {
	if p.body.size == 0 {
		_, err := io.WriteString(w, "(the body is empty)\n")
		return err
	}
	kind := p.mediaType
	switch {
	case !raw && (kind == "text/html" || kind == "application/xhtml+xml"):
		return f.html(ctx, p, w)
	case !raw && (kind == "application/json" || strings.HasSuffix(kind, "+json")) && !p.cut && p.body.size <= jsonMax:
		return f.json(ctx, p, w)
	case textual(kind):
		return f.turn(ctx, heldMax, func() error { return p.plain(w) })
	case kind == "application/pdf":
		return f.pdf(ctx, p, w)
	case strings.HasPrefix(kind, "image/"):
		return p.image(w)
	}
	_, err := fmt.Fprintf(w, "A file of type %s, %s. It is not text, so nothing of it is shown.\n", kind, p.sizeText())
	return err
}

func textual(kind string) bool {
	if strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+xml") || strings.HasSuffix(kind, "+yaml") || strings.HasSuffix(kind, "+json") {
		return true
	}
	switch kind {
	case "application/json", "application/xhtml+xml", "application/xml", "application/javascript", "application/x-javascript", "application/ecmascript", "application/yaml",
		"application/x-yaml", "application/toml", "application/x-sh", "application/sql", "application/graphql",
		"application/x-ndjson", "application/jsonl", "application/x-www-form-urlencoded", "application/x-httpd-php":
		return true
	}
	return false
}

// text is the body as UTF-8.
func (p page) text() (io.Reader, error) {
	body, err := p.body.reader()
	if err != nil {
		return nil, err
	}
	label := p.mediaType
	if p.charset != "" {
		label = mime.FormatMediaType(p.mediaType, map[string]string{"charset": p.charset})
	}
	// Without a word from the server or the text the decoder takes
	// Windows-1252, as browsers do; but most text today is UTF-8.
	encoding, name, sure := charset.DetermineEncoding(p.body.head(), label)
	if !sure && name == "windows-1252" && utf8ish(p.body.head()) {
		return body, nil
	}
	return encoding.NewDecoder().Reader(body), nil
}

// plain writes the body as it is.
func (p page) plain(w io.Writer) error {
	r, err := p.text()
	if err != nil {
		return err
	}
	if _, err := io.Copy(w, r); err != nil {
		return fmt.Errorf("read the text: %w", err)
	}
	return p.sayCut(w)
}

func (p page) sayCut(w io.Writer) error {
	if !p.cut {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n(only the first %s arrived or were taken)\n", size(p.body.size))
	return err
}

// jsonMax bounds the JSON that is written with indents. Deeply nested JSON
// grows far beyond its size, so indentedMax bounds what it becomes.
const (
	jsonMax     = 256 << 10
	indentedMax = 4 * jsonMax
)

// json writes JSON with indents where that is affordable.
func (f *fetcher) json(ctx context.Context, p page, w io.Writer) error {
	return f.turn(ctx, p.body.size, func() error {
		b, err := p.body.all()
		if err != nil {
			return err
		}
		if indented(b) > indentedMax || !json.Valid(b) {
			return p.plain(w)
		}
		var out bytes.Buffer
		if err := json.Indent(&out, b, "", "  "); err != nil {
			return p.plain(w)
		}
		_, err = w.Write(out.Bytes())
		return err
	})
}

// indented is how long b may get with indents, at most.
func indented(b []byte) int {
	depth, deepest, breaks := 0, 0, 0
	for _, c := range b {
		switch c {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
			breaks++
		case '}', ']':
			depth--
			breaks++
		case ',':
			breaks++
		}
	}
	return len(b) + breaks*(2+2*deepest)
}

// turn runs fn when there is room for a body of the given size among those
// that are made readable.
func (f *fetcher) turn(ctx context.Context, size int64, fn func() error) error {
	share := min(max(size, readableMax/16), readableMax)
	if err := f.readable.Acquire(ctx, share); err != nil {
		return err
	}
	defer f.readable.Release(share)
	return fn()
}

// image describes a picture without decoding it.
func (p page) image(w io.Writer) error {
	about := fmt.Sprintf("A picture of type %s, %s", p.mediaType, p.sizeText())
	if c, _, err := image.DecodeConfig(bytes.NewReader(p.body.head())); err == nil {
		about += fmt.Sprintf(", %d × %d pixels", c.Width, c.Height)
	}
	_, err := io.WriteString(w, about+".\n")
	return err
}

// sizeText says how large the file is, as far as that is known.
func (p page) sizeText() string {
	switch {
	case p.length > 0:
		return size(p.length)
	case p.cut:
		return "more than " + size(p.body.size)
	}
	return size(p.body.size)
}

// size says a number of bytes for a reader.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}

// utf8ish reports whether b is the beginning of a UTF-8 text, cut anywhere.
func utf8ish(b []byte) bool {
	return len(bytes.ToValidUTF8(b, nil)) >= len(b)-3
}
