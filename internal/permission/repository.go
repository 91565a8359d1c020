package permission

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// repository is what a decision needs to know of the git repository a command
// would find.
type repository struct {
	dir     string   // the folder with HEAD and config; empty when there is none
	filters []string // drivers with programs: "filter.lfs.clean"
	network []string // settings that decide how it talks to others
	named   bool     // it says itself whose name its commits bear
}

// findRepository looks for the repository as git would from dir: upwards, a
// folder named .git or a file that points to one.
func findRepository(dir string) (repository, error) {
	for {
		git := filepath.Join(dir, ".git")
		info, err := os.Stat(git)
		if err == nil && info.IsDir() {
			return inspect(git)
		}
		if err == nil {
			b, err := os.ReadFile(git)
			if err != nil {
				return repository{}, err
			}
			target, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir:")
			if !ok {
				return repository{}, errors.New("its .git file is unusual")
			}
			target = strings.TrimSpace(target)
			if !filepath.IsAbs(target) {
				target = filepath.Join(dir, target)
			}
			return inspect(target)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return repository{}, nil
		}
		dir = parent
	}
}

// inspect reads the configuration of the repository at git. What would make a
// reading command look elsewhere is an error.
func inspect(git string) (repository, error) {
	r := repository{dir: git}
	common := git
	if b, err := os.ReadFile(filepath.Join(git, "commondir")); err == nil {
		common = strings.TrimSpace(string(b))
		if !filepath.IsAbs(common) {
			common = filepath.Join(git, common)
		}
		r.dir = common
	}
	if _, err := os.Lstat(filepath.Join(common, "objects", "info", "alternates")); err == nil {
		return r, errors.New("the repository borrows objects from another one")
	}
	if info, err := os.Lstat(filepath.Join(common, "objects")); err == nil && !info.IsDir() {
		return r, errors.New("the repository keeps its objects elsewhere")
	}
	for _, file := range []string{filepath.Join(common, "config"), filepath.Join(git, "config.worktree")} {
		if err := r.read(file); err != nil {
			return r, err
		}
	}
	return r, nil
}

// read takes in one configuration file (git-config, "Syntax"). It understands
// what it must: sections, the keys that name programs or places, and nothing
// that spans lines.
func (r *repository) read(file string) error {
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	section, driver := "", ""
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		// A line may open several sections; the last one counts.
		for strings.HasPrefix(line, "[") {
			end := headEnd(line)
			if end < 0 {
				return errors.New("the repository's settings cannot be read")
			}
			section, driver = sectionName(line[1:end])
			if err := r.key(section, driver, ""); err != nil {
				return err
			}
			line = strings.TrimSpace(line[end+1:])
		}
		if strings.HasSuffix(line, `\`) && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			return errors.New("the repository's settings span lines")
		}
		if err := r.key(section, driver, line); err != nil {
			return err
		}
	}
	return lines.Err()
}

// headEnd finds the bracket that closes a section's head: the first one that
// is not quoted.
func headEnd(line string) int {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '"':
			quoted = !quoted
		case ']':
			if !quoted {
				return i
			}
		}
	}
	return -1
}

func sectionName(head string) (section, driver string) {
	head = strings.TrimSpace(head)
	section, driver, quoted := strings.Cut(head, " ")
	if !quoted {
		section, driver, _ = strings.Cut(head, ".")
	}
	driver = strings.TrimSpace(driver)
	driver = strings.TrimSuffix(strings.TrimPrefix(driver, `"`), `"`)
	return strings.ToLower(section), driver
}

func (r *repository) key(section, driver, line string) error {
	name, _, _ := strings.Cut(line, "=")
	name = strings.ToLower(strings.TrimSpace(name))
	switch {
	case section == "credential" || section == "url" || section == "http" || section == "ssh" || section == "push" && name == "gpgsign",
		section == "core" && (name == "sshcommand" || name == "gitproxy" || name == "askpass"),
		section == "remote" && (name == "receivepack" || name == "uploadpack" || name == "vcs" || name == "proxy"):
		r.network = append(r.network, strings.Trim(section+"."+name, "."))
	}
	switch section {
	case "user":
		r.named = r.named || name == "name" || name == "email"
	case "include", "includeif":
		return errors.New("the repository's settings include other files")
	case "filter":
		if driver != "" {
			if strings.ContainsAny(driver, "\\\"=\n") {
				return fmt.Errorf("the filter %s has an unusual name", shown(driver))
			}
			r.filters = append(r.filters, driver)
		}
	case "core":
		name, val, _ := strings.Cut(line, "=")
		if strings.EqualFold(strings.TrimSpace(name), "worktree") && strings.TrimSpace(val) != "" {
			return errors.New("the repository's files lie elsewhere")
		}
	}
	return nil
}

// overrides are the options that keep the repository's content filters from
// running: their names are the repository's, so they cannot stand in a table.
func (r repository) overrides() []string {
	var out []string
	seen := map[string]bool{}
	for _, f := range r.filters {
		if seen[f] {
			continue
		}
		seen[f] = true
		for _, key := range []string{"clean", "smudge", "process"} {
			out = append(out, "-c", "filter."+f+"."+key+"=")
		}
		out = append(out, "-c", "filter."+f+".required=false")
	}
	return out
}
