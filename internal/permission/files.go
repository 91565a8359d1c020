package permission

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// Files judges paths against scopes.
type Files struct {
	// Home is Mercury's own folder. Nothing in it is reached by a path, in any
	// mode, except through a scope whose own root lies inside it, and then
	// never its keys, settings and databases.
	Home string
	// User is the person's home folder, for a leading "~/"; empty leaves the
	// tilde an ordinary character.
	User string

	// from is the resolved working directory, when the caller looks at several
	// paths seen from it.
	from *Place
}

// judge says whether kind (read, write or delete) may be done to raw, seen
// from the absolute folder dir.
func (f Files) judge(kind mercury.AccessKind, raw, dir string, scopes []mercury.Scope) (Place, finding) {
	place, stop := f.find(kind, raw, dir)
	if stop != nil {
		return place, *stop
	}
	scope, ok := f.scope(place, scopes)
	if stop := f.mercury(kind, place, scope); stop != nil {
		return place, *stop
	}
	if stop := special(kind, place); stop != nil {
		return place, *stop
	}
	if !ok {
		out := ask("path.outside", fmt.Sprintf("%s is outside the granted folders", shown(place.Path)))
		out.always = string(kind) + ":" + lasting(place)
		return place, out
	}
	if kind == mercury.ReadPath && !scope.Read || kind == mercury.WritePath && !scope.Write {
		out := ask("path.not-granted", fmt.Sprintf("%s is granted, but not to %s", shown(scope.Path), kind))
		out.always = string(kind) + ":" + lasting(place)
		return place, out
	}
	return place, inScope(kind, place, scope)
}

// inScope judges what may be done inside a scope that covers it.
func inScope(kind mercury.AccessKind, place Place, scope mercury.Scope) finding {
	path := shown(place.Path)
	if kind == mercury.DeletePath {
		switch {
		case place.Info != nil && place.below(scope.Path, nil) == len(place.chain)-1:
			return ask("path.root", fmt.Sprintf("%s is the granted folder itself", path))
		case !scope.Write && !scope.Delete:
			return ask("path.not-granted", fmt.Sprintf("%s is granted, but not to delete", shown(scope.Path)))
		}
		return ask("path.delete", fmt.Sprintf("%s would be deleted", path))
	}
	if place.Info != nil && place.Info.Mode().IsRegular() && names(place.Info) > 1 {
		return ask("path.hardlinks", fmt.Sprintf("%s has other names, which may lie outside the granted folders", path))
	}
	if kind == mercury.ReadPath && place.Info != nil && keepsSecrets(place.Path) {
		out := ask("path.secret", fmt.Sprintf("%s usually holds secrets", path))
		out.always = "read:" + place.Path
		return out
	}
	if kind == mercury.WritePath && startsPrograms(place.Path) {
		return ask("path.starts-programs", fmt.Sprintf("what is written to %s can start programs later", path))
	}
	return allow("path.scope", fmt.Sprintf("%s is inside %s", path, shown(scope.Path)))
}

// find resolves raw, or says why it has no place.
func (f Files) find(kind mercury.AccessKind, raw, dir string) (Place, *finding) {
	stop := func(why string) (Place, *finding) {
		out := deny("path.invalid", why)
		return Place{}, &out
	}
	if raw == "" {
		return stop("the path is empty")
	}
	if strings.IndexByte(raw, 0) >= 0 {
		return stop("the path holds a NUL byte")
	}
	if f.User != "" && (raw == "~" || strings.HasPrefix(raw, "~/")) {
		raw = f.User + raw[1:]
	}
	if runtime.GOOS == "windows" {
		if out := windowsName(raw); out != nil {
			return Place{}, out
		}
	}
	if !filepath.IsAbs(raw) && !filepath.IsAbs(dir) {
		return stop("the working directory is not absolute")
	}
	if tooLong(raw) {
		return stop("the path is longer than a file system allows")
	}
	place, err := f.walk(raw, dir, kind != mercury.DeletePath)
	switch {
	case err == nil:
		return place, nil
	case errors.Is(err, errLinks), errors.Is(err, errProcess):
		return stop(fmt.Sprintf("%s cannot be reached: %v", shown(raw), err))
	default:
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return stop(fmt.Sprintf("%s cannot be looked at: %v", shown(raw), err))
	}
}

func (f Files) walk(raw, dir string, follow bool) (Place, error) {
	switch {
	case filepath.IsAbs(raw):
		return walk(raw, follow)
	case f.from != nil:
		return walkFrom(*f.from, raw, follow)
	}
	// Joined as text: cleaning would take ".." after a link for granted.
	return walk(dir+string(filepath.Separator)+raw, follow)
}

func tooLong(path string) bool {
	if len(path) > maxPath {
		return true
	}
	for len(path) > 0 {
		name, rest, _ := strings.Cut(path, string(filepath.Separator))
		if len(name) > maxName {
			return true
		}
		path = rest
	}
	return false
}

// scope returns the deepest scope that holds place, its path resolved. A scope
// that is not absolute, or does not exist, covers nothing: it must not come to
// mean the current folder, or one that someone makes later.
func (f Files) scope(place Place, scopes []mercury.Scope) (mercury.Scope, bool) {
	best, found := mercury.Scope{}, -1
	for _, s := range scopes {
		if !filepath.IsAbs(s.Path) {
			continue
		}
		info, err := os.Stat(s.Path)
		if err != nil {
			continue
		}
		at := place.below(filepath.Clean(s.Path), info)
		if at > found {
			best, found = s, at
			if at < len(place.chain) {
				best.Path = place.chain[at].path
			}
		}
	}
	return best, found >= 0
}

// mercury keeps Mercury's own folder out of reach.
func (f Files) mercury(kind mercury.AccessKind, place Place, scope mercury.Scope) *finding {
	if f.Home == "" {
		return nil
	}
	stop := deny("path.mercury", "Mercury's own files are out of reach of tools")
	home, err := os.Stat(f.Home)
	real := f.Home
	if err != nil || kind == mercury.DeletePath {
		p, err := walk(f.Home, true)
		if err != nil {
			return &stop // without knowing where the home is, nothing is outside
		}
		real = p.Path
		if kind == mercury.DeletePath && place.Info != nil && p.below(place.Path, place.Info) >= 0 {
			return &stop // the home itself, or a folder that holds it
		}
	}
	at := place.below(real, home)
	if at < 0 {
		if place.Info != nil && place.Info.Mode().IsRegular() && names(place.Info) > 1 && f.ownFile(place.Info) {
			return &stop
		}
		return nil
	}
	if at < len(place.chain) {
		real = place.chain[at].path
	}
	inner := place.below(scope.Path, nil)
	if scope.Path == "" || inner <= at || protected(place.Path, real) {
		return &stop
	}
	return nil
}

// ownFile reports whether info is one of the home's protected files under
// another name. It is asked only about files that have several names.
func (f Files) ownFile(info fs.FileInfo) bool {
	found, left := false, 5000
	filepath.WalkDir(f.Home, func(path string, d fs.DirEntry, err error) error {
		if left--; err != nil || left < 0 {
			return fs.SkipAll
		}
		if d.IsDir() || !protected(path, f.Home) {
			return nil
		}
		if own, err := d.Info(); err == nil && os.SameFile(own, info) {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// special refuses what is no file: devices, pipes and sockets block, have
// effects, or both.
func special(kind mercury.AccessKind, place Place) *finding {
	if runtime.GOOS == "linux" {
		kernel := strings.HasPrefix(place.Path, "/proc/") || strings.HasPrefix(place.Path, "/sys/")
		blocks := place.Path == "/proc/kcore" || place.Path == "/proc/kmsg" || place.Path == "/proc/sysrq-trigger"
		if kernel && (kind != mercury.ReadPath || blocks) {
			out := deny("path.special", shown(place.Path)+" belongs to the kernel")
			return &out
		}
	}
	if place.Info == nil || kind == mercury.DeletePath {
		return nil
	}
	mode := place.Info.Mode()
	if mode&(fs.ModeDevice|fs.ModeCharDevice|fs.ModeNamedPipe|fs.ModeSocket|fs.ModeIrregular) != 0 {
		out := deny("path.special", shown(place.Path)+" is a device, pipe or socket")
		return &out
	}
	if kind == mercury.WritePath && mode.IsDir() {
		out := deny("path.directory", shown(place.Path)+" is a folder")
		return &out
	}
	return nil
}

// lasting is the path a lasting rule would name: the file itself, or a folder
// with what is in it, which is what whoever reads a folder sees.
func lasting(place Place) string {
	if place.Info != nil && place.Info.IsDir() && place.Path != filepath.Dir(place.Path) {
		return place.Path + string(filepath.Separator) + "**"
	}
	return place.Path
}

// shown writes a path for a person: characters that hide or reorder text are
// escaped.
func shown(path string) string {
	if strings.IndexFunc(path, func(r rune) bool { return r < ' ' || r >= 0x7f && invisible(r) }) < 0 {
		return path
	}
	var b strings.Builder
	for _, r := range path {
		if invisible(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
