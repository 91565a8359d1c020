package permission

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/argv"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// Command is a command exactly as it may be run: by execve of Path with Args
// and Env in Dir, nothing looked up again.
type Command struct {
	Path string   // absolute; empty when the program is not installed
	Args []string // Args[0] is the program's name
	Env  []string // the whole environment
	Dir  string   // working directory
	// Builtin is "cd" when no program runs: the tool goes to Dir itself.
	Builtin string
	// Shell says that a shell interprets the string: a person, a grant or a
	// mode let it through, not the argv lane.
	Shell bool
	// Asked says that the lane resolved the command and did not let it through
	// by itself: whoever is asked about it allows it outside the fence.
	Asked bool
	// Fence says that it was let through only because it runs inside a fence
	// without network that writes in the workspace alone.
	Fence bool
}

// lane decides which commands run without a question: a string without shell
// syntax, a program of the table with options of the table, paths inside the
// granted folders, and a binary from a fixed folder.
type lane struct {
	files    Files
	fenced   bool
	binaries map[string]string
	options  map[string]options
	env      []string
	gitEnv   []string
}

func newLane(files Files, folders []string, fenced bool, zone string) *lane {
	l := &lane{files: files, fenced: fenced, binaries: map[string]string{}, options: map[string]options{}}
	for name, p := range programTable {
		l.options[name] = parseOptions(p.options)
		l.binaries[name] = pin(name, folders)
	}
	l.binaries["git"] = pin("git", folders)
	l.env = []string{
		"PATH=" + strings.Join(folders, string(filepath.ListSeparator)),
		"LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TERM=dumb", "PAGER=cat",
	}
	if runtime.GOOS == "windows" {
		l.env = append(l.env, `SystemRoot=C:\Windows`)
	}
	if zone != "" {
		l.env = append(l.env, "TZ="+zone)
	}
	l.gitEnv = append(slices.Clone(l.env), gitEnvironment...)
	return l
}

// judge decides about the words of a command in dir. It never denies: what it
// does not allow is a question.
func (l *lane) judge(words []string, dir string, scopes []mercury.Scope) (Command, finding) {
	if len(words) == 0 {
		return Command{}, ask("command.empty", "there is no command")
	}
	name, args := words[0], words[1:]
	for _, w := range words {
		if err := argv.Printable(w); err != nil {
			return Command{}, ask("command.syntax", err.Error())
		}
	}
	if name == "git" {
		return l.git(args, dir, scopes)
	}
	p, ok := programTable[name]
	if !ok {
		return Command{}, ask("command.unknown", fmt.Sprintf("%s is not on the list of reading programs", shown(name)))
	}
	check, err := l.operands(name, p, args)
	if err != nil {
		return Command{}, ask("command.options", err.Error())
	}
	here, out := l.here(dir, scopes)
	if out != nil {
		return Command{}, *out
	}
	look := pathRules{content: p.content, files: p.operands == files}
	if out := l.check(check, look, here, scopes); out != nil {
		return Command{}, *out
	}
	if name == "cd" {
		return l.cd(args[0], dir, scopes)
	}
	extra := args
	if name == "rg" {
		extra = append([]string{"--no-config"}, args...)
	}
	cmd := Command{Path: l.binaries[name], Args: append([]string{name}, extra...), Env: l.env, Dir: dir}
	return cmd, allow("command.argv", name+" only reads, inside the granted folders")
}

// operands applies a program's row and returns the paths it would touch.
func (l *lane) operands(name string, p program, args []string) ([]string, error) {
	if p.operands == selfRuled {
		return p.rule(args, call{})
	}
	c, err := l.options[name].take(args)
	if err != nil {
		return nil, err
	}
	check := c.paths
	rest := c.operands
	if p.operands == pattern && !c.has("e", "regexp", "f", "file", "files", "type-list") && len(rest) > 0 {
		rest = rest[1:]
	}
	switch p.operands {
	case none:
		if len(rest) > 0 {
			return nil, fmt.Errorf("%s takes no operand here", name)
		}
	case paths, files, pattern:
		check = append(check, rest...)
	}
	if p.max > 0 && len(rest) > p.max {
		return nil, fmt.Errorf("%s would take %s as something else than input", name, shown(rest[p.max]))
	}
	if p.input && len(rest) == 0 && !c.has("help", "version") {
		return nil, fmt.Errorf("%s would wait for standard input", name)
	}
	if p.operands == files && len(rest) != 2 {
		return nil, fmt.Errorf("%s needs two files", name)
	}
	if p.rule != nil {
		more, err := p.rule(args, c)
		if err != nil {
			return nil, err
		}
		check = append(check, more...)
	}
	return check, nil
}

// pathRules is what a program does with its paths.
type pathRules struct {
	content bool // it shows what is in them
	files   bool // it must not be given a folder
}

// here resolves the working directory, which is what a program without
// operands reads.
func (l *lane) here(dir string, scopes []mercury.Scope) (Place, *finding) {
	place, out := Files{Home: l.files.Home}.judge(mercury.ReadPath, dir, dir, scopes)
	if out.verdict == mercury.Allow {
		return place, nil
	}
	out.verdict = mercury.Ask
	return place, &out
}

// check looks at each path as the program would open it.
func (l *lane) check(list []string, is pathRules, here Place, scopes []mercury.Scope) *finding {
	// The program gets its words as they are: a tilde is an ordinary letter.
	seen := Files{Home: l.files.Home, from: &here}
	for _, raw := range list {
		if raw == "-" {
			out := ask("command.options", "it would wait for standard input")
			return &out
		}
		place, out := seen.judge(mercury.ReadPath, raw, here.Path, scopes)
		if is.files && place.Info != nil && place.Info.IsDir() {
			out := ask("command.options", "it would go through a folder, and through the links in it")
			return &out
		}
		if out.verdict == mercury.Allow || !is.content && (out.rule == "path.secret" || out.rule == "path.hardlinks") {
			continue
		}
		out.verdict = mercury.Ask
		return &out
	}
	if len(list) > 0 && !l.fenced {
		out := ask("command.unfenced", "no fence holds commands to the granted folders on this system")
		return &out
	}
	return nil
}

func (l *lane) cd(to, dir string, scopes []mercury.Scope) (Command, finding) {
	place, out := Files{Home: l.files.Home}.judge(mercury.ReadPath, to, dir, scopes)
	if out.verdict != mercury.Allow {
		out.verdict = mercury.Ask
		return Command{}, out
	}
	return Command{Builtin: "cd", Args: []string{"cd", to}, Dir: place.Path},
		allow("command.argv", "cd stays inside the granted folders")
}

func (l *lane) git(args []string, dir string, scopes []mercury.Scope) (Command, finding) {
	sub, check, err := gitRule(args)
	if err != nil {
		return Command{}, ask("command.git", err.Error())
	}
	table := gitSubcommands[sub]
	here, asked := l.here(dir, scopes)
	full := append(make([]string, 0, 80), "git")
	full = append(full, gitHardening...)
	if table.repo {
		repo, err := findRepository(here.Path)
		if err != nil {
			return Command{}, ask("command.git", err.Error())
		}
		if repo.dir != "" {
			check = append(check, strings.TrimPrefix(repo.dir, here.Path+string(filepath.Separator)))
		}
		full = append(full, repo.overrides()...)
	}
	if out := l.check(check, pathRules{content: table.repo}, here, scopes); out != nil && asked == nil {
		asked = out
	}
	full = append(full, sub)
	full = append(full, table.extra...)
	full = append(full, args[1:]...)
	cmd := Command{Path: l.binaries["git"], Args: full, Env: l.gitEnv, Dir: dir}
	if asked != nil {
		return cmd, *asked
	}
	return cmd, allow("command.argv", "git "+sub+" only reads, inside the granted folders")
}
