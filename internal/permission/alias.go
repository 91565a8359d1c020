package permission

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// keyFiles are what opens Mercury to whoever reads or changes it, by their
// place in the home.
var keyFiles = []string{"mercury.yaml", ".env", "token", "permissions.yaml", "mercury.db", "mercury.db-wal", "mercury.db-shm"}

// aliasMax bounds how many entries of the granted folders are looked at.
const aliasMax = 100_000

// alias refuses every command while a key file of Mercury has another name
// inside the granted folders: no fence hides a file by what it is, and a
// command would reach it there. It costs a few calls of the system unless a
// key file has several names.
func (f Files) alias(scopes []mercury.Scope) *finding {
	if f.Home == "" {
		return nil
	}
	var several []fs.FileInfo
	for _, name := range keyFiles {
		if info, err := os.Lstat(filepath.Join(f.Home, name)); err == nil && info.Mode().IsRegular() && names(info) > 1 {
			several = append(several, info)
		}
	}
	if len(several) == 0 {
		return nil
	}
	left := aliasMax
	for _, s := range scopes {
		if found := f.aliasIn(s.Path, several, &left); found != "" {
			out := deny("blocked.mercury", fmt.Sprintf("%s is another name of a file of Mercury's own; remove that name first", shown(found)))
			return &out
		}
	}
	if left < 0 {
		out := deny("blocked.mercury", "a file of Mercury's own has another name, and the granted folders are too large to see whether it lies there")
		return &out
	}
	return nil
}

// aliasIn finds one of the files under folder, the home itself left out.
func (f Files) aliasIn(folder string, files []fs.FileInfo, left *int) (found string) {
	home, _ := os.Stat(f.Home) // nil is no folder's identity
	// What cannot be looked into cannot be read there either.
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if *left--; *left < 0 {
			return fs.SkipAll
		}
		if err != nil {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil // it went meanwhile
		}
		if d.IsDir() {
			if home != nil && os.SameFile(home, info) {
				return fs.SkipDir
			}
			return nil
		}
		for _, own := range files {
			if os.SameFile(own, info) {
				found = path
				return fs.SkipAll
			}
		}
		return nil
	})
	return found
}
