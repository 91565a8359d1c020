//go:build !linux && !darwin

package sandbox

import (
	"errors"
	"os"
)

// systemFolders is empty where no fence holds files.
var systemFolders []string

func thisSystem() system { return system{} }

func (f *Fence) possible(Level) error { return errNone }

var errNone = errors.New("this system has no fence for commands")

func (s system) advice(Level, map[Level]error) (missing, cure string) {
	return errNone.Error(), "Let bots work without commands, or run Mercury on Linux or macOS, on Windows in WSL."
}

func wrap(string, *plan, resolved, string, Report, system) ([]string, error) { return nil, errNone }

func confine(*plan) error { return errNone }

// group is what bounds a command as a whole; here the room that starts
// commands has its own means.
type group struct{ enter []*os.File }

func newGroup(Limits) *group { return nil }

func (g *group) end() {}
