package permission

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Place is where a path leads once every link in it is followed, as the kernel
// would follow them.
type Place struct {
	Path string      // physical path; it holds no link and no dots
	Info fs.FileInfo // what is there, itself not followed; nil when nothing is

	chain []step // the root and every existing element below it
}

// step is one existing element of a physical path.
type step struct {
	path string
	info fs.FileInfo
}

const (
	maxLinks = 40   // as the kernel allows
	maxPath  = 4096 // bytes
	maxName  = 255  // bytes
)

var (
	errLinks   = errors.New("its links never end")
	errProcess = errors.New("it leads through a process")
)

// walk follows the absolute path raw. The last element is followed too if
// follow is set or raw ends in a separator. ".." is the physical parent, as it
// is for the kernel: after a link it is not what the text suggests.
func walk(raw string, follow bool) (Place, error) {
	root, rest := splitRoot(raw)
	follow = follow || strings.HasSuffix(rest, string(filepath.Separator))
	w := walker{root: root, follow: follow, todo: elements(rest)}
	if err := w.restart(root); err != nil {
		return Place{}, err
	}
	return w.run()
}

// walkFrom follows the relative path raw from base.
func walkFrom(base Place, raw string, follow bool) (Place, error) {
	w := walker{follow: follow || strings.HasSuffix(raw, string(filepath.Separator)), todo: elements(raw)}
	w.root, _ = splitRoot(base.Path)
	w.chain = append(make([]step, 0, len(base.chain)+len(w.todo)), base.chain...)
	if rest := strings.TrimPrefix(base.Path, base.chain[len(base.chain)-1].path); rest != "" {
		w.missing = elements(rest)
	}
	return w.run()
}

func (w *walker) run() (Place, error) {
	for len(w.todo) > 0 {
		if err := w.next(); err != nil {
			return Place{}, err
		}
	}
	last := w.chain[len(w.chain)-1]
	if len(w.missing) == 0 {
		return Place{Path: last.path, Info: last.info, chain: w.chain}, nil
	}
	path := filepath.Join(append([]string{last.path}, w.missing...)...)
	return Place{Path: path, chain: w.chain}, nil
}

func splitRoot(raw string) (root, rest string) {
	volume := filepath.VolumeName(raw)
	return volume + string(filepath.Separator), raw[len(volume):]
}

func elements(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool {
		return r == filepath.Separator || runtime.GOOS == "windows" && r == '/'
	})
}

type walker struct {
	root    string
	follow  bool
	chain   []step
	todo    []string
	missing []string // elements below the last existing one
	links   int
}

func (w *walker) restart(root string) error {
	info, err := os.Lstat(root)
	if err != nil {
		return err
	}
	w.root, w.missing = root, nil
	w.chain = append(w.chain[:0], step{root, info})
	return nil
}

func (w *walker) next() error {
	name := w.todo[0]
	w.todo = w.todo[1:]
	switch {
	case name == ".":
		return nil
	case name == "..":
		if n := len(w.missing); n > 0 {
			w.missing = w.missing[:n-1]
		} else if n := len(w.chain); n > 1 {
			w.chain = w.chain[:n-1]
		}
		return nil
	case len(w.missing) > 0:
		w.missing = append(w.missing, name)
		return nil
	}
	parent := w.chain[len(w.chain)-1].path
	path := filepath.Join(parent, name)
	if isProcess(parent, name) {
		return errProcess
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist) || isNotDirectory(err):
		w.missing = append(w.missing, name)
		return nil
	default:
		return err
	}
	link := info.Mode()&fs.ModeSymlink != 0 || info.Mode()&fs.ModeIrregular != 0 && runtime.GOOS == "windows"
	if !link || len(w.todo) == 0 && !w.follow {
		w.chain = append(w.chain, step{path, info})
		return nil
	}
	return w.through(path)
}

func (w *walker) through(link string) error {
	if w.links++; w.links > maxLinks {
		return errLinks
	}
	target, err := os.Readlink(link)
	if err != nil {
		return err
	}
	rest := target
	if filepath.IsAbs(target) {
		var root string
		root, rest = splitRoot(target)
		if err := w.restart(root); err != nil {
			return err
		}
	}
	if strings.HasSuffix(target, string(filepath.Separator)) && len(w.todo) == 0 {
		w.follow = true
	}
	w.todo = append(elements(rest), w.todo...)
	return nil
}

// isProcess recognises the folders of processes below /proc. Their links are
// no ordinary links and their files show memory, environments and open files.
func isProcess(parent, name string) bool {
	if parent != "/proc" || runtime.GOOS != "linux" {
		return false
	}
	return name == "self" || name == "thread-self" || strings.Trim(name, "0123456789") == ""
}

// below returns how many elements deep p lies in the folder (or file) that
// info and path name, counting from the end: -1 when it is not inside. Two
// names of one folder are the same folder, whatever their letters: identity
// decides, the text only where nothing exists yet.
func (p Place) below(path string, info fs.FileInfo) int {
	for i := len(p.chain) - 1; i >= 0; i-- {
		if p.chain[i].path == path || info != nil && os.SameFile(p.chain[i].info, info) {
			return i
		}
	}
	if info == nil && (p.Path == path || strings.HasPrefix(p.Path, strings.TrimSuffix(path, string(filepath.Separator))+string(filepath.Separator))) {
		return len(p.chain)
	}
	return -1
}
