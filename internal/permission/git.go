package permission

import (
	"errors"
	"fmt"
	"strings"
	"sync"
)

// gitHardening stands before every automatic git command. A repository is
// foreign data: its configuration can name programs for hooks, monitors,
// pagers, diffs, signatures and transports, and files outside to read.
var gitHardening = []string{
	"--no-pager", "--no-optional-locks",
	"-c", "safe.bareRepository=explicit",
	"-c", "core.fsmonitor=false",
	"-c", "core.hooksPath=/dev/null",
	"-c", "core.attributesFile=/dev/null",
	"-c", "core.pager=cat",
	"-c", "core.editor=false",
	"-c", "core.sshCommand=false",
	"-c", "core.askPass=false",
	"-c", "core.alternateRefsCommand=",
	"-c", "diff.submodule=short",
	"-c", "diff.orderFile=/dev/null",
	"-c", "status.submoduleSummary=false",
	"-c", "submodule.recurse=false",
	"-c", "log.showSignature=false",
	"-c", "format.pretty=medium",
	"-c", "gpg.program=false",
	"-c", "gpg.openpgp.program=false",
	"-c", "gpg.x509.program=false",
	"-c", "gpg.ssh.program=false",
	"-c", "blame.ignoreRevsFile=",
	"-c", "mailmap.file=/dev/null",
	"-c", "credential.helper=",
	"-c", "protocol.allow=never",
	"-c", "protocol.file.allow=never",
	"-c", "protocol.ext.allow=never",
	"-c", "protocol.ssh.allow=never",
	"-c", "protocol.git.allow=never",
	"-c", "protocol.http.allow=never",
	"-c", "protocol.https.allow=never",
}

// gitEnvironment keeps the configuration of the machine and of the person out,
// and git from asking, fetching and locking.
var gitEnvironment = []string{
	"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1", "GIT_NO_LAZY_FETCH=1",
	"GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_ASKPASS=false",
	"GIT_SSH_COMMAND=false", "GIT_ALLOW_PROTOCOL=none",
}

// subcommand is one git subcommand that reads.
type subcommand struct {
	options string
	extra   []string // inserted after the subcommand, for hardening
	repo    bool     // it looks at a repository
	rule    func(c call) error
}

const gitDiffOptions = ` -0 -pusRabBwWzcmt -U? -M? -C? -B? -D -l= -S= -G=
	--patch --no-patch --unified= --raw --patch-with-raw --patch-with-stat --indent-heuristic --no-indent-heuristic --minimal
	--patience --histogram --anchored= --diff-algorithm= --stat? --compact-summary --numstat --shortstat --dirstat? --cumulative
	--summary --name-only --name-status --submodule= --color? --no-color --color-moved? --no-color-moved --word-diff?
	--word-diff-regex= --color-words? --no-renames --rename-empty --check --ws-error-highlight= --full-index --binary --abbrev?
	--break-rewrites? --find-renames? --find-copies? --find-copies-harder --irreversible-delete --diff-filter=
	--pickaxe-all --pickaxe-regex --skip-to= --rotate-to= --relative? --no-relative --text --ignore-cr-at-eol
	--ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-matching-lines=
	--inter-hunk-context= --function-context --exit-code --quiet --no-ext-diff --no-textconv --src-prefix= --dst-prefix=
	--no-prefix --default-prefix --line-prefix= --ita-invisible-in-index --combined-all-paths --cc `

const gitLogOptions = ` -n= -iEFPgq -L= --follow --no-decorate --decorate? --decorate-refs= --decorate-refs-exclude= --source
	--mailmap --no-mailmap --use-mailmap --no-use-mailmap --full-diff --log-size --max-count= --skip= --since= --after= --until= --before=
	--author= --committer= --grep= --grep-reflog= --all-match --invert-grep --regexp-ignore-case --basic-regexp --extended-regexp
	--fixed-strings --perl-regexp --merges --no-merges --min-parents= --max-parents= --first-parent --not --all --branches?
	--tags? --remotes? --glob= --exclude= --reflog --boundary --cherry-mark --cherry-pick --left-only --right-only --left-right
	--cherry --walk-reflogs --merge --simplify-by-decoration --show-pulls --full-history --dense --sparse --simplify-merges
	--ancestry-path --date-order --author-date-order --topo-order --reverse --no-walk? --do-walk --pretty? --format=
	--abbrev-commit --no-abbrev-commit --oneline --encoding= --expand-tabs? --no-expand-tabs --notes? --no-notes
	--no-show-signature --relative-date --date= --parents --children --graph --no-graph --show-linear-break? --linear
	--diff-merges= --no-diff-merges --dd --remove-empty --clear-decorations `

var gitSubcommands = map[string]subcommand{
	"status": {repo: true, extra: []string{"--ignore-submodules=dirty"}, options: `-sbvzu? -M? --short --branch --no-branch --show-stash
		--porcelain? --long --verbose --untracked-files? --ignored? --column? --no-column --ahead-behind
		--no-ahead-behind --renames --no-renames --find-renames?`},
	"diff": {repo: true, extra: []string{"--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"},
		options: gitDiffOptions + `--cached --staged --merge-base --base --ours --theirs`, rule: diffRule},
	"log": {repo: true, extra: []string{"--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--no-show-signature"},
		options: gitDiffOptions + gitLogOptions, rule: formatRule},
	"show": {repo: true, extra: []string{"--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--no-show-signature"},
		options: gitDiffOptions + gitLogOptions, rule: formatRule},
	"branch": {repo: true, options: `-arvlqi --all --remotes --verbose --quiet --list --show-current --contains= --no-contains=
		--merged= --no-merged= --points-at= --sort= --format= --column? --no-column --color? --no-color --abbrev? --no-abbrev
		--ignore-case --omit-empty`, rule: branchRule},
	"blame": {repo: true, extra: []string{"--no-textconv"}, options: `-bclsetfnpwk -L= -C? -M? --root --show-stats --porcelain
		--line-porcelain --incremental --show-name --show-number --show-email --date= --color-lines --color-by-age --abbrev=`},
	"rev-parse": {repo: true, options: `--short? --verify --quiet -q --abbrev-ref? --symbolic --symbolic-full-name --show-toplevel
		--show-prefix --show-cdup --is-inside-work-tree --is-inside-git-dir --is-bare-repository --git-dir --absolute-git-dir`},
	"ls-files": {repo: true, options: `-cdmostkzv --cached --deleted --modified --others --stage --unmerged --killed --exclude-standard
		--directory --full-name --error-unmatch --deduplicate --abbrev?`},
	"ls-tree":    {repo: true, options: `-drtlz --long --name-only --name-status --full-name --full-tree --abbrev?`},
	"merge-base": {repo: true, options: `-a --all --octopus --is-ancestor --independent`},
	"version":    {options: `--build-options`},
	"--version":  {options: ``},
}

// gitRule judges a git command. It returns the operands that may be paths.
func gitRule(args []string) (sub string, check []string, err error) {
	if len(args) == 0 {
		return "", nil, errors.New("git needs a subcommand")
	}
	sub = args[0]
	table, ok := gitSubcommands[sub]
	if !ok {
		if strings.HasPrefix(sub, "-") {
			return "", nil, errors.New("options before git's subcommand can change what runs")
		}
		return "", nil, fmt.Errorf("git %s is not on the list of reading subcommands", shown(sub))
	}
	c, err := gitOptions()[sub].take(gitOptionalValues(sub, args[1:]))
	if err != nil {
		return "", nil, err
	}
	if table.rule != nil {
		if err := table.rule(c); err != nil {
			return "", nil, err
		}
	}
	check, err = gitOperands(c)
	return sub, check, err
}

// gitOptions are read from the table at the first git command, not at start.
var gitOptions = sync.OnceValue(func() map[string]options {
	m := map[string]options{}
	for name, sub := range gitSubcommands {
		o := parseOptions(sub.options)
		o.wary = true
		m[name] = o
	}
	return m
})

// gitOptionalValues completes the filters of git branch, whose value may be
// missing at the end of the line.
func gitOptionalValues(sub string, args []string) []string {
	if sub != "branch" || len(args) == 0 {
		return args
	}
	switch args[len(args)-1] {
	case "--contains", "--no-contains", "--merged", "--no-merged", "--points-at":
		return append(args[:len(args):len(args)], "HEAD")
	}
	return args
}

// gitOperands returns what must lie inside the granted folders: every operand
// may be a path, also the part of rev:path after the colon.
func gitOperands(c call) ([]string, error) {
	var check []string
	for _, o := range c.operands {
		path := o
		for _, magic := range []string{":!", ":^", ":/"} {
			if rest, ok := strings.CutPrefix(o, magic); ok {
				path = rest
			}
		}
		if strings.HasPrefix(path, ":") {
			return nil, fmt.Errorf("the pathspec %s has its own rules", shown(o))
		}
		if _, inside, ok := strings.Cut(path, ":"); ok && escapes(inside) {
			return nil, fmt.Errorf("%s leaves the repository", shown(o))
		}
		check = append(check, path)
	}
	for _, l := range c.given["L"] {
		if at := strings.LastIndexByte(l, ':'); at >= 0 {
			check = append(check, l[at+1:])
		}
	}
	return check, nil
}

func escapes(path string) bool {
	if strings.HasPrefix(path, "/") {
		return true
	}
	for _, e := range strings.Split(path, "/") {
		if e == ".." {
			return true
		}
	}
	return false
}

// diffRule: --submodule=diff would start git in another repository.
func diffRule(c call) error {
	for _, v := range c.given["submodule"] {
		if v != "short" {
			return errors.New("a submodule is another repository")
		}
	}
	return nil
}

// prettyNames are the formats git itself knows; any other name comes from the
// repository's configuration.
var prettyNames = words(`oneline short medium full fuller reference email mboxrd raw`)

// formatRule refuses formats that verify signatures, since that starts the
// program the repository names.
func formatRule(c call) error {
	if err := diffRule(c); err != nil {
		return err
	}
	for _, option := range []string{"pretty", "format"} {
		for _, f := range c.given[option] {
			if strings.Contains(f, "%G") || strings.Contains(f, "%(") && strings.Contains(f, "signature") {
				return errors.New("the format checks signatures, which starts a program")
			}
			if f != "" && !prettyNames[f] && !strings.Contains(f, "%") && !strings.HasPrefix(f, "format:") && !strings.HasPrefix(f, "tformat:") {
				return fmt.Errorf("the format %s comes from the repository's settings", shown(f))
			}
		}
	}
	return nil
}

// branchRule: without --list an operand creates a branch.
func branchRule(c call) error {
	if len(c.operands) > 0 && !c.has("list") {
		return errors.New("git branch with a name creates a branch")
	}
	for _, option := range []string{"format", "sort"} {
		for _, f := range c.given[option] {
			if strings.Contains(f, "signature") || strings.Contains(f, "%G") {
				return errors.New("the format checks signatures, which starts a program")
			}
		}
	}
	return nil
}
