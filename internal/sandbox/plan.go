package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// planVersion is raised when a plan's meaning changes. Between the replacement
// of the program and its restart the two halves may differ; then they refuse.
const planVersion = 2

// Descriptors of the helper, after its standard ones.
const (
	planFD  = 3
	readyFD = 4
	groupFD = 5 // and on: files by which the helper joins a control group
)

// began is what the helper says last before it becomes the command.
const began = "1"

// plan is what the helper is told: the command, and the last walls.
type plan struct {
	Version int      `json:"version"`
	Level   Level    `json:"level"`
	Path    string   `json:"path"`
	Env     []string `json:"env"`
	ABI     int      `json:"abi"` // of Landlock, to be used; 0: none
	Read    []string `json:"read,omitempty"`
	Write   []string `json:"write,omitempty"`
	Network bool     `json:"network,omitempty"`
	OwnNet  bool     `json:"own_net,omitempty"`  // it has a network of its own, with nobody in it
	Unix    bool     `json:"unix,omitempty"`     // sockets of this machine lead nowhere outside
	OwnPIDs bool     `json:"own_pids,omitempty"` // it sees its own processes only
	Groups  int      `json:"groups,omitempty"`
	Limits  Limits   `json:"limits"`
	Veil    Veil     `json:"veil,omitempty"`   // how Hidden is hidden, at the level Veiled
	Hidden  []string `json:"hidden,omitempty"` // physical paths

	args []string
}

func newPlan(c Command, r resolved, scratch string, report Report) plan {
	pl := plan{Version: planVersion, Level: report.Level, Path: c.Path, ABI: report.ABI, Network: r.network,
		Limits: r.limits, args: c.Args}
	tmp := scratch
	if report.Level.AtLeast(Bwrap) {
		tmp = "/tmp"
	}
	pl.Env = homed(c.Env, tmp)
	return pl
}

// homed points a command's home and its temporary files into the fence.
func homed(env []string, tmp string) []string {
	out := []string{}
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "TMPDIR", "TEMP", "TMP":
		case "HOME":
			out = append(out, "HOME="+filepath.Join(tmp, "home"))
		default:
			out = append(out, v)
		}
	}
	return append(out, "TMPDIR="+tmp)
}

// helper is the command line of the helper, called as path.
func (pl *plan) helper(path string) []string {
	return append([]string{path, Subcommand, strconv.Itoa(planFD), "--"}, pl.args...)
}

// file writes the plan where the helper finds it, under no name.
func (pl *plan) file(dir string) (*os.File, error) {
	b, err := json.Marshal(pl)
	if err != nil {
		return nil, fmt.Errorf("write the plan of a fence: %w", err)
	}
	f, err := os.CreateTemp(dir, "plan-")
	if err != nil {
		return nil, fmt.Errorf("write the plan of a fence: %w", err)
	}
	err = os.Remove(f.Name())
	if err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("write the plan of a fence: %w", err)
	}
	return f, nil
}

// Subcommand is the first argument by which this program is the helper.
const Subcommand = "__sandbox"

// Main is the helper: "__sandbox FD -- argv…" without its first word. It
// becomes the command, so it returns only when that failed, with the exit code
// of a command that cannot be started.
func Main(args []string) int {
	err := become(args)
	ready := os.NewFile(readyFD, "ready")
	if _, werr := ready.WriteString(err.Error()); werr != nil {
		fmt.Fprintln(os.Stderr, "mercury "+Subcommand+": "+err.Error())
	}
	return 126
}

func become(args []string) error {
	if len(args) < 3 || args[1] != "--" {
		return errors.New("this command is Mercury's own: it starts others inside a fence")
	}
	fd, err := strconv.Atoi(args[0])
	if err != nil || fd < planFD {
		return fmt.Errorf("there is no plan at descriptor %q", args[0])
	}
	f := os.NewFile(uintptr(fd), "plan")
	b, err := io.ReadAll(f)
	f.Close()
	if err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	var pl plan
	if err := json.Unmarshal(b, &pl); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if pl.Version != planVersion {
		return fmt.Errorf("the plan has version %d, this program knows %d: restart Mercury", pl.Version, planVersion)
	}
	pl.args = args[2:]
	return confine(&pl)
}
