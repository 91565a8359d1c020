package setup

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/mercury-agent/mercury/internal/atomicfile"
	"github.com/mercury-agent/mercury/internal/config"
)

// progress are the questions that were answered in a set-up that has not come
// to its end. It lies in setup.json of the home until then.
type progress map[string]bool

func progressFile(home config.Home) string { return filepath.Join(home.Dir(), "setup.json") }

// Begun reports whether a set-up of this home was begun and not finished.
func Begun(home config.Home) bool { return len(readProgress(home)) > 0 }

// readProgress returns what was answered. A file that cannot be read means
// nothing was: asking again does no harm.
func readProgress(home config.Home) progress {
	p := progress{}
	text, err := os.ReadFile(progressFile(home))
	var answered []string
	if err == nil && json.Unmarshal(text, &answered) == nil {
		for _, name := range answered {
			p[name] = true
		}
	}
	return p
}

func (p progress) add(home config.Home, name string) error {
	p[name] = true
	text, err := json.Marshal(slices.Sorted(maps.Keys(p)))
	if err == nil {
		err = atomicfile.Write(progressFile(home), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("note what is set up: %w", err)
	}
	return nil
}

func (p progress) forget(home config.Home) { os.Remove(progressFile(home)) }
