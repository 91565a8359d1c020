package permission

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mercury-agent/mercury/internal/argv"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// hash binds an approval to what the accesses meant when it was asked for:
// when a link, a program or a file that is read leads elsewhere by the time of
// the call, it is another question.
func (d Decision) hash(q Question) string {
	text := make([]byte, 0, 4096)
	add := func(parts ...string) {
		for _, p := range parts {
			// The length stands first, so that no two lists read alike.
			text = strconv.AppendInt(text, int64(len(p)), 10)
			text = append(text, ':')
			text = append(text, p...)
		}
	}
	add(q.Tool, string(q.Mandate.Actor.Role), q.Mandate.Actor.ID, q.Mandate.Actor.Channel)
	for _, a := range q.Accesses {
		add("access", string(a.Kind), a.Target, a.Dir, a.Detail)
		add(a.Argv...)
		if a.Kind == mercury.RunCommand && d.Verdict == mercury.Ask {
			add(startedFiles(look(a, q.Dir))...)
		}
	}
	for _, c := range d.Commands {
		add("command", c.Path, c.Dir, c.Builtin, fmt.Sprint(c.Shell, c.Fence, len(c.Args)))
		add(c.Args...)
		add(c.Env...)
	}
	for _, p := range d.Places {
		add("place", p.Path)
		if p.Info != nil && onlyRead(q.Accesses, p) {
			add(identityOf(p.Info))
		}
	}
	for _, t := range d.Targets {
		add("target", t.URL) // addresses change from one look-up to the next
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// onlyRead reports whether no access of the call changes the file: each change
// makes it another file, and one call's must not undo the approval of the next.
func onlyRead(accesses []mercury.Access, p Place) bool {
	for _, a := range accesses {
		if a.Kind == mercury.WritePath && (a.Target == p.Path || !filepath.IsAbs(a.Target)) {
			return false
		}
	}
	return true
}

// interpreters run the file that is their first operand.
var interpreters = words(`sh bash dash zsh ksh fish python python2 python3 node deno bun ruby perl php lua Rscript osascript pwsh source .`)

// startedFiles are the files a command would start, as far as its words say:
// programs named by a path, and scripts given to an interpreter. Each stands
// with what tells its content from another's.
func startedFiles(c command) (files []string) {
	note := func(dir string, w argv.Word) {
		if !w.Known || w.Text == "" {
			return
		}
		name := w.Text
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
			files = append(files, name, identityOf(info), fmt.Sprint(info.Size(), info.ModTime().UnixNano()))
		}
	}
	for _, cmd := range c.script.Commands {
		dir := c.dir
		if cmd.Dir != "" {
			dir = resolveText(cmd.Dir, c.dir)
		}
		if strings.Contains(cmd.Words[0].Text, "/") {
			note(dir, cmd.Words[0])
		}
		if !interpreters[path.Base(cmd.Words[0].Text)] {
			continue
		}
		for _, w := range cmd.Words[1:] {
			if !strings.HasPrefix(w.Text, "-") {
				note(dir, w)
				break
			}
		}
	}
	return files
}
