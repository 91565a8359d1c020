package permission

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/argv"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// A lasting rule is one line of text, shown to the person who gives it and
// kept as it is: "kind:what".
//
//	run:git commit *         commands without shell syntax that begin so
//	run:=make && make test   exactly this string, in any folder
//	run:/home/you/x:=make    exactly this string, in this folder
//	read:/home/you/notes/**    a folder and all below it
//	write:/home/you/list.txt   one file
//	fetch:https://example.com
//	send:telegram/12345
//	foreign:server/tool
//	settings:…  spend:…

// lastingCommand is the narrowest rule for this command: the exact string, in
// the folder it was shown for. Anything wider is a person's to write. A command
// with a part only the shell knows gets none, since the same string could be
// another command tomorrow.
func lastingCommand(src, dir string, plain bool, script argv.Script) string {
	if !filepath.IsAbs(dir) || strings.Contains(dir, inFolder) || len(src) > 500 {
		return ""
	}
	if !plain {
		if !script.Complete {
			return ""
		}
		for _, c := range script.Commands {
			for _, w := range c.Words {
				if !w.Known {
					return ""
				}
			}
		}
	}
	return "run:" + dir + inFolder + src
}

// inFolder parts a command's folder from the exact string.
const inFolder = ":="

// CheckRule says what is wrong with a lasting rule that a person wrote.
func CheckRule(rule string) error {
	kind, what, ok := strings.Cut(rule, ":")
	bad := func(text string) error {
		return &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("the rule %q %s", rule, text),
			Help: "A rule is kind:what, such as run:git commit *, write:/home/me/notes/**, fetch:https://example.com or send:telegram/12345."}
	}
	if !ok || strings.TrimSpace(what) == "" {
		return bad("names nothing")
	}
	switch mercury.AccessKind(kind) {
	case mercury.ReadPath, mercury.WritePath, mercury.DeletePath:
		if !filepath.IsAbs(what) || filepath.Clean(what) != what {
			return bad("needs an absolute path")
		}
	case mercury.RunCommand:
		exact := strings.HasPrefix(what, "=")
		if folder, src, ok := strings.Cut(what, inFolder); ok && filepath.IsAbs(folder) {
			exact = strings.TrimSpace(src) != ""
		}
		if !exact && (!strings.HasSuffix(what, " *") || strings.TrimSpace(strings.TrimSuffix(what, "*")) == "") {
			return bad("needs a whole command after =, or the words it begins with and then *")
		}
	case mercury.FetchURL:
		u, err := url.Parse(what)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Path != "" && u.Path != "/" || u.User != nil {
			return bad("needs a scheme and a host, and nothing after them")
		}
	case mercury.SendTo, mercury.Foreign, mercury.Settings, mercury.Spend:
	default:
		return bad("is of no kind that can be granted")
	}
	return nil
}

// covers reports whether rule allows access, whose path, if it has one, is
// place; a command would run in dir.
func covers(rule string, access mercury.Access, place Place, dir string) bool {
	kind, what, ok := strings.Cut(rule, ":")
	if !ok || kind != string(access.Kind) || what == "" {
		return false
	}
	switch access.Kind {
	case mercury.ReadPath, mercury.WritePath, mercury.DeletePath:
		return coversPath(what, place)
	case mercury.RunCommand:
		return coversCommand(what, access, dir)
	case mercury.FetchURL:
		u, err := url.Parse(access.Target)
		return err == nil && u.Host != "" && strings.EqualFold(what, u.Scheme+"://"+u.Host)
	}
	return what == access.Target
}

func coversPath(what string, place Place) bool {
	if !filepath.IsAbs(what) || place.Path == "" {
		return false
	}
	sep := string(filepath.Separator)
	if dir, ok := strings.CutSuffix(what, sep+"**"); ok {
		return place.Path == dir || strings.HasPrefix(place.Path, dir+sep)
	}
	return place.Path == what
}

func coversCommand(what string, access mercury.Access, dir string) bool {
	if folder, src, ok := strings.Cut(what, inFolder); ok && filepath.IsAbs(folder) {
		return folder == dir && src == commandText(access)
	}
	if exact, ok := strings.CutPrefix(what, "="); ok {
		return exact == commandText(access)
	}
	prefix, ok := strings.CutSuffix(what, " *")
	if !ok {
		return false
	}
	have := access.Argv
	if len(have) == 0 {
		var err error
		if have, err = argv.Parse(access.Target); err != nil {
			return false
		}
	}
	want := strings.Fields(prefix)
	return len(have) >= len(want) && slices.Equal(have[:len(want)], want)
}

// commandText is the string a person sees for a command.
func commandText(a mercury.Access) string {
	if len(a.Argv) > 0 {
		return argv.Quote(a.Argv)
	}
	return a.Target
}
