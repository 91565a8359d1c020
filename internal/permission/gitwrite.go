package permission

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// gitWrites are the subcommands that change a repository or another one and
// that a tool may name as an argument vector. A question about one of them,
// once answered, runs with the hardening of the reading ones: whose commit it
// is comes from the person's own settings, which programs run does not come
// from the repository's.
var gitWrites = map[string]struct {
	options string
	extra   []string
	network bool
}{
	"add": {options: `-Au --all --update --ignore-errors`},
	"commit": {options: `-m= --message= -a --all --allow-empty --amend --no-edit`,
		extra: []string{"--no-verify", "--no-gpg-sign", "--no-post-rewrite", "--cleanup=verbatim"}},
	"push": {options: `-u --set-upstream --tags`, extra: []string{"--no-verify", "--no-signed", "--recurse-submodules=no"}, network: true},
}

// openGit are the hardening settings that a push cannot work with.
var openGit = []string{"core.sshCommand=", "credential.helper=", "protocol.allow=", "protocol.ssh.", "protocol.http.", "protocol.https."}

// gitWrite resolves a git command that writes. handled is false for what is no
// such command; an error says why it cannot run as a tool names it.
func (l *lane) gitWrite(words []string, dir string, scopes []mercury.Scope) (cmd Command, handled bool, err error) {
	if len(words) < 2 || words[0] != "git" {
		return cmd, false, nil
	}
	sub, ok := gitWrites[words[1]]
	if !ok {
		return cmd, false, nil
	}
	o := parseOptions(sub.options)
	o.wary = words[1] != "commit" // a message may begin with a hyphen
	c, err := o.take(words[2:])
	if err != nil {
		return cmd, true, err
	}
	for _, operand := range c.operands {
		if strings.HasPrefix(operand, ":") || words[1] == "push" && strings.ContainsAny(operand, ":/\\@") {
			return cmd, true, fmt.Errorf("%s could lead elsewhere; name a plain path, remote or branch", shown(operand))
		}
	}
	place, stop := Files{}.find(mercury.ReadPath, dir, dir)
	if stop != nil {
		return cmd, true, errors.New(stop.why)
	}
	repo, err := findRepository(place.Path)
	if err != nil {
		return cmd, true, err
	}
	if repo.dir == "" {
		return cmd, true, errors.New("there is no repository here")
	}
	if _, out := (Files{Home: l.files.Home}).judge(mercury.WritePath, filepath.Join(repo.dir, "x"), dir, scopes); out.verdict == mercury.Deny {
		return cmd, true, errors.New(out.why)
	}
	if len(repo.filters) > 0 && !sub.network {
		return cmd, true, fmt.Errorf("the repository passes content through the program %q, which this tool does not run; use run_command", repo.filters[0])
	}
	if sub.network {
		if err := repo.connects(); err != nil {
			return cmd, true, err
		}
	}
	if l.binaries["git"] == "" {
		return cmd, true, errors.New("git is not installed where the system keeps its programs")
	}
	full := []string{"git"}
	for i := 0; i < len(gitHardening); i++ {
		if gitHardening[i] == "-c" && i+1 < len(gitHardening) {
			i++
			opens := slices.ContainsFunc(openGit, func(p string) bool { return strings.HasPrefix(gitHardening[i], p) })
			if !sub.network || !opens {
				full = append(full, "-c", gitHardening[i])
			}
			continue
		}
		if gitHardening[i] != "--no-optional-locks" {
			full = append(full, gitHardening[i])
		}
	}
	full = append(full, "-c", "commit.gpgSign=false", "-c", "core.quotePath=false")
	full = append(append(append(full, repo.overrides()...), words[1]), sub.extra...)
	full = append(full, words[2:]...)
	return Command{Path: l.binaries["git"], Args: full, Env: l.gitWriteEnv(sub.network, repo.named), Dir: dir}, true, nil
}

// gitWriteEnv is what a writing git sees: the person's home for who they are,
// said outright where the repository names nobody, and, for a push, what lets
// them in.
func (l *lane) gitWriteEnv(network, named bool) []string {
	env := append(slices.Clone(l.env), "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_ASKPASS=false",
		"GIT_NO_LAZY_FETCH=1", "GIT_ATTR_NOSYSTEM=1")
	if home, err := os.UserHomeDir(); err == nil {
		env = append(env, "HOME="+home)
		if !named {
			env = append(env, author(home)...)
		}
	}
	if !network {
		return append(env, "GIT_SSH_COMMAND=false", "GIT_ALLOW_PROTOCOL=none")
	}
	env = append(env, "GIT_SSH_COMMAND=ssh -oBatchMode=yes", "GIT_ALLOW_PROTOCOL=https:ssh")
	if agent := os.Getenv("SSH_AUTH_SOCK"); agent != "" {
		env = append(env, "SSH_AUTH_SOCK="+agent)
	}
	return env
}

// connects says what in the repository's own settings would decide how a push
// connects or which program helps it.
func (r repository) connects() error {
	for _, section := range r.network {
		return fmt.Errorf("the repository's own settings (%s) decide how a push connects; use run_command", section)
	}
	return nil
}
