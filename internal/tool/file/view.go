package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool"
)

// A View is the part of the file system that one call may reach. With
// Call.Granted set, that is what was granted; without it, the scopes of the
// mandate. In both cases the longest scope that covers a path decides, so a
// closed folder inside an open one stays closed.
type View struct {
	opts      Options
	workspace string
	outputs   string // real path of the call's output folder
	scopes    []scope
	grants    []mercury.Access
	granted   bool
	hidden    []os.FileInfo
	keys      map[fileID]bool // files below hidden folders, once needed
}

type scope struct {
	path        string // real
	read, write bool
	info        os.FileInfo // nil: does not exist
}

// NewView returns the view of c.
func NewView(o Options, c tool.Call) *View {
	v := &View{opts: o, workspace: c.Folder(), grants: c.Granted, granted: c.Granted != nil}
	if c.Outputs != "" {
		if real, err := resolve(c.Outputs); err == nil {
			v.outputs = real
		}
	}
	v.scopes = scopes(c.Mandate.Scopes)
	for _, h := range o.Hidden {
		if info, err := os.Stat(h); err == nil {
			v.hidden = append(v.hidden, info)
		}
	}
	return v
}

// scopes resolves the paths of a mandate. A link counts only where no other
// scope could have put it: a scope inside another one must not be moved by
// whoever may write in the outer one.
func scopes(stated []mercury.Scope) []scope {
	stated = slices.Clone(stated)
	slices.SortStableFunc(stated, func(a, b mercury.Scope) int { return len(filepath.Clean(a.Path)) - len(filepath.Clean(b.Path)) })
	var out []scope
	for _, s := range stated {
		if !filepath.IsAbs(s.Path) {
			continue // would mean whatever the current folder is
		}
		path := filepath.Clean(s.Path)
		real, err := resolve(path)
		if err != nil {
			continue
		}
		moved := func(o scope) bool { return o.write && within(path, o.path) && real != path }
		if slices.ContainsFunc(out, moved) {
			continue
		}
		info, _ := os.Lstat(real)
		out = append(out, scope{path: real, read: s.Read, write: s.Write, info: info})
	}
	slices.SortStableFunc(out, func(a, b scope) int { return len(b.path) - len(a.path) })
	return out
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	if path == dir {
		return true
	}
	if !strings.HasSuffix(dir, string(filepath.Separator)) {
		dir += string(filepath.Separator)
	}
	return strings.HasPrefix(path, dir)
}

func (s scope) may(kind mercury.AccessKind) bool {
	if kind == mercury.ReadPath {
		return s.read
	}
	return s.write
}

// errors of the view, for the model.
var (
	errOutside = errors.New("it is outside the folders this conversation may use")
	errHidden  = errors.New("it belongs to Mercury itself and is out of reach of every tool")
	errMoved   = errors.New("what this path leads to changed while it was opened; look again")
)

// Access resolves path, as a model wrote it, to the access that doing kind to
// it would be.
func (v *View) Access(kind mercury.AccessKind, path string) (mercury.Access, error) {
	abs, err := v.absolute(path)
	if err != nil {
		return mercury.Access{}, err
	}
	real, err := resolve(abs)
	if err != nil {
		return mercury.Access{}, err
	}
	a := mercury.Access{Kind: kind, Target: real}
	if v.outputs != "" && kind == mercury.ReadPath && within(real, v.outputs) {
		a.Kind = mercury.OwnState
		return a, nil
	}
	if kind != mercury.ReadPath {
		if info, err := os.Lstat(real); err == nil && info.Mode().IsRegular() {
			if n := links(info); n > 1 {
				a.Detail = fmt.Sprintf("one of %d names of the same file, by hard links", n)
			}
		}
	}
	return a, nil
}

// admit resolves path again and holds it to what was granted.
func (v *View) admit(kind mercury.AccessKind, path string) (real string, err error) {
	a, err := v.Access(kind, path)
	if err != nil {
		return "", err
	}
	if v.granted && !slices.ContainsFunc(v.grants, func(g mercury.Access) bool {
		return g.Kind == a.Kind && g.Target == a.Target && g.Detail == a.Detail
	}) {
		return "", denied(path, errMoved)
	}
	return a.Target, nil
}

// absolute turns what a model wrote into an absolute path, dot-dots and links
// still in it.
func (v *View) absolute(path string) (string, error) {
	if err := checkName(path); err != nil {
		return "", err
	}
	if path == "~" || strings.HasPrefix(path, "~/") {
		home := v.opts.Home
		if home == "" {
			var err error
			if home, err = os.UserHomeDir(); err != nil {
				return "", fmt.Errorf("resolve %q: %w", path, err)
			}
		}
		path = home + path[1:]
	}
	if filepath.IsAbs(path) {
		return path, nil
	}
	if v.workspace == "" {
		return "", invalid(fmt.Sprintf("%q is relative, and there is no workspace here", path), "Give an absolute path.")
	}
	// Not Join, which would take away a dot-dot together with a link before
	// the link was followed.
	return v.workspace + string(filepath.Separator) + path, nil
}

// pathMax bounds a path in bytes.
const pathMax = 4096

func checkName(path string) error {
	if len(path) > pathMax {
		return invalid("the path is longer than 4096 bytes", "")
	}
	for i := 0; i < len(path); i++ {
		if path[i] < 0x20 || path[i] == 0x7f {
			return invalid(fmt.Sprintf("the path %q has a control character in it", path), "")
		}
	}
	return checkSystemName(path)
}

// decides returns the path of the grant or scope that lets kind be done to
// real, or an error.
func (v *View) decides(kind mercury.AccessKind, real string) (string, error) {
	top := ""
	if v.outputs != "" && kind == mercury.ReadPath && within(real, v.outputs) {
		return v.outputs, nil
	}
	if v.granted {
		for _, g := range v.grants {
			if g.Kind == kind && within(real, g.Target) && len(g.Target) > len(top) {
				top = g.Target
			}
		}
		if top == "" {
			return "", errOutside
		}
	}
	for _, s := range v.scopes { // longest first
		if !within(real, s.path) {
			continue
		}
		if len(s.path) <= len(top) {
			break // the grant is nearer
		}
		if !s.may(kind) {
			return "", errOutside
		}
		return s.path, nil
	}
	if top == "" {
		return "", errOutside
	}
	return top, nil
}

// closed returns what a way down to a path that by allowed must not pass:
// hidden things, and closed scopes that by does not lie in. They are compared
// by identity, so that another spelling on a file system that ignores case
// does not open them.
func (v *View) closed(kind mercury.AccessKind, by string) []os.FileInfo {
	out := slices.Clone(v.hidden)
	for _, s := range v.scopes {
		if s.info != nil && !s.may(kind) && !within(by, s.path) {
			out = append(out, s.info)
		}
	}
	return out
}

// Open opens the regular file that path, as a model wrote it, leads to.
func (v *View) Open(path string) (*os.File, os.FileInfo, error) {
	real, err := v.admit(mercury.ReadPath, path)
	if err != nil {
		return nil, nil, err
	}
	dir, err := v.dir(mercury.ReadPath, filepath.Dir(real), false, real)
	if err != nil {
		return nil, nil, explain(path, err)
	}
	defer dir.Close()
	f, info, err := v.openIn(dir, filepath.Base(real))
	if err != nil {
		return nil, nil, explain(path, err)
	}
	return f, info, nil
}

// openIn opens the regular file name in dir for reading.
func (v *View) openIn(dir *os.Root, name string) (*os.File, os.FileInfo, error) {
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if err := v.plainFile(before); err != nil {
		return nil, nil, err
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = errMoved
	}
	if err == nil {
		err = v.plainFile(after)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, after, nil
}

// plainFile refuses what is not a regular file, and what is hidden under
// another name.
func (v *View) plainFile(info os.FileInfo) error {
	if k := kindOf(info.Mode()); k != "file" {
		if k == "link" {
			return errMoved
		}
		return fmt.Errorf("it is a %s, not a file", k)
	}
	for _, h := range v.hidden {
		if os.SameFile(h, info) {
			return errHidden
		}
	}
	if links(info) > 1 && v.hiddenKey(info) {
		return errHidden
	}
	return nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "file"
	case m.IsDir():
		return "folder"
	case m&fs.ModeSymlink != 0:
		return "link"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// keyDepth and keyMax bound the search for hard links to hidden files.
const keyDepth, keyMax = 3, 20000

// hiddenKey reports whether a file with several names has one of them below a
// hidden folder.
func (v *View) hiddenKey(info os.FileInfo) bool {
	id, ok := idOf(info)
	if !ok {
		return false
	}
	if v.keys == nil {
		v.keys = map[fileID]bool{}
		for _, h := range v.opts.Hidden {
			top, err := filepath.EvalSymlinks(h)
			if err != nil {
				continue // not there: it has no files
			}
			_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err != nil || len(v.keys) > keyMax {
					return fs.SkipDir
				}
				if d.IsDir() {
					if rel, _ := filepath.Rel(top, path); strings.Count(rel, string(filepath.Separator)) >= keyDepth {
						return fs.SkipDir
					}
					return nil
				}
				if info, err := d.Info(); err == nil && links(info) > 1 {
					if id, ok := idOf(info); ok {
						v.keys[id] = true
					}
				}
				return nil
			})
		}
	}
	return v.keys[id]
}

func denied(path string, err error) error {
	return &mercury.Error{Kind: mercury.Denied, Err: fmt.Errorf("%s: %w", path, err)}
}

func invalid(text, help string) error {
	return &mercury.Error{Kind: mercury.Invalid, Help: help, Err: errors.New(text)}
}

// explain says a file system error in words, without the syscall.
func explain(path string, err error) error {
	switch {
	case errors.Is(err, errOutside), errors.Is(err, errHidden), errors.Is(err, errMoved):
		return denied(path, err)
	case errors.Is(err, fs.ErrNotExist):
		return &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("%s does not exist", path)}
	case errors.Is(err, fs.ErrPermission):
		return denied(path, errors.New("the system does not permit it"))
	}
	var nf *notFolder
	if errors.As(err, &nf) {
		return nf
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}
