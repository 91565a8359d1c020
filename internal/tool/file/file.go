// Package file holds the tools that read, write and find files, and the View
// through which they reach them.
//
// What a call may touch is what the gate allowed for it. A path is resolved
// to what it really is, links followed as the system would; that real path is
// judged, and that real path is opened, one folder at a time from the top
// without following any link. A link swapped in between makes the call fail;
// it never leads elsewhere.
//
// Some things no call reaches, whatever was allowed: the folders and files in
// Options.Hidden, recognised by device and inode under any name; devices,
// pipes and sockets; the files of running processes.
package file

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tool"
)

// Options tune the file tools. The zero value works.
type Options struct {
	// Home is what "~" stands for; default the user's home folder.
	Home string

	// Hidden are folders and files that no call reaches: Mercury's home and
	// its key and permission files. A folder hides what is below it.
	Hidden []string

	// Private, if not nil, names files that a walk through a folder leaves
	// out though the folder was allowed, such as key files. Naming one in a
	// call of its own puts it before the gate.
	Private func(path string) bool

	// Keep stores a content that a call replaces, so that it can be put back.
	// Nil: writes are not remembered.
	Keep func(ctx context.Context, content []byte) (ref string, err error)

	// Trash is the folder that keeps what is deleted, out of reach of every
	// tool. Empty: nothing is deleted.
	Trash string

	// Others take back changes of an act that is no file's, or say what they
	// would do, as Undo does for files.
	Others map[string]func(tx store.Tx, r store.UndoRow, apply bool) (can bool, text string, err error)
}

// New returns the file tools. They share locks, so that what one of them reads
// and puts back is one act; Undo takes part in that.
func New(o Options) *Files { return &Files{opts: o, seed: maphash.MakeSeed()} }

// Tools returns New's core tools.
func Tools(o Options) []tool.Tool { return New(o).Core() }

// Core returns read_file, write_file, edit_file, list_dir, find_files and
// search_text.
func (f *Files) Core() []tool.Tool {
	return []tool.Tool{f.read(), f.write(), f.edit(), f.list(), f.find(), f.search()}
}

// More returns delete_file, move_file, cd and approve_scope.
func (f *Files) More() []tool.Tool { return []tool.Tool{f.remove(), f.moving(), f.goTo(), f.scope()} }

// Files is the file tools of one Mercury.
type Files struct {
	opts Options

	// One lock for each stripe of paths makes reading a file, changing it and
	// putting it back one act among the calls of this process.
	seed  maphash.Seed
	locks [64]sync.Mutex
}

// lock keeps other calls of this process from changing path until unlocked.
func (f *Files) lock(path string) (unlock func()) {
	m := &f.locks[maphash.String(f.seed, path)%uint64(len(f.locks))]
	m.Lock()
	return m.Unlock
}
