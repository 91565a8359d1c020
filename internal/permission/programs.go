package permission

import (
	"errors"
	"fmt"
	"strings"
)

// operands says what a program's operands are.
type operandKind int

const (
	none      operandKind = iota // there must be none
	text                         // any words; they are printed or compared
	paths                        // files and folders
	files                        // files only: a folder would be walked through links
	pattern                      // a pattern first, unless an option gave it; then paths
	selfRuled                    // judged by the program's own rule
)

// program is one program of the argv lane: what it may be given without a
// question. Everything else asks.
type program struct {
	options  string
	operands operandKind
	content  bool // it shows what is in files, so names that hold secrets ask
	input    bool // without a path it waits for standard input
	max      int  // most operands; 0 means any number
	// rule judges what the tables cannot say. It returns further paths to be
	// checked, or an error that tells why a person must be asked.
	rule func(args []string, c call) ([]string, error)
}

var programTable = map[string]program{
	"ls": {operands: paths, options: `-aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ1 -I= -T= -w=
		--all --almost-all --author --escape --block-size= --ignore-backups --color? --directory --dired --classify?
		--file-type --format= --full-time --group-directories-first --no-group --human-readable --si --hide= --hyperlink?
		--indicator-style= --inode --ignore= --kibibytes --numeric-uid-gid --literal --hide-control-chars
		--show-control-chars --quote-name --quoting-style= --reverse --recursive --size --sort= --time= --time-style=
		--tabsize= --width= --context --zero --help --version`},
	"cat": {operands: paths, content: true, input: true, options: `-AbeEnstTuv --show-all --number-nonblank --show-ends --number
		--squeeze-blank --show-tabs --show-nonprinting --help --version`},
	"head": {operands: paths, content: true, input: true, options: `-0 -c= -n= -qvz --bytes= --lines= --quiet --silent
		--verbose --zero-terminated --help --version`},
	"tail": {operands: paths, content: true, input: true, options: `-0 -c= -n= -qvz --bytes= --lines= --quiet --silent
		--verbose --zero-terminated --help --version`},
	"wc": {operands: paths, input: true, options: `-clLmw --bytes --chars --lines --words --max-line-length --total=
		--help --version`},
	"nl": {operands: paths, content: true, input: true, options: `-p -b= -d= -f= -h= -i= -l= -n= -s= -v= -w=`},
	"cut": {operands: paths, content: true, input: true, options: `-b= -c= -d= -f= -nsz --bytes= --characters= --delimiter=
		--fields= --complement --only-delimited --output-delimiter= --zero-terminated`},
	"sort": {operands: paths, content: true, input: true, options: `-bcCdfghiMnRrsuVz -k= -t= --ignore-leading-blanks --dictionary-order
		--ignore-case --general-numeric-sort --human-numeric-sort --ignore-nonprinting --month-sort --numeric-sort --reverse
		--version-sort --check? --key= --field-separator= --stable --unique --zero-terminated`},
	"uniq": {operands: paths, content: true, input: true, max: 1, options: `-cdDiuz -f= -s= -w= --count --repeated --ignore-case
		--skip-fields= --skip-chars= --unique --zero-terminated --check-chars=`},
	"diff": {operands: files, content: true, options: `-abBcdEeiNnpqstTuwyZ -C= -U= -I= -W= --text --ignore-space-change --ignore-blank-lines
		--context? --minimal --ignore-tab-expansion --ignore-case --new-file --show-c-function --brief
		--report-identical-files --unified? --ignore-all-space --side-by-side --width= --suppress-common-lines --color?
		--label= --strip-trailing-cr`},
	"cmp":       {operands: files, content: true, options: `-bls -n= -i= --print-bytes --verbose --silent --quiet --bytes=`},
	"md5sum":    {operands: paths, input: true, options: `-btz --tag --binary --text --zero`},
	"sha1sum":   {operands: paths, input: true, options: `-btz --tag --binary --text --zero`},
	"sha256sum": {operands: paths, input: true, options: `-btz --tag --binary --text --zero`},
	"stat":      {operands: paths, input: true, options: `-Lft -c= --dereference --file-system --terse --format= --printf= --cached= --help --version`},
	"du": {operands: paths, options: `-0abchHDklmsSx -B= -d= -t= -X@ --null --all --apparent-size --block-size= --bytes --total
		--dereference-args --max-depth= --human-readable --inodes --count-links --separate-dirs --si --summarize --threshold=
		--time? --time-style= --exclude= --exclude-from@ --one-file-system --help --version`},
	"df": {operands: paths, options: `-ahHiklPTv -B= -t= -x= --all --block-size= --human-readable --si --inodes --local
		--no-sync --output? --portability --total --type= --print-type --exclude-type= --help --version`},
	"file": {operands: paths, input: true, options: `-bhiklLnNr0E -e= -F= --brief --no-dereference --dereference --mime --mime-type --mime-encoding
		--extension --keep-going --list --no-buffer --no-pad --raw --print0 --separator= --exclude= --help --version`},
	"grep": {operands: pattern, content: true, options: `-0 -abcEFGhHiIlLnoPqrsTUuvwxyzZ -A= -B= -C= -D= -d= -e= -f@ -m=
		--regexp= --file@ --ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp --count --color? --colour?
		--files-without-match --files-with-matches --max-count= --only-matching --quiet --silent --no-messages --byte-offset
		--with-filename --no-filename --label= --line-number --initial-tab --null --null-data --after-context=
		--before-context= --context= --text --binary-files= --devices= --directories= --exclude= --exclude-from@
		--exclude-dir= --include= --recursive --line-buffered --binary --extended-regexp --fixed-strings --basic-regexp
		--perl-regexp --help --version`, rule: grepRule},
	"rg": {operands: pattern, content: true, options: `-0abcFHhiIlNnoPpqSsUuvVwx. -A= -B= -C= -d= -E= -e= -f@ -g= -j= -M= -m= -r= -T= -t=
		--after-context= --before-context= --context= --context-separator= --max-depth= --maxdepth= --encoding= --regexp= --file@ --glob= --iglob=
		--threads= --max-columns= --max-columns-preview --max-count= --replace= --type-not= --type= --type-add= --type-clear=
		--type-list --text --byte-offset --count --count-matches --fixed-strings --with-filename --no-filename --help
		--ignore-case --files-with-matches --files-without-match --files --line-number --no-line-number --only-matching
		--pcre2 --auto-hybrid-regex --engine= --pretty --quiet --smart-case --case-sensitive --multiline --multiline-dotall
		--unrestricted --invert-match --version --word-regexp --line-regexp --hidden --no-hidden --no-ignore
		--no-ignore-dot --no-ignore-exclude --no-ignore-files --no-ignore-global --no-ignore-messages --no-ignore-parent
		--no-ignore-vcs --no-messages --no-config --no-follow --no-pre --no-search-zip --no-heading --heading --binary --no-binary
		--color= --colors= --column --no-column --crlf --null --null-data --json --stats --sort= --sortr= --trim --no-trim
		--vimgrep --passthru --passthrough --one-file-system --no-unicode --no-multiline --max-filesize= --dfa-size-limit= --regex-size-limit=
		--path-separator= --field-match-separator= --field-context-separator= --line-buffered --block-buffered
		--include-zero --ignore-file@ --ignore-file-case-insensitive --glob-case-insensitive --mmap --no-mmap --debug --trace
		--stop-on-nonmatch`, rule: rgRule},
	"tree": {operands: paths, options: `-acCdDfFgiJnNpqQrsStuUvxXhA -I= -L= -P= --dirsfirst --filesfirst --filelimit= --noreport --prune --du --si
		--inodes --device --sort= --charset= --gitignore --ignore-case --matchdirs --metafirst --timefmt= --nolinks --help --version`},
	"ps":       {operands: selfRuled, rule: psRule},
	"pwd":      {options: `-LP --logical --physical --help --version`},
	"whoami":   {options: `--help --version`},
	"hostname": {options: ``},
	"id":       {operands: text, options: `-ugGnrzZ --user --group --groups --name --real --zero`},
	"uname": {options: `-amnoprsvi --all --kernel-name --nodename --kernel-release --kernel-version --machine --processor
		--hardware-platform --operating-system --help --version`},
	"which":    {operands: text, options: `-as --all --help --version`, rule: whichRule},
	"date":     {operands: text, max: 1, options: `-uRj -d= -I? -r@ --date= --debug --iso-8601? --resolution --reference@ --rfc-email --rfc-3339= --utc --universal --help --version`, rule: dateRule},
	"basename": {operands: text, options: `-az -s= --multiple --suffix= --zero`},
	"dirname":  {operands: text, options: `-z --zero`},
	"realpath": {operands: paths, options: `-eLmPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet --no-symlinks --zero`},
	"readlink": {operands: paths, options: `-efmnqsvz --canonicalize --no-newline --zero`},
	"echo":     {operands: selfRuled, rule: func([]string, call) ([]string, error) { return nil, nil }},
	"find":     {operands: selfRuled, rule: findRule},
	"cd":       {operands: selfRuled, rule: cdRule},
}

// grepRule: with -r, or a pattern and a path, grep reads files and not its
// standard input.
func grepRule(_ []string, c call) ([]string, error) {
	least := 1
	if !c.has("e", "regexp", "f", "file") {
		least = 2
	}
	recursive := c.has("r", "recursive")
	for _, d := range append(c.given["d"], c.given["directories"]...) {
		recursive = recursive || d == "recurse"
	}
	if len(c.operands) < least && !(recursive && len(c.operands) == least-1) && !c.has("help", "version", "V") {
		return nil, errors.New("it would wait for standard input")
	}
	return nil, nil
}

// rgRule: --files and --type-list take no pattern.
func rgRule(_ []string, c call) ([]string, error) {
	if c.has("files", "type-list", "version", "help", "V", "h") {
		return c.operands, nil
	}
	return nil, nil
}

func whichRule(_ []string, c call) ([]string, error) {
	for _, o := range c.operands {
		if strings.ContainsAny(o, `/\`) {
			return nil, fmt.Errorf("%s is a path, not the name of a program", shown(o))
		}
	}
	return nil, nil
}

// dateRule: an operand without "+" sets the clock.
func dateRule(_ []string, c call) ([]string, error) {
	for _, o := range c.operands {
		if !strings.HasPrefix(o, "+") {
			return nil, errors.New("date would set the clock")
		}
	}
	return nil, nil
}

func cdRule(args []string, _ call) ([]string, error) {
	if len(args) != 1 || args[0] == "" || args[0][0] == '-' {
		return nil, errors.New("cd needs one folder")
	}
	return args, nil
}

// psColumns are the columns ps may print; others can show environments.
var psColumns = words(`pid ppid pgid sid tty tt stat state s user uid euser ruser group gid comm cmd args command ucmd
	etime etimes time cputime bsdtime start start_time lstart pcpu %cpu c pmem %mem rss rssize rsz vsz vsize size nice ni pri
	psr nlwp thcount wchan flags f tid lwp spid ucomm cgroup`)

var psLong = parseOptions(`--forest --no-headers --no-heading --headers --cols= --columns= --rows= --lines= --width= --sort= --pid=
	--ppid= --user= --User= --group= --Group= --tty= --sid= --help? --version --deselect`)

// psRule accepts no e in a group of letters: there it stands for the
// environment of every process.
func psRule(args []string, _ call) ([]string, error) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if strings.HasPrefix(a, "--") {
			if _, err := psLong.take(args[i : i+1]); err != nil {
				return nil, err
			}
			continue
		}
		letters := strings.TrimPrefix(a, "-")
		if strings.Trim(letters, "0123456789,") == "" {
			continue // process numbers
		}
		dash := letters != a
		valued := "oOpCtgGsUq"
		if dash {
			valued = "oOpCtgGsUuq"
		}
		end := strings.IndexAny(letters, valued)
		if end < 0 {
			end = len(letters)
		}
		if bad := strings.Trim(letters[:end], "AadNfFlLjyHMmcwxuvrTShknX"); bad != "" {
			return nil, fmt.Errorf("ps %s can show the environment of processes", shown(a))
		}
		if end == len(letters) {
			continue
		}
		val := letters[end+1:]
		if val == "" && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			val = args[i]
		}
		if err := psValue(letters[end], val); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func psValue(option byte, val string) error {
	if option == 'o' || option == 'O' {
		for _, column := range strings.FieldsFunc(val, func(r rune) bool { return r == ',' || r == ' ' }) {
			name, _, _ := strings.Cut(column, "=")
			name, _, _ = strings.Cut(name, ":")
			if !psColumns[name] {
				return fmt.Errorf("the column %s of ps is not on the list of harmless ones", shown(column))
			}
		}
		return nil
	}
	for _, r := range val {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_,.-/ +:", r) {
			return fmt.Errorf("the value %s of ps is unusual", shown(val))
		}
	}
	return nil
}
