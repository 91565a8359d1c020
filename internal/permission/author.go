package permission

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// author says, as git's environment, whose name a commit bears: the one in the
// person's own settings, which a fenced git cannot read. Files that those
// include are not followed.
func author(home string) (env []string) {
	found := map[string]string{}
	for _, file := range []string{filepath.Join(home, ".config", "git", "config"), filepath.Join(home, ".gitconfig")} {
		readUser(file, found)
	}
	if found["name"] == "" || found["email"] == "" {
		return nil
	}
	for _, who := range []string{"AUTHOR", "COMMITTER"} {
		env = append(env, "GIT_"+who+"_NAME="+found["name"], "GIT_"+who+"_EMAIL="+found["email"])
	}
	return env
}

// readUser takes the plain values of the section user.
func readUser(file string, found map[string]string) {
	f, err := os.Open(file)
	if err != nil {
		return // most people have one of the two
	}
	defer f.Close()
	section := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "[") {
			if end := headEnd(line); end > 0 {
				section, _ = sectionName(line[1:end])
			}
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if key = strings.ToLower(strings.TrimSpace(key)); ok && section == "user" && (key == "name" || key == "email") {
			found[key] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
}
