package permission

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Child returns the mandate of a run that another one starts: what wish asks
// for, as far as parent has it. A mode is never inherited: the child is in
// ModeAsk. It is asked for only where the parent is, may send unasked only
// where the parent may, and has no tool and no folder that the parent lacks.
func Child(parent, wish mercury.Mandate) mercury.Mandate {
	out := wish
	out.Mode = ModeAsk
	out.Interactive = wish.Interactive && parent.Interactive
	out.Tools = childTools(parent.Tools, wish.Tools)
	out.Scopes = childScopes(parent.Scopes, wish.Scopes)
	if out.Workspace == "" {
		out.Workspace = parent.Workspace
	}
	if out.Destination != parent.Destination {
		out.Destination = ""
	}
	return out
}

// childTools intersects two lists of tool patterns; what either denies stays
// denied. nil is every tool.
func childTools(parent, wish []string) []string {
	if parent == nil {
		return wish
	}
	if wish == nil {
		return parent
	}
	split := func(list []string) (given, denied []string) {
		for _, t := range list {
			if strings.HasPrefix(t, "!") {
				denied = append(denied, t)
			} else {
				given = append(given, t)
			}
		}
		if len(given) == 0 && len(denied) > 0 {
			given = []string{"*"} // nothing but denials: all the rest
		}
		return given, denied
	}
	has, never := split(parent)
	wants, refuses := split(wish)
	out := append(append([]string{}, never...), refuses...)
	none := true
	for _, t := range wants {
		if matches(has, t) {
			out, none = append(out, t), false
		}
	}
	for _, t := range has {
		if matches(wants, t) && !slices.Contains(out, t) {
			out, none = append(out, t), false
		}
	}
	if none {
		return []string{} // a list of denials alone would give all the rest
	}
	return out
}

// childScopes keeps the folders of wish that lie in folders of parent, with
// the rights that both give. nil asks for the parent's own.
func childScopes(parent, wish []mercury.Scope) []mercury.Scope {
	if wish == nil {
		return parent
	}
	var out []mercury.Scope
	for _, w := range wish {
		path := filepath.Clean(w.Path)
		best, deepest := mercury.Scope{}, -1
		for _, p := range parent {
			root := filepath.Clean(p.Path)
			prefix := strings.TrimSuffix(root, string(filepath.Separator)) + string(filepath.Separator)
			if (path == root || strings.HasPrefix(path, prefix)) && len(root) > deepest {
				best, deepest = p, len(root)
			}
		}
		if deepest < 0 {
			continue
		}
		out = append(out, mercury.Scope{
			Path: w.Path, Read: w.Read && best.Read, Write: w.Write && best.Write, Delete: w.Delete && best.Delete,
		})
		// A folder inside that the parent may use less stays as narrow.
		for _, p := range parent {
			if root := filepath.Clean(p.Path); strings.HasPrefix(root, strings.TrimSuffix(path, string(filepath.Separator))+string(filepath.Separator)) {
				out = append(out, mercury.Scope{Path: p.Path, Read: p.Read && w.Read, Write: p.Write && w.Write, Delete: p.Delete && w.Delete})
			}
		}
	}
	return out
}
