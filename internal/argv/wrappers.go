package argv

import (
	"strings"
)

// A wrapper is a program that starts another one named in its arguments.
type wrapper struct {
	valued   string // short options that take a value
	long     string // long options that take a value in the next word
	operands int    // words of its own before the other command
	assigns  bool   // NAME=value words may come first
	scripts  string // short options whose value is a shell string
}

// wrappers are the programs Read looks behind, with as much of their options
// as is needed to find where the other command begins.
var wrappers = map[string]wrapper{
	"env":              {valued: "uCPS", long: "unset chdir split-string", assigns: true, scripts: "S"},
	"nice":             {valued: "n", long: "adjustment"},
	"ionice":           {valued: "cnpPu", long: "class classdata"},
	"chrt":             {valued: "TPD", operands: 1},
	"taskset":          {operands: 1},
	"nohup":            {},
	"setsid":           {},
	"timeout":          {valued: "ks", long: "kill-after signal", operands: 1},
	"stdbuf":           {valued: "ioe", long: "input output error"},
	"time":             {valued: "fo", long: "format output"},
	"xargs":            {valued: "adEILnPs", long: "arg-file delimiter max-args max-procs max-chars"},
	"parallel":         {valued: "jaIN", long: "jobs arg-file"},
	"watch":            {valued: "nq", long: "interval equexit"},
	"command":          {},
	"builtin":          {},
	"exec":             {valued: "a"},
	"noglob":           {},
	"nocorrect":        {},
	"strace":           {valued: "aeEoOpPsSuUXbI"},
	"ltrace":           {valued: "aAeElnopsuxX"},
	"script":           {valued: "cIOEBmTo", long: "command", scripts: "c"},
	"flock":            {valued: "wEc", long: "timeout wait conflict-exit-code command", operands: 1, scripts: "c"},
	"unshare":          {valued: "RwSG", long: "root wd setuid setgid"},
	"nsenter":          {valued: "tSGrw", long: "target setuid setgid"},
	"chroot":           {long: "userspec groups", operands: 1},
	"fakeroot":         {valued: "lsib"},
	"runuser":          {valued: "ugGcs", scripts: "c"},
	"setpriv":          {long: "reuid regid groups"},
	"sg":               {valued: "c", operands: 1, scripts: "c"},
	"gosu":             {operands: 1},
	"su-exec":          {operands: 1},
	"capsh":            {},
	"prlimit":          {valued: "p"},
	"numactl":          {valued: "iNCmpl"},
	"setarch":          {},
	"linux32":          {},
	"linux64":          {},
	"systemd-run":      {valued: "puMHtECG", long: "unit property description slice uid gid setenv working-directory"},
	"systemd-inhibit":  {long: "what who why mode"},
	"caffeinate":       {valued: "tw"},
	"busybox":          {},
	"toybox":           {},
	"unbuffer":         {},
	"chronic":          {},
	"rlwrap":           {valued: "aCDfHlPSs"},
	"xvfb-run":         {valued: "efnps", long: "server-args"},
	"dbus-run-session": {},
	"dbus-launch":      {},
	"torsocks":         {},
	"proxychains":      {valued: "f"},
	"proxychains4":     {valued: "f"},
	"valgrind":         {},
	"firejail":         {},
	"entr":             {},
	"ts":               {},
	"tsp":              {},
	"start":            {},
}

// shells run the string after -c, and what they are fed.
var shells = map[string]bool{
	"sh": true, "bash": true, "dash": true, "zsh": true, "ksh": true, "mksh": true, "ash": true,
	"rbash": true, "yash": true, "fish": true,
}

// inner returns what the command name would itself start: argument vectors,
// and strings for a shell.
func inner(name string, words []Word) (next [][]Word, scripts []string) {
	switch {
	case shells[name]:
		return nil, shellStrings(words)
	case name == "eval":
		return nil, []string{join(words[1:])}
	case name == "trap":
		if len(words) > 1 {
			return nil, []string{words[1].Text}
		}
		return nil, nil
	case name == "find":
		return findActions(words), nil
	case name == "command" && asksOnly(words):
		return nil, nil
	}
	w, ok := wrappers[name]
	if !ok {
		return nil, nil
	}
	i, scripts := w.skip(words)
	i += w.operands
	if i >= len(words) {
		return nil, scripts
	}
	rest := words[i:]
	if len(rest) > 1 && rest[0].Text == "-c" && w.scripts != "" {
		return nil, append(scripts, rest[1].Text) // flock FILE -c "…"
	}
	if name == "watch" || name == "parallel" || name == "ts" {
		scripts = append(scripts, join(rest)) // these give the words to a shell
	}
	return [][]Word{rest}, scripts
}

// skip returns the index of the first word that is no option of the wrapper,
// and the shell strings among its option values.
func (w wrapper) skip(words []Word) (int, []string) {
	var scripts []string
	i := 1
	for i < len(words) {
		s := words[i].Text
		switch {
		case s == "--":
			return i + 1, scripts
		case strings.HasPrefix(s, "--"):
			name, value, glued := strings.Cut(s[2:], "=")
			takes := contains(w.long, name)
			if takes && !glued && i+1 < len(words) {
				i++
				value = words[i].Text
			}
			if takes && (name == "split-string" || name == "command") {
				scripts = append(scripts, value)
			}
		case len(s) > 1 && s[0] == '-':
			at := strings.IndexAny(s[1:], w.valued)
			if w.valued == "" || at < 0 {
				break
			}
			value := s[at+2:]
			if value == "" && i+1 < len(words) {
				i++
				value = words[i].Text
			}
			if strings.IndexByte(w.scripts, s[at+1]) >= 0 {
				scripts = append(scripts, value)
			}
		case s == "-": // env - …
		case w.assigns && strings.Contains(s, "="):
		default:
			return i, scripts
		}
		i++
	}
	return i, scripts
}

// shellStrings finds the string of sh -c, also in a cluster such as -lc.
func shellStrings(words []Word) []string {
	wants := false
	for i := 1; i < len(words); i++ {
		s := words[i].Text
		switch {
		case s == "--":
			if wants && i+1 < len(words) {
				return []string{words[i+1].Text}
			}
			return nil
		case strings.HasPrefix(s, "--"):
			if name := strings.TrimPrefix(s, "--"); name == "rcfile" || name == "init-file" {
				i++
			}
			if name, value, ok := strings.Cut(s, "="); ok && name == "--command" {
				return []string{value}
			}
		case len(s) > 1 && (s[0] == '-' || s[0] == '+'):
			wants = wants || s[0] == '-' && strings.Contains(s, "c")
			if last := s[len(s)-1]; last == 'o' || last == 'O' {
				i++
			}
		default:
			if wants {
				return []string{s}
			}
			return nil
		}
	}
	return nil
}

func findActions(words []Word) (next [][]Word) {
	for i := 1; i < len(words); i++ {
		switch words[i].Text {
		case "-exec", "-execdir", "-ok", "-okdir":
			end := i + 1
			for end < len(words) && words[end].Text != ";" && words[end].Text != "+" {
				end++
			}
			next = append(next, words[i+1:end])
			i = end
		}
	}
	return next
}

// asksOnly recognises command -v, which prints and starts nothing.
func asksOnly(words []Word) bool {
	for _, w := range words[1:] {
		if !strings.HasPrefix(w.Text, "-") {
			return false
		}
		if strings.ContainsAny(w.Text, "vV") {
			return true
		}
	}
	return false
}

func join(words []Word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.Text
	}
	return strings.Join(texts, " ")
}

func contains(list, name string) bool {
	for _, f := range strings.Fields(list) {
		if f == name {
			return true
		}
	}
	return false
}
