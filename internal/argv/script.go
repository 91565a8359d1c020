package argv

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// maxDepth bounds strings inside strings: sh -c "sh -c '…'".
const maxDepth = 8

// A Word is one word of a command as far as it can be read without running
// anything.
type Word struct {
	Text     string // quotes removed; an expansion stands as it was written
	Skeleton string // Text without its expansions
	Known    bool   // Text is the word itself: it holds no expansion
	Pattern  bool   // it holds an unquoted glob or tilde
}

// A Command is one simple command that would run.
type Command struct {
	Words []Word // Words[0] is the program; never empty
	Via   string // the wrapper that would start it, such as "env" or "sh -c"
	Dir   string // what a cd before it in the same script asked for, if any
}

// Name is the last element of the program's path, as a person would call it.
// It is "?" where only the shell could tell.
func (c Command) Name() string {
	if !c.Words[0].Known || c.Words[0].Pattern {
		return "?"
	}
	return path.Base(c.Words[0].Text)
}

// A Script is everything Read saw in a string.
type Script struct {
	Commands []Command
	Writes   []Word   // targets of redirections that open for writing
	Bombs    []string // functions that call themselves twice at once
	Complete bool     // the whole string parsed
}

// Read lists every command in s: in lists, pipelines, groups, functions,
// substitutions, here-documents given to a shell, behind wrappers such as env
// and xargs, and in the strings of sh -c and eval. What stands before a syntax
// error is listed as well, since a shell runs line by line.
func Read(s string) Script {
	var out Script
	out.Complete = true
	if len(s) > MaxLength {
		out.Complete = false
		s = s[:MaxLength]
	}
	out.read(s, "", 0)
	return out
}

// ReadArgv is Read for a command that already is an argument vector.
func ReadArgv(words []string) Script {
	out := Script{Complete: true}
	cmd := make([]Word, len(words))
	for i, w := range words {
		cmd[i] = literal(w)
	}
	out.add(Command{Words: cmd}, 0)
	return out
}

// Heads names the program of every command in s, in order and once each.
func Heads(s string) []string {
	var heads []string
	seen := map[string]bool{}
	for _, c := range Read(s).Commands {
		if name := c.Name(); !seen[name] {
			seen[name] = true
			heads = append(heads, name)
		}
	}
	return heads
}

func (out *Script) read(s, via string, depth int) {
	if depth > maxDepth {
		out.Complete = false
		return
	}
	p := syntax.NewParser(syntax.Variant(syntax.LangBash))
	file, err := p.Parse(strings.NewReader(s), "")
	r := reader{out: out, via: via, depth: depth}
	if file != nil {
		for _, st := range file.Stmts {
			r.walk(st)
			for _, fed := range r.fed {
				out.read(fed, "sh", depth+1)
			}
			r.fed = nil
		}
	}
	if err != nil {
		out.Complete = false
		out.guess(s, via, depth)
	}
}

// guess handles a string that does not parse: each piece between the
// characters that could separate commands counts as a command.
func (out *Script) guess(s, via string, depth int) {
	pieces := strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(";&|\n(){}`", r) })
	for _, piece := range pieces {
		clean := strings.NewReplacer(`"`, "", `'`, "", `\`, "").Replace(piece)
		var words []Word
		for _, f := range strings.FieldsFunc(clean, func(r rune) bool { return r == ' ' || r == '\t' }) {
			if len(words) == 0 && (strings.Contains(f, "=") || syntax.IsKeyword(f)) {
				continue
			}
			words = append(words, literal(f))
		}
		if len(words) > 0 {
			out.add(Command{Words: words, Via: via}, depth+1)
		}
	}
}

func literal(s string) Word { return Word{Text: s, Skeleton: s, Known: true} }

// add records c and whatever c would start.
func (out *Script) add(c Command, depth int) {
	out.Commands = append(out.Commands, c)
	if depth > maxDepth {
		out.Complete = false
		return
	}
	name := c.Name()
	if name == "?" {
		name = path.Base(c.Words[0].Skeleton)
	}
	next, scripts := inner(name, c.Words)
	for _, words := range next {
		if len(words) > 0 {
			out.add(Command{Words: words, Via: name, Dir: c.Dir}, depth+1)
		}
	}
	for _, s := range scripts {
		out.read(s, name, depth+1)
	}
}

// reader walks one parsed statement after the other.
type reader struct {
	out   *Script
	via   string
	depth int
	dir   string   // where the last cd led, from the script's start
	fed   []string // scripts given to a shell on its standard input
}

func (r *reader) walk(node syntax.Node) {
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			r.statement(n)
		case *syntax.CallExpr:
			r.call(n)
		case *syntax.FuncDecl:
			if n.Name != nil && bomb(n.Name.Value, n.Body) {
				r.out.Bombs = append(r.out.Bombs, n.Name.Value)
			}
		case *syntax.BinaryCmd:
			r.piped(n)
		}
		return true
	})
}

func (r *reader) statement(st *syntax.Stmt) {
	for _, rd := range st.Redirs {
		switch rd.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.DplOut, syntax.RdrClob,
			syntax.RdrAll, syntax.RdrAllClob, syntax.AppAll, syntax.AppAllClob, syntax.AppClob:
			r.out.Writes = append(r.out.Writes, r.words(rd.Word)...)
		case syntax.WordHdoc:
			r.feed(st.Cmd, rd.Word)
		case syntax.Hdoc, syntax.DashHdoc:
			r.feed(st.Cmd, rd.Hdoc)
		}
	}
}

// feed reads a here-document or a literal piped into a shell as a script.
func (r *reader) feed(cmd syntax.Command, body *syntax.Word) {
	call, ok := cmd.(*syntax.CallExpr)
	if !ok || body == nil {
		return
	}
	args := r.args(call)
	if len(args) == 0 || !shells[path.Base(args[0].Skeleton)] {
		return
	}
	for _, w := range r.words(body) {
		r.fed = append(r.fed, w.Text)
	}
}

// piped looks at echo "…" | sh, and at a here-document piped there.
func (r *reader) piped(b *syntax.BinaryCmd) {
	if b.Op != syntax.Pipe && b.Op != syntax.PipeAll {
		return
	}
	from, ok := b.X.Cmd.(*syntax.CallExpr)
	if !ok {
		return
	}
	to, ok := b.Y.Cmd.(*syntax.CallExpr)
	if !ok {
		return
	}
	src, dst := r.args(from), r.args(to)
	if len(src) == 0 || len(dst) == 0 || !shells[path.Base(dst[0].Skeleton)] {
		return
	}
	for _, rd := range b.X.Redirs {
		if rd.Hdoc != nil {
			for _, w := range r.words(rd.Hdoc) {
				r.fed = append(r.fed, w.Text)
			}
		}
	}
	if name := src[0].Text; name != "echo" && name != "printf" {
		return
	}
	texts := make([]string, 0, len(src))
	for _, w := range src[1:] {
		if !strings.HasPrefix(w.Text, "-") {
			texts = append(texts, w.Text)
		}
	}
	r.fed = append(r.fed, strings.Join(texts, " "))
}

func (r *reader) call(c *syntax.CallExpr) {
	words := r.args(c)
	if len(words) == 0 {
		return
	}
	r.out.add(Command{Words: words, Via: r.via, Dir: r.dir}, r.depth)
	if words[0].Text == "cd" && len(words) == 2 && words[1].Known {
		if path.IsAbs(words[1].Text) {
			r.dir = path.Clean(words[1].Text)
		} else {
			r.dir = path.Join(r.dir, words[1].Text)
		}
	}
}

func (r *reader) args(c *syntax.CallExpr) []Word {
	var words []Word
	for _, a := range c.Args {
		words = append(words, r.words(a)...)
	}
	return words
}

// words reads one syntax word; braces and $IFS can make several of it.
func (r *reader) words(w *syntax.Word) []Word {
	if w == nil {
		return nil
	}
	var out []Word
	for _, b := range braces(w) {
		out = append(out, fields(b)...)
	}
	return out
}

// braces expands {a,b} unless that would make very many words.
func braces(w *syntax.Word) []*syntax.Word {
	lits := 0
	for _, p := range w.Parts {
		if l, ok := p.(*syntax.Lit); ok {
			lits += strings.Count(l.Value, "{") + strings.Count(l.Value, "..")
		}
	}
	if lits == 0 || lits > 4 {
		return []*syntax.Word{w}
	}
	split := &syntax.Word{Parts: append([]syntax.WordPart(nil), w.Parts...)}
	if !syntax.SplitBraces(split) {
		return []*syntax.Word{w}
	}
	for _, p := range split.Parts {
		if b, ok := p.(*syntax.BraceExp); ok && b.Sequence {
			return []*syntax.Word{w} // {1..9}: long, and names nothing that could run
		}
	}
	var out []*syntax.Word
	for word, err := range expand.BracesSeq(nil, split) {
		if err != nil {
			return []*syntax.Word{w}
		}
		out = append(out, word)
	}
	return out
}

func bomb(name string, body *syntax.Stmt) bool {
	calls := func(n syntax.Node) bool {
		found := false
		syntax.Walk(n, func(n syntax.Node) bool {
			if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 && c.Args[0].Lit() == name {
				found = true
			}
			return !found
		})
		return found
	}
	found := false
	syntax.Walk(body, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.BinaryCmd:
			pipe := n.Op == syntax.Pipe || n.Op == syntax.PipeAll
			if (pipe || n.X.Background) && calls(n.X) && calls(n.Y) {
				found = true
			}
		case *syntax.Stmt:
			if n.Background && calls(n) {
				found = true
			}
		}
		return !found
	})
	return found
}
