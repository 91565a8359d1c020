//go:build linux

package power

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// sector is the size in bytes below which a disk writes whole or not at all.
const sector = 512

// A disk is a folder as its calls have made it: what processes see, and what
// a power cut would leave.
type disk struct {
	root  string
	now   map[string]*node // names as processes see them
	kept  map[string]*node // names that are on the disk for sure
	place map[string]int64 // where the next write to a path goes
}

// A node is a file or a folder.
type node struct {
	folder bool
	synced []byte  // what is on the disk for sure
	first  int     // number of the first change in loose
	loose  []write // changes that are not
}

// A write changes a file's bytes; cut sets its length instead, with zeros where
// it grows.
type write struct {
	at   int64
	data []byte
	cut  bool
}

func (w write) apply(b []byte) []byte {
	end := w.at + int64(len(w.data))
	switch {
	case w.cut && w.at <= int64(len(b)):
		return b[:w.at]
	case w.cut:
		return append(b, make([]byte, w.at-int64(len(b)))...)
	case end > int64(len(b)):
		b = append(b, make([]byte, end-int64(len(b)))...)
	}
	copy(b[w.at:], w.data)
	return b
}

// newDisk returns the disk of a folder as it is now, all of it synced.
func newDisk(root string) (*disk, error) {
	d := &disk{root: root, now: map[string]*node{}, kept: map[string]*node{}, place: map[string]int64{}}
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		n := &node{folder: e.IsDir()}
		if !n.folder {
			if n.synced, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		d.now[path], d.kept[path] = n, n
		return nil
	})
	return d, err
}

// A change is what a call does to the disk at one moment.
type change struct {
	at int
	do func(*disk)
}

// changes turns calls into what they do to the folder root, by time: a write
// may reach the disk from its beginning, a sync has kept what was written
// before it began when it ends, a name changes when its call ends.
func changes(root string, calls []call) ([]change, error) {
	in := func(path string) bool { return path == root || strings.HasPrefix(path, root+"/") }
	var out []change
	for _, c := range calls {
		switch c.Name {
		case "open", "openat", "creat":
			if path := c.Result; in(path) && strings.Contains(c.Flags, "O_CREAT") || in(c.Result) && strings.Contains(c.Flags, "O_TRUNC") {
				out = append(out, change{c.End, func(d *disk) { d.open(path, c.Flags) }})
			}
		case "pwrite64":
			if in(c.FD) {
				out = append(out, change{c.Begin, func(d *disk) { d.write(c.FD, c.Offset, c.Data) }})
			}
		case "write":
			if in(c.FD) {
				out = append(out, change{c.Begin, func(d *disk) {
					d.write(c.FD, d.place[c.FD], c.Data)
					d.place[c.FD] += int64(len(c.Data))
				}})
			}
		case "ftruncate":
			if in(c.FD) {
				out = append(out, change{c.Begin, func(d *disk) { d.cut(c.FD, c.Offset) }})
			}
		case "fallocate":
			if in(c.FD) {
				out = append(out, change{c.Begin, func(d *disk) { d.grow(c.FD, c.Offset) }})
			}
		case "fsync", "fdatasync":
			if in(c.FD) {
				var seen func(*disk)
				out = append(out, change{c.Begin, func(d *disk) { seen = d.sync(c.FD) }},
					change{c.End, func(d *disk) { seen(d) }})
			}
		case "rename", "renameat", "renameat2", "link", "linkat":
			if len(c.Paths) == 2 && (in(c.Paths[0]) || in(c.Paths[1])) {
				out = append(out, change{c.End, func(d *disk) { d.rename(c.Paths[0], c.Paths[1], strings.HasPrefix(c.Name, "link")) }})
			}
		case "unlink", "unlinkat", "rmdir":
			if path := c.Paths[len(c.Paths)-1]; in(path) {
				out = append(out, change{c.End, func(d *disk) { delete(d.now, path) }})
			}
		case "mkdir", "mkdirat":
			if path := c.Paths[len(c.Paths)-1]; in(path) {
				out = append(out, change{c.End, func(d *disk) { d.now[path] = &node{folder: true} }})
			}
		default:
			if in(c.FD) {
				return nil, fmt.Errorf("the disk knows no %s", c.Name)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b change) int { return a.at - b.at })
	return out, nil
}

func (d *disk) open(path, flags string) {
	n := d.now[path]
	if n == nil {
		n = &node{}
		d.now[path] = n
	}
	d.place[path] = 0
	if strings.Contains(flags, "O_TRUNC") {
		n.loose = append(n.loose, write{cut: true})
	}
	if strings.Contains(flags, "O_APPEND") {
		d.place[path] = int64(len(n.content(len(n.loose))))
	}
}

func (d *disk) write(path string, at int64, data []byte) {
	if n := d.now[path]; n != nil {
		n.loose = append(n.loose, write{at: at, data: data})
	}
}

func (d *disk) cut(path string, length int64) {
	if n := d.now[path]; n != nil {
		n.loose = append(n.loose, write{at: length, cut: true})
	}
}

// grow makes a file at least that long, with zeros.
func (d *disk) grow(path string, length int64) {
	if n := d.now[path]; n != nil && int64(len(n.content(len(n.loose)))) < length {
		n.loose = append(n.loose, write{at: length, cut: true})
	}
}

// sync begins a sync of a path and returns what ends it.
func (d *disk) sync(path string) (end func(*disk)) {
	n := d.now[path]
	if n == nil {
		return func(*disk) {}
	}
	if n.folder {
		names := map[string]*node{}
		for p, child := range d.now {
			if filepath.Dir(p) == path {
				names[p] = child
			}
		}
		return func(d *disk) {
			for p := range d.kept {
				if filepath.Dir(p) == path {
					delete(d.kept, p)
				}
			}
			for p, child := range names {
				d.kept[p] = child
			}
		}
	}
	upto := n.first + len(n.loose)
	return func(*disk) {
		if more := upto - n.first; more > 0 {
			n.synced = n.content(more)
			n.loose, n.first = slices.Clone(n.loose[more:]), upto
		}
	}
}

func (d *disk) rename(from, to string, both bool) {
	n := d.now[from]
	if n == nil {
		return
	}
	d.now[to] = n
	if !both {
		delete(d.now, from)
	}
}

// content is what is synced with the first changes of what is not.
func (n *node) content(changes int) []byte {
	b := slices.Clone(n.synced)
	for _, w := range n.loose[:changes] {
		b = w.apply(b)
	}
	return b
}

// left is what a power cut leaves of a file: what was synced, of the rest
// nothing or a random choice, and of the last write a random number of sectors.
func (n *node) left(luck *rand.Rand, some bool) []byte {
	b := slices.Clone(n.synced)
	for i, w := range n.loose {
		switch last := i == len(n.loose)-1; {
		case last && !w.cut:
			// A write that begins inside a sector tears at the next border.
			torn := int64(luck.IntN(len(w.data)/sector+1))*sector - w.at%sector
			w.data = w.data[:min(max(torn, 0), int64(len(w.data)))]
			if len(w.data) > 0 {
				b = w.apply(b)
			}
		case some && luck.IntN(2) == 0:
			b = w.apply(b)
		}
	}
	return b
}

// cutPower writes to folder what a power cut leaves. With some, part of what
// was not synced reached the disk all the same, names included.
func (d *disk) cutPower(folder string, luck *rand.Rand, some bool) error {
	names := d.kept
	if some && luck.IntN(2) == 0 {
		names = d.now
	}
	paths := make([]string, 0, len(names))
	for path := range names {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	for _, path := range paths {
		to := filepath.Join(folder, strings.TrimPrefix(path, d.root))
		if n := names[path]; n.folder {
			if err := os.MkdirAll(to, 0o700); err != nil {
				return err
			}
			continue
		}
		if _, err := os.Stat(filepath.Dir(to)); err != nil {
			continue // its folder did not reach the disk
		}
		if err := os.WriteFile(to, names[path].left(luck, some), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// moved is the same disk under another path.
func (d *disk) moved(root string) *disk {
	m := &disk{root: root, now: map[string]*node{}, kept: map[string]*node{}, place: map[string]int64{}}
	for path, n := range d.now {
		to := root + strings.TrimPrefix(path, d.root)
		m.now[to], m.kept[to] = n, n
	}
	return m
}
