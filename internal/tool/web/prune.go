package web

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html"
)

// Bounds of a page before it is parsed. A parsed page is a hundred times as
// large as its tags, so these hold memory and time whatever a page consists
// of. A model is shown 50 KB.
const (
	slimMax  = 384 << 10
	tagsMax  = 10_000
	valueMax = 2 << 10 // bytes of one attribute
	nestMax  = 16      // lists, quotes and tables in each other: each indents all it holds
	spanMax  = 100     // columns or rows of one cell
	cellsMax = 20_000  // that all cells which span others cover together
)

// mute are elements that say nothing a reader could use.
var mute = set("script style noscript svg math iframe template object embed canvas audio video map applet frameset noframes noembed select")

// nested are the elements whose text is indented.
var nested = set("blockquote ul ol table dl")

// kept are the attributes that reading needs: links, tables, languages, and
// what tells an article from what stands around it.
var kept = set("href src alt title class id colspan rowspan align lang dir datetime name property content rel itemprop role hidden aria-hidden style start type")

func set(list string) map[string]bool {
	m := map[string]bool{}
	for _, f := range strings.Fields(list) {
		m[f] = true
	}
	return m
}

// prune copies a page without what is not read, its links made whole. cut
// reports that it has more than can be taken.
func prune(r io.Reader, at *url.URL) (slim []byte, cut bool, err error) {
	var out bytes.Buffer
	z := html.NewTokenizer(r)
	z.SetMaxBuf(bodyMax + 1)
	skipping, depth, tags := "", 0, 0
	base := at
	cells, nest := cellsMax, 0
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return nil, false, err
			}
			return out.Bytes(), false, nil
		}
		if out.Len() > slimMax {
			return out.Bytes(), true, nil
		}
		if skipping != "" {
			name, _ := z.TagName()
			switch {
			case string(name) != skipping:
			case kind == html.StartTagToken:
				depth++
			case kind == html.EndTagToken:
				if depth--; depth == 0 {
					skipping = ""
				}
			}
			continue
		}
		switch kind {
		case html.TextToken:
			raw := z.Raw()
			out.Write(raw[:min(len(raw), slimMax)])
		case html.EndTagToken:
			name, _ := z.TagName()
			if nested[string(name)] && nest > 0 {
				nest--
			}
			out.WriteString("</")
			out.Write(name)
			out.WriteByte('>')
		case html.StartTagToken, html.SelfClosingTagToken:
			if tags++; tags > tagsMax {
				return out.Bytes(), true, nil
			}
			t := z.Token()
			if mute[t.Data] {
				if kind == html.StartTagToken && t.Data != "embed" {
					skipping, depth = t.Data, 1
				}
				continue
			}
			if t.Data == "base" {
				base = rebase(at, t)
				continue
			}
			if nested[t.Data] && kind == html.StartTagToken {
				if nest >= nestMax {
					continue
				}
				nest++
			}
			t.Attr = keep(t.Attr, base)
			if t.Attr, cells = spans(t.Attr, cells); cells < 0 {
				return out.Bytes(), true, nil
			}
			out.WriteString(t.String())
		}
	}
}

func rebase(at *url.URL, t html.Token) *url.URL {
	for _, a := range t.Attr {
		if u, err := at.Parse(strings.TrimSpace(a.Val)); a.Key == "href" && err == nil {
			return u
		}
	}
	return at
}

// keep leaves the attributes that matter, with whole links.
func keep(attrs []html.Attribute, base *url.URL) []html.Attribute {
	out := attrs[:0]
	for _, a := range attrs {
		if !kept[a.Key] || len(a.Val) > valueMax {
			continue
		}
		if a.Key == "href" || a.Key == "src" {
			u, err := base.Parse(strings.TrimSpace(a.Val))
			if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
				continue
			}
			a.Val = u.String()
		}
		out = append(out, a)
	}
	return out
}

// spans takes what a cell covers from the cells that are left, and drops spans
// that no honest table has: a table is drawn cell by cell.
func spans(attrs []html.Attribute, left int) ([]html.Attribute, int) {
	area := 1
	out := attrs[:0]
	for _, a := range attrs {
		if a.Key == "colspan" || a.Key == "rowspan" {
			n, err := strconv.Atoi(strings.TrimSpace(a.Val))
			if err != nil || n < 1 || n > spanMax {
				continue
			}
			area *= n
		}
		out = append(out, a)
	}
	if area > 1 {
		left -= area
	}
	return out, left
}
