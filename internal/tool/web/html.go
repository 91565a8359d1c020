package web

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// html writes a page as Markdown: what is worth reading of it where that can
// be told apart, else everything but its menus.
func (f *fetcher) html(ctx context.Context, p page, w io.Writer) error {
	return f.turn(ctx, min(p.body.size, slimMax), func() error {
		r, err := p.text()
		if err != nil {
			return err
		}
		slim, cut, err := prune(r, p.url)
		if err != nil {
			return fmt.Errorf("read the page: %w", err)
		}
		p.cut = p.cut || cut
		title, text := markdown(slim, p.url)
		if title != "" {
			fmt.Fprintf(w, "# %s\n\n", title)
		}
		if strings.TrimSpace(text) == "" {
			text = "(the page holds no text; it may be drawn by a script)"
		}
		if _, err := io.WriteString(w, text+"\n"); err != nil {
			return err
		}
		return p.sayCut(w)
	})
}

// enough is the share of a page's text that its main part must hold to stand
// for the page: a list of links or a forum has no such part.
const enough = 0.3

// markdown turns a slim page into a title and Markdown.
func markdown(slim []byte, at *url.URL) (title, text string) {
	doc, err := html.Parse(bytes.NewReader(slim))
	if err != nil { // nested too deeply to be a page
		return "", words(slim)
	}
	title = titleOf(doc)
	whole := letters(doc)
	parser := readability.NewParser()
	parser.KeepClasses = true // the language of code stands there
	parser.DisableJSONLD = true
	if parser.CheckDocument(doc) {
		article, err := parser.ParseAndMutate(doc, at)
		if err == nil && article.Node != nil && float64(letters(article.Node)) >= enough*float64(whole) {
			if t := strings.TrimSpace(article.Title()); t != "" {
				title = t
			}
			return title, toMarkdown(article.Node)
		}
		if doc, err = html.Parse(bytes.NewReader(slim)); err != nil {
			return title, words(slim)
		}
	}
	drop(doc, menus)
	return title, toMarkdown(doc)
}

// toMarkdown keeps tables: cells in columns, not run together.
func toMarkdown(n *html.Node) string {
	c := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithHeaderPromotion(true), table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal))))
	b, err := c.ConvertNode(n)
	if err != nil {
		return textOf(n)
	}
	return string(bytes.TrimSpace(b))
}

// menus are the parts around what a page says.
var menus = map[atom.Atom]bool{atom.Nav: true, atom.Footer: true, atom.Aside: true, atom.Dialog: true}

func drop(n *html.Node, which map[atom.Atom]bool) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		if c.Type == html.ElementNode && (which[c.DataAtom] || hidden(c)) {
			n.RemoveChild(c)
		} else {
			drop(c, which)
		}
		c = next
	}
}

// hidden reports what a person does not see; a model need not either.
func hidden(n *html.Node) bool {
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			return a.Val == "true"
		case "style":
			s := strings.ToLower(strings.Join(strings.Fields(a.Val), ""))
			if strings.Contains(s, "display:none") || strings.Contains(s, "visibility:hidden") {
				return true
			}
		}
	}
	return false
}

func titleOf(n *html.Node) string {
	if n.Type == html.ElementNode && n.DataAtom == atom.Title {
		return strings.Join(strings.Fields(textOf(n)), " ")
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if t := titleOf(c); t != "" {
			return t
		}
	}
	return ""
}

// letters counts the bytes of text that are no blanks, menus left out.
func letters(n *html.Node) int {
	switch n.Type {
	case html.TextNode:
		total := 0
		for _, f := range strings.Fields(n.Data) {
			total += len(f)
		}
		return total
	case html.ElementNode:
		if menus[n.DataAtom] || n.DataAtom == atom.Head || hidden(n) {
			return 0
		}
	}
	total := 0
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		total += letters(c)
	}
	return total
}

func textOf(n *html.Node) string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
			b.WriteByte(' ')
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(n)
	return b.String()
}

// words is the text of a page that cannot be parsed.
func words(slim []byte) string {
	var b strings.Builder
	z := html.NewTokenizer(bytes.NewReader(slim))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			if t := strings.Join(strings.Fields(string(z.Text())), " "); t != "" {
				b.WriteString(t + "\n")
			}
		}
	}
}
