package permission

import (
	"fmt"
	"path"
	"regexp"
	"runtime"
	"strings"

	"github.com/mercury-agent/mercury/internal/argv"
)

// elevators run another command with more rights. They never run, whoever
// approves: what Mercury may do is what the person's own account may do.
var elevators = words(`sudo sudoedit doas su pkexec run0 gsudo runas visudo`)

// enders stop the machine.
var enders = words(`shutdown reboot halt poweroff`)

// systemEnds are the verbs with which systemd stops the machine.
var systemEnds = words(`reboot poweroff halt kexec soft-reboot`)

// formatters destroy what a disk holds, whatever they are given.
var formatters = regexp.MustCompile(`^(mkfs(\..+)?|mke2fs|newfs.*|mkntfs|mkdosfs)$`)

// diskWriters destroy a disk when it is named to them.
var diskWriters = words(`shred wipefs mkswap blkdiscard sfdisk sgdisk parted tee cp mv install badblocks ddrescue`)

var disk = regexp.MustCompile(`^/dev/((sd|hd|vd|xvd|nvme|mmcblk|dm-|md|loop|nbd|zd|ram|disk|rdisk)[^/]*|(disk|mapper|block|zvol)/.+|mem|kmem|port)$`)

// rootFolders are the folders of which a system consists.
var rootFolders = words(`/bin /boot /dev /etc /home /lib /lib32 /lib64 /libx32 /opt /proc /root /run /sbin /srv /sys /usr /var
	/System /Library /Users /Applications /private /cores /Volumes`)

// blocked looks for what never runs, in no mode and with nobody's approval,
// as far as a parser can see it. dir is the working directory.
func blocked(script argv.Script, dir string) *finding {
	hit := func(rule, format string, args ...any) *finding {
		out := deny("blocked."+rule, fmt.Sprintf(format, args...))
		return &out
	}
	if len(script.Bombs) > 0 {
		return hit("bomb", "the function %s starts itself without end", shown(script.Bombs[0]))
	}
	for _, w := range script.Writes {
		if where := path.Clean(w.Text); isDisk(where) || where == "/proc/sysrq-trigger" {
			return hit("disk", "it writes to %s", shown(where))
		}
	}
	for _, c := range script.Commands {
		for _, name := range programNames(c.Words[0]) {
			if elevators[name] {
				return hit("privilege", "%s runs commands with more rights, which Mercury never does", name)
			}
			if enders[name] || (name == "init" || name == "telinit") && hasAny(c.Words, "0", "6") ||
				(name == "systemctl" || name == "loginctl") && verb(c.Words) {
				return hit("power", "%s stops the machine", name)
			}
			if out := destroys(name, c, dir); out != "" {
				return hit("destroy", "%s", out)
			}
		}
	}
	return nil
}

// programNames are the names a head could have: as written, and without the
// parts only the shell knows.
func programNames(w argv.Word) []string {
	names := []string{path.Base(w.Text)}
	if !w.Known {
		names = append(names, path.Base(w.Skeleton))
	}
	for i, n := range names {
		if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
			n = strings.ToLower(n)
		}
		names[i] = strings.TrimSuffix(n, ".exe")
	}
	return names
}

func hasAny(list []argv.Word, texts ...string) bool {
	for _, w := range list[1:] {
		for _, t := range texts {
			if w.Text == t {
				return true
			}
		}
	}
	return false
}

func verb(list []argv.Word) bool {
	for _, w := range list[1:] {
		if !strings.HasPrefix(w.Text, "-") {
			return systemEnds[w.Text]
		}
	}
	return false
}

// destroys says what the command would destroy, or nothing.
func destroys(name string, c argv.Command, dir string) string {
	base := dir
	if c.Dir != "" {
		base = resolveText(c.Dir, dir)
	}
	flags, operands := splitOperands(c.Words)
	switch {
	case formatters.MatchString(name):
		return name + " formats a disk"
	case name == "format" && len(operands) > 0 && len(operands[0].Text) == 2 && operands[0].Text[1] == ':':
		return "format formats a disk"
	case name == "dd":
		for _, w := range c.Words[1:] {
			if target, ok := strings.CutPrefix(w.Text, "of="); ok && isDisk(path.Clean(target)) {
				return "dd writes to " + shown(target)
			}
		}
	case name == "rm" && recursive(flags):
		for _, w := range operands {
			if what := wholeSystem(w, base); what != "" {
				return "rm would delete " + what
			}
		}
	case name == "chmod" || name == "chown" || name == "chgrp":
		for i, w := range operands {
			what := wholeSystem(w, base)
			if i > 0 && what != "" && (recursive(flags) || resolveText(w.Text, base) == "/") {
				return name + " would change " + what
			}
		}
	case name == "find":
		return findDestroys(c.Words, base)
	case name == "kill":
		for _, w := range c.Words[1:] {
			if w.Text == "1" || w.Text == "-1" && w.Text != c.Words[1].Text {
				return "kill would end every process"
			}
		}
	case diskWriters[name]:
		for i, w := range operands {
			last := i == len(operands)-1
			reads := (name == "cp" || name == "install" || name == "ddrescue") && !last
			if !reads && isDisk(path.Clean(w.Text)) {
				return name + " writes to " + shown(w.Text)
			}
		}
	}
	return ""
}

func isDisk(p string) bool { return disk.MatchString(p) }

func splitOperands(list []argv.Word) (flags, operands []argv.Word) {
	for i, w := range list[1:] {
		if w.Text == "--" {
			return flags, append(operands, list[i+2:]...)
		}
		if len(w.Text) > 1 && w.Text[0] == '-' {
			flags = append(flags, w)
		} else {
			operands = append(operands, w)
		}
	}
	return flags, operands
}

func recursive(flags []argv.Word) bool {
	for _, f := range flags {
		if strings.HasPrefix(f.Text, "--") {
			if len(f.Text) > 3 && strings.HasPrefix("--recursive", f.Text) {
				return true
			}
		} else if strings.ContainsAny(f.Text, "rR") {
			return true
		}
	}
	return false
}

// wholeSystem says which of the folders that make a system or a home w means.
func wholeSystem(w argv.Word, dir string) string {
	text := strings.ReplaceAll(w.Text, "${HOME}", "$HOME")
	trimmed := strings.TrimRight(text, "/")
	switch trimmed {
	case "~", "$HOME", "~/*", "$HOME/*", "~/.", "$HOME/.", "~/.*", "$HOME/.*":
		return "the whole home"
	}
	if !w.Known || strings.HasPrefix(text, "~") {
		return ""
	}
	target := resolveText(text, dir)
	switch {
	case target == "/":
		return "the whole system"
	case rootFolders[target]:
		return target
	case w.Pattern && path.Dir(target) == "/":
		return "the folders of the system"
	case w.Pattern && rootFolders[path.Dir(target)] && strings.Trim(path.Base(target), "*.?") == "":
		return "everything in " + path.Dir(target)
	}
	return ""
}

// resolveText is text as an absolute path, without looking at any link.
func resolveText(text, dir string) string {
	if !strings.HasPrefix(text, "/") {
		text = dir + "/" + text
	}
	return path.Clean(text)
}

func findDestroys(list []argv.Word, dir string) string {
	deletes := false
	for i, w := range list {
		switch w.Text {
		case "-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-newer", "-mtime", "-mmin", "-size", "-user":
			return "" // a search with a purpose: a person decides
		}
		deletes = deletes || w.Text == "-delete"
		if strings.HasPrefix(w.Text, "-exec") && i+1 < len(list) && path.Base(list[i+1].Text) == "rm" {
			deletes = true
		}
	}
	if !deletes {
		return ""
	}
	for _, w := range list[1:] {
		if strings.HasPrefix(w.Text, "-") {
			break
		}
		if w.Known && resolveText(w.Text, dir) == "/" {
			return "find would delete from the whole system"
		}
	}
	return ""
}

// ownHome refuses commands that name Mercury's own folder, as far as their
// words tell: it is hidden from every command, and a fence may be missing.
func (f Files) ownHome(script argv.Script, dir string) *finding {
	if f.Home == "" {
		return nil
	}
	names := func(w argv.Word) bool {
		text := w.Text
		if f.User != "" {
			if rest, ok := strings.CutPrefix(text, "~"); ok && (rest == "" || rest[0] == '/') {
				text = f.User + rest
			}
			text = strings.ReplaceAll(text, "$HOME", f.User)
		}
		for _, part := range append(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("=:, '\"", r) }), text) {
			if full := resolveText(part, dir); full == f.Home || strings.HasPrefix(full, f.Home+"/") {
				return true
			}
		}
		return false
	}
	words := append([]argv.Word(nil), script.Writes...)
	for _, c := range script.Commands {
		words = append(words, c.Words...)
	}
	for _, w := range words {
		if names(w) {
			out := deny("blocked.mercury", "Mercury's own folder is hidden from commands")
			return &out
		}
	}
	return nil
}
