package argv

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// fields reads one word into the words a shell would make of it, where that
// can be told: an unquoted $IFS splits, $@ and empty substitutions vanish.
func fields(w *syntax.Word) []Word {
	f := fielder{}
	f.cur.Known = true
	for i, part := range w.Parts {
		f.part(part, i == 0, false)
	}
	return append(f.done, f.word())
}

type fielder struct {
	done           []Word
	cur            Word
	text, skeleton strings.Builder
}

func (f *fielder) word() Word {
	w := f.cur
	w.Text, w.Skeleton = f.text.String(), f.skeleton.String()
	return w
}

func (f *fielder) split() {
	if f.text.Len() > 0 {
		f.done = append(f.done, f.word())
	}
	f.cur = Word{Known: true}
	f.text.Reset()
	f.skeleton.Reset()
}

func (f *fielder) write(s string) {
	f.text.WriteString(s)
	f.skeleton.WriteString(s)
}

func (f *fielder) part(part syntax.WordPart, first, quoted bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		f.literal(p.Value, first, quoted)
	case *syntax.SglQuoted:
		if p.Dollar {
			f.write(ansiC(p.Value))
		} else {
			f.write(p.Value)
		}
	case *syntax.DblQuoted:
		for _, inner := range p.Parts {
			f.part(inner, false, true)
		}
	case *syntax.ParamExp:
		f.param(p, quoted)
	case *syntax.CmdSubst:
		if len(p.Stmts) == 0 {
			return
		}
		f.unknown("$(…)")
	case *syntax.ArithmExp:
		f.unknown("$((…))")
	case *syntax.ProcSubst:
		f.unknown("<(…)")
	case *syntax.ExtGlob:
		f.cur.Pattern = true
		f.unknown("@(…)")
	default:
		f.unknown("…")
	}
}

func (f *fielder) unknown(shown string) {
	f.cur.Known = false
	f.text.WriteString(shown)
}

func (f *fielder) param(p *syntax.ParamExp, quoted bool) {
	name := ""
	if p.Param != nil {
		name = p.Param.Value
	}
	switch {
	case name == "IFS" && !quoted && !p.Length:
		f.split()
	case name == "@" || name == "*":
		// Nothing was given to the script, so nothing comes out.
	case p.Exp != nil && p.Exp.Word != nil && defaults(p.Exp.Op):
		// ${x:-word} is word as long as nobody set x.
		f.cur.Known = false
		for i, inner := range p.Exp.Word.Parts {
			f.part(inner, i == 0 && f.text.Len() == 0, quoted)
		}
	default:
		f.unknown("$" + name)
	}
}

func defaults(op syntax.ParExpOperator) bool {
	switch op {
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		return true
	}
	return false
}

func (f *fielder) literal(s string, first, quoted bool) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			next := s[i+1]
			if !quoted || strings.IndexByte("$`\"\\\n", next) >= 0 {
				i++
				if next != '\n' {
					f.write(s[i : i+1])
				}
				continue
			}
		}
		if !quoted && (strings.IndexByte("*?[", c) >= 0 || c == '~' && first && i == 0) {
			f.cur.Pattern = true
		}
		f.write(s[i : i+1])
	}
}
