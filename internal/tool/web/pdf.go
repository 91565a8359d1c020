package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"regexp"

	"github.com/mercury-agent/mercury/internal/mercury"
)

var pageObject = regexp.MustCompile(`/Type\s*/Page[^s\w]`)

// pdf describes a document. Its text is not taken out: fonts say by tables of
// their own which letters they draw, and a file of somebody else is no good
// place to follow them.
func (f *fetcher) pdf(ctx context.Context, p page, w io.Writer) error {
	return f.turn(ctx, p.body.size, func() error {
		b, err := p.body.all()
		if err != nil {
			return err
		}
		about := fmt.Sprintf("A PDF, %s", p.sizeText())
		if n := len(pageObject.FindAll(b, -1)); n > 0 && !p.cut {
			about += ", " + mercury.Count(n, "page", "pages")
		}
		if bytes.Contains(b, []byte("/Encrypt")) {
			about += ", encrypted"
		}
		_, err = fmt.Fprintf(w, "%s. Its text is not shown.\n", about)
		return err
	})
}
