package file

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// ignoreMax is how much of one .gitignore is read, in bytes.
const ignoreMax = 256 << 10

// ignores are the rules that hold in a folder, outermost file first.
type ignores []ignoreSet

// ignoreSet is one .gitignore, which speaks of paths below its folder.
type ignoreSet struct {
	dir   string
	rules []ignoreRule
}

// ignoreRule is one line of it.
type ignoreRule struct {
	pattern  string
	keep     bool // "!": what it matches is not ignored after all
	dirOnly  bool // ends in "/"
	anchored bool // has another "/": the whole path is meant, not the last name
}

// with returns the rules that hold below dir, where text is its .gitignore.
func (ig ignores) with(dir, text string) ignores {
	rules := parseIgnore(text)
	if len(rules) == 0 {
		return ig
	}
	return append(slices.Clip(ig), ignoreSet{dir, rules})
}

// ignored reports whether git would ignore path, given that no folder above
// it is ignored. The last rule that matches decides, inner files before outer.
func (ig ignores) ignored(path string, isDir bool) bool {
	for _, set := range slices.Backward(ig) {
		rel, err := filepath.Rel(set.dir, path)
		if err != nil {
			continue
		}
		rel = filepath.ToSlash(rel)
		for _, r := range slices.Backward(set.rules) {
			if r.matches(rel, isDir) {
				return !r.keep
			}
		}
	}
	return false
}

func (r ignoreRule) matches(rel string, isDir bool) bool {
	if r.dirOnly && !isDir {
		return false
	}
	if !r.anchored {
		rel = rel[strings.LastIndexByte(rel, '/')+1:]
	}
	steps := wildSteps
	return wild(r.pattern, 0, rel, &steps)
}

// parseIgnore reads the text of a .gitignore as git does.
func parseIgnore(text string) []ignoreRule {
	var rules []ignoreRule
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.SplitSeq(text, "\n") {
		line = trimBlanks(strings.TrimSuffix(line, "\r"))
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		if line[0] == '!' {
			r.keep = true
			line = line[1:]
		}
		if strings.HasSuffix(line, "/") {
			r.dirOnly = true
			line = line[:len(line)-1]
		}
		r.anchored = strings.Contains(line, "/")
		r.pattern = strings.TrimPrefix(line, "/")
		if r.pattern != "" {
			rules = append(rules, r)
		}
	}
	return rules
}

// trimBlanks takes the spaces off the end, except one that is escaped.
func trimBlanks(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// ignoreFile reads the .gitignore in dir, or nothing.
func (v *View) ignoreFile(dir *os.Root) string {
	f, _, err := v.openIn(dir, ".gitignore")
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, ignoreMax)) // what could be read counts
	return string(b)
}

// ignoreFilesAbove returns the .gitignore files that speak of what is in dir
// from above it, outermost first: up to the root of its repository, as far as
// the scopes may be read. A folder in no repository has none.
func (v *View) ignoreFilesAbove(dir string) []string {
	var found []string
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			slices.Reverse(found)
			return found
		}
		parent := filepath.Dir(dir)
		if parent == dir || !v.reads(parent) {
			return nil
		}
		dir = parent
		name := filepath.Join(dir, ".gitignore")
		if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
			found = append(found, name)
		}
	}
}

// reads reports whether the scopes alone let path be read.
func (v *View) reads(path string) bool {
	for _, s := range v.scopes {
		if within(path, s.path) {
			return s.read
		}
	}
	return false
}

// ignoresAbove reads those of them that were granted with the call.
func (v *View) ignoresAbove(dir string) ignores {
	var ig ignores
	for _, name := range v.ignoreFilesAbove(dir) {
		f, _, err := v.Open(name)
		if err != nil {
			continue
		}
		b, _ := io.ReadAll(io.LimitReader(f, ignoreMax)) // what could be read counts
		f.Close()
		ig = ig.with(filepath.Dir(name), string(b))
	}
	return ig
}

// walkAccess states a walk: the folder, and what is read above it.
func (f *Files) walkAccess(v *View, path string) ([]mercury.Access, error) {
	a, err := v.Access(mercury.ReadPath, path)
	if err != nil {
		return nil, err
	}
	as := []mercury.Access{a}
	for _, name := range v.ignoreFilesAbove(a.Target) {
		as = append(as, mercury.Access{Kind: mercury.ReadPath, Target: name})
	}
	return as, nil
}
