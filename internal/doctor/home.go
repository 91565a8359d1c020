package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/mercury-agent/mercury/internal/backup"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store/homelock"
	"github.com/mercury-agent/mercury/internal/tool/shell"
)

// ownHome looks whether there is a home of ours at all; else there is nothing
// more to look at.
func (e *exam) ownHome() bool {
	dir := e.Home.Dir()
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.add("home", Fault, "there is no home at "+dir, "Run `mercury setup` to make one; or set MERCURY_HOME to where yours is.")
		return false
	case err != nil:
		e.add("home", Fault, "the home cannot be looked at: "+err.Error(), "Make "+dir+" readable for this user.")
		return false
	case !info.IsDir():
		e.add("home", Fault, dir+" is no folder", "Move that file away, or set MERCURY_HOME to another place.")
		return false
	}
	if err := e.Home.Guard(); errors.Is(err, config.ErrForeignHome) {
		e.add("home", Fault, dir+" is a home of the TypeScript Mercury; nothing in it is ever changed", "Set MERCURY_HOME to another folder for this one.")
		return false
	}
	if err := backup.Unfinished(dir); err != nil {
		e.add("home", Fault, "a backup was not restored to the end", mercury.HelpOf(err))
		return false
	}
	if err := e.access(dir); err != nil {
		e.add("home", Fault, "nothing can be written in "+dir+": "+err.Error(), "Make the home and all in it writable for the user Mercury runs as; a disk that was mounted read-only after an error needs a look at the system's log.")
	}
	return true
}

// files looks at who may read what, and at folders that should be there.
func (e *exam) files() {
	dir := e.Home.Dir()
	if runtime.GOOS != "windows" {
		e.private(dir, 0o077, "the home can be looked into by other users of this machine", 0o700)
		for _, name := range []string{e.Home.Env(), e.Home.TokenFile()} {
			e.private(name, 0o077, "it holds secrets and others can read it", 0o600)
		}
		for _, name := range []string{e.Home.Database(), e.Home.Config(), e.Home.Good()} {
			e.private(name, 0o022, "others can change it", 0o600)
		}
		bots, _ := filepath.Glob(filepath.Join(e.Home.Bots(), "*", ".env"))
		for _, name := range bots {
			e.private(name, 0o077, "it holds secrets and others can read it", 0o600)
		}
	}
	e.folders()
	if len(e.found) == 0 {
		e.add("home", Fine, dir+" is private and complete", "")
	}
}

// folders looks at those that every home has.
func (e *exam) folders() {
	var missing, names []string
	for _, folder := range []string{e.Home.Soul(), e.Home.Skills(), e.Home.Bots(), e.Home.Logs(), e.Home.Files(), e.Home.Backups()} {
		info, err := os.Stat(folder)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing, names = append(missing, folder), append(names, filepath.Base(folder))
		case err == nil && !info.IsDir():
			e.add("home", Fault, folder+" should be a folder and is a file", "Move it away.")
		}
	}
	if len(missing) == 0 {
		return
	}
	e.mendable("home", Note, "missing: "+strings.Join(names, ", "), "They are made at the next start.", func() error {
		var errs []error
		for _, folder := range missing {
			errs = append(errs, os.MkdirAll(folder, 0o700))
		}
		return errors.Join(errs...)
	})
}

// private wants none of the bits for others than the owner.
func (e *exam) private(path string, bits fs.FileMode, why string, mode fs.FileMode) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&bits == 0 {
		return
	}
	e.mendable("permissions", Warning, fmt.Sprintf("%s has the mode %04o: %s", path, info.Mode().Perm(), why), fmt.Sprintf("chmod %o %s", mode, path),
		func() error { return os.Chmod(path, mode) })
}

// abandoned is how old a half-written file is at the least before it is taken
// for one that a kill left.
const abandoned = time.Hour

// leftovers looks for what killed processes left.
func (e *exam) leftovers() {
	if held, _ := homelock.Held(e.Home.Dir()); held {
		return // what looks left behind may be in use
	}
	var names []string
	for _, pattern := range []string{"mercury.db.new*", ".moving", ".*.tmp", filepath.Join("backups", ".part-*"), filepath.Join("backups", "*.db.part")} {
		found, _ := filepath.Glob(filepath.Join(e.Home.Dir(), pattern))
		for _, name := range found {
			if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > abandoned {
				names = append(names, name)
			}
		}
	}
	if len(names) > 0 {
		e.mendable("leftovers", Warning, "half-written files of a process that was killed: "+strings.Join(names, ", "), "They can be removed.", func() error {
			var errs []error
			for _, name := range names {
				errs = append(errs, os.RemoveAll(name))
			}
			return errors.Join(errs...)
		})
	}
	node, err := os.ReadFile(filepath.Join(e.Home.Dir(), "node"))
	owner := strings.TrimPrefix(strings.TrimSpace(string(node)), "node_")
	if err != nil || owner == "" {
		return
	}
	if n := shell.Leftovers(owner); n > 0 {
		e.mendable("leftovers", Warning, some(n, "process that a killed Mercury started is still running", "processes that a killed Mercury started are still running"), "They are ended at the next start.", func() error {
			shell.EndLeftovers(owner)
			return nil
		})
	}
}

// runtime looks at the Mercury that runs in the home, or why none does.
func (e *exam) runtime(ctx context.Context) {
	held, holder := homelock.Held(e.Home.Dir())
	if e.Runtime != nil && held {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if st, err := e.Runtime(ctx); err == nil {
			e.status = &st
		}
	}
	switch {
	case e.status != nil:
		e.running()
	case held && holder.PID != 0:
		e.add("runtime", Fault, fmt.Sprintf("process %d has the home and does not answer at %s", holder.PID, orUnknown(holder.Address)),
			fmt.Sprintf("Wait a moment if it has just started or is making a backup; else end process %d: nothing that was accepted is lost.", holder.PID))
	case held:
		e.add("runtime", Fault, "another process has the home and does not say which", "Find the process that has mercury.lock open, and end it.")
	default:
		e.add("runtime", Note, "no Mercury runs in this home", "Start one with `mercury start`.")
		e.port()
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "any address"
	}
	return s
}

func (e *exam) running() {
	st := e.status
	if st.Version != e.Version {
		e.add("versions", Warning, fmt.Sprintf("version %s runs, and this program is version %s", st.Version, e.Version), "Restart Mercury, so that one version does all.")
	}
	for _, p := range st.Processes {
		if p.Version != st.Version {
			e.add("versions", Note, fmt.Sprintf("%s, on the same database, is version %s", p.Name, p.Version), "")
		}
	}
	for _, p := range st.Problems {
		if !strings.Contains(p, "`mercury backup resume`") { // what is held is looked at apart
			e.add("runtime", Fault, p, "Once it is mended Mercury goes on by itself; its log has the details.")
		}
	}
	if len(st.Problems) == 0 {
		e.add("runtime", Fine, fmt.Sprintf("Mercury %s is %s at http://%s (pid %d)", st.Version, st.State, st.Listen, st.PID), "")
	}
}
