package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Veiled is the level of a command that no fence holds, because a person
// allowed it: it may do what the person may, but what is hidden stays hidden.
const Veiled Level = "veiled"

// Veil is how a system hides folders from commands outside the fence.
type Veil string

// The ways. Which one a system has is found out by trying it.
const (
	ByNamespace   Veil = "namespace"    // Linux: an empty folder is mounted over the hidden one
	ByLandlock    Veil = "landlock"     // Linux: everything but the hidden folder is granted
	BySandboxExec Veil = "sandbox-exec" // macOS: a profile that denies the hidden folder
)

// ErrUnveiled says that this system can hide nothing from a command.
var ErrUnveiled = errors.New("nothing here hides a folder from commands")

// Veil prepares c to run outside the fence, with its own environment, network
// and rights, but without a way to the hidden folders: they are neither read
// nor written, under any of their names, nor through the files of another
// process. Nothing runs yet; Stdin, Stdout and Stderr are the caller's to set.
func (f *Fence) Veil(ctx context.Context, c Command, hidden []string) (*Process, error) {
	report := f.Probe(ctx)
	if report.Veil == "" {
		return nil, ErrUnveiled
	}
	return f.veil(c, hidden, report.Veil)
}

// VeilServer is Veil for a program that runs for long and keeps files of its
// own: where there are two ways it is the one that lets it make new ones
// anywhere, also right beside what is hidden.
func (f *Fence) VeilServer(ctx context.Context, c Command, hidden []string) (*Process, error) {
	if f.Probe(ctx).Mounts {
		return f.veil(c, hidden, ByNamespace)
	}
	return f.Veil(ctx, c, hidden)
}

func (f *Fence) veil(c Command, hidden []string, how Veil) (*Process, error) {
	dir, ok := physical(c.Dir)
	if !ok {
		return nil, fmt.Errorf("the folder %s, where the command should run, is gone", c.Dir)
	}
	hidden = everywhere(hidden)
	if within(dir, hidden) {
		return nil, fmt.Errorf("the folder %s, where the command should run, is hidden from commands", c.Dir)
	}
	proc, err := f.begin(Veiled)
	if err != nil {
		return nil, err
	}
	pl := plan{Version: planVersion, Level: Veiled, Path: c.Path, Env: c.Env, Veil: how, Hidden: hidden, ABI: f.sys.abi, args: c.Args}
	if err := pl.around(); err != nil {
		return nil, errors.Join(err, proc.Close())
	}
	if err := proc.helper(veilArguments(f.opts.Self, &pl), &pl, nil); err != nil {
		return nil, errors.Join(err, proc.Close())
	}
	proc.Cmd.Dir, proc.Cmd.SysProcAttr = dir, veilAttributes(how)
	if how == ByLandlock {
		proc.Shut = above(hidden)
	}
	return proc, nil
}

// around finds what a veil that can only grant has to name: all that is not
// hidden.
func (pl *plan) around() (err error) {
	if pl.Veil == ByLandlock {
		pl.Write, err = carve("/", pl.Hidden)
	}
	return err
}

// above are the folders on the way to what is hidden. A veil that can only
// grant lets nothing new be made directly in them.
func above(hidden []string) (shut []string) {
	for _, h := range hidden {
		for dir := filepath.Dir(h); ; dir = filepath.Dir(dir) {
			shut = append(shut, dir)
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return shut
}

// searchVeil finds the first way that works here, by hiding a folder from a
// command that reads in it, and whether mounting does.
func (f *Fence) searchVeil(ctx context.Context) (first Veil, mounts bool) {
	for _, how := range f.sys.veils {
		if how == ByLandlock && (f.sys.abi < abiMoves || first != "") || f.tryVeil(ctx, how) != nil {
			continue
		}
		if first == "" {
			first = how
		}
		mounts = mounts || how == ByNamespace
	}
	return first, mounts
}

func (f *Fence) tryVeil(ctx context.Context, how Veil) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	if err := os.MkdirAll(f.opts.Scratch, 0o700); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(f.opts.Scratch, "veil-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "hidden")
	if err := os.WriteFile(file, []byte("seen"), 0o600); err != nil {
		return err
	}
	cat, err := exec.LookPath("/bin/cat")
	if err != nil {
		return err
	}
	p, err := f.veil(Command{Path: cat, Args: []string{"cat", file}, Env: []string{}, Dir: "/"}, []string{dir}, how)
	if err != nil {
		return err
	}
	p.stale = func() {}
	var said bytes.Buffer
	p.Stdout = &said
	p.WaitDelay = time.Second
	if err = p.Start(); err == nil {
		stop := context.AfterFunc(ctx, func() { _ = p.Cmd.Process.Kill() })
		err = p.Wait()
		stop()
	}
	cerr := p.Close()
	switch {
	case cerr != nil:
		return cerr
	case err == nil || strings.Contains(said.String(), "seen"):
		return errors.New("it hides nothing")
	}
	return nil
}
