package tool

import (
	"fmt"
	"slices"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

// RuleReads is the rule by which a gate lets a command pass that only reads.
const RuleReads = "command.argv"

// Marks are the outside sources of what a call with these accesses may have
// read: of a file that was read or moved, and for a command of anything in its
// folder.
func Marks(tx store.Tx, accesses []mercury.Access) ([]string, error) {
	var sources []string
	for _, a := range accesses {
		path := a.Target
		switch a.Kind {
		case mercury.RunCommand:
			path = a.Dir
		case mercury.ReadPath:
		case mercury.DeletePath: // what moves takes its marks along
			if !slices.ContainsFunc(accesses, func(b mercury.Access) bool { return b.Kind == mercury.WritePath }) {
				continue
			}
		default:
			continue
		}
		if path == "" {
			continue
		}
		found, err := tx.FileTaint(path)
		if err != nil {
			return nil, fmt.Errorf("read the marks of %s: %w", path, err)
		}
		sources = union(sources, found)
	}
	return sources, nil
}

// Mark writes what a call did to the marks of files: what it wrote holds text
// from the sources, and what a command that does more than read ran in may.
func Mark(tx store.Tx, name, runID string, p Prepared, sources []string, failed bool) error {
	for _, a := range p.Accesses {
		switch {
		case a.Kind == mercury.WritePath && !failed:
			if len(sources) == 0 && name != "write_file" {
				continue // what it held before may still be there
			}
			now := sources
			if len(sources) > 0 {
				before, err := tx.FileTaint(a.Target)
				if err != nil {
					return err
				}
				now = union(before, sources)
			}
			if err := tx.TaintFile(a.Target, now, runID); err != nil {
				return fmt.Errorf("mark %s: %w", a.Target, err)
			}
		case a.Kind == mercury.RunCommand && len(sources) > 0 && p.Judgement.Rule != RuleReads && a.Dir != "":
			if err := tx.TaintFile(a.Dir, sources, runID); err != nil {
				return fmt.Errorf("mark %s: %w", a.Dir, err)
			}
		}
	}
	return nil
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
