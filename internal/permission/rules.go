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
//	run:=make && make test   exactly this string
//	read:/home/you/notes/**    a folder and all below it
//	write:/home/you/list.txt   one file
//	fetch:https://example.com
//	send:telegram/12345
//	foreign:server/tool
//	settings:…  spend:…

// subcommanded are programs whose second word says what they do; a rule about
// one of those words is useful and still narrow.
var subcommanded = words(`git go cargo npm pnpm yarn bun pip pip3 uv poetry docker podman kubectl helm terraform make just
	task gradle mvn dotnet brew apt apt-get dnf systemctl journalctl gh glab aws gcloud az bundle rake rails mix flutter dart swift
	deno composer php artisan tox nox conda mise rustup nix`)

// wide are words after which everything depends on the rest of the line.
var wide = words(`run exec -c -e eval x dlx push publish config remote clean reset rebase filter-branch submodule
	shell ssh login install add rm delete destroy apply up down`)

// lastingCommand is the narrowest rule that would be of use for this command:
// a program with its subcommand where that says what happens, else the exact
// string. A command with a part only the shell knows gets none, since the same
// string could be another command tomorrow.
func lastingCommand(src string, words []string, script argv.Script) string {
	if len(words) > 0 {
		if len(words) > 2 && subcommanded[words[0]] && plainWord(words[1]) && !wide[words[1]] {
			return "run:" + words[0] + " " + words[1] + " *"
		}
		return "run:=" + src
	}
	if !script.Complete || len(src) > 500 {
		return ""
	}
	for _, c := range script.Commands {
		for _, w := range c.Words {
			if !w.Known {
				return ""
			}
		}
	}
	return "run:=" + src
}

func plainWord(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-_:") == "" && s[0] != '-'
}

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
// place.
func covers(rule string, access mercury.Access, place Place) bool {
	kind, what, ok := strings.Cut(rule, ":")
	if !ok || kind != string(access.Kind) || what == "" {
		return false
	}
	switch access.Kind {
	case mercury.ReadPath, mercury.WritePath, mercury.DeletePath:
		return coversPath(what, place)
	case mercury.RunCommand:
		return coversCommand(what, access)
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

func coversCommand(what string, access mercury.Access) bool {
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
