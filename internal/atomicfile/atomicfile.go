// Package atomicfile replaces files so that a reader, or a start after a power
// cut, finds the old content or the new, never a part of either.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Write puts data into the file at path with the permissions perm. It writes
// a temporary file in the same folder, syncs it, renames it over path and
// syncs the folder. On an error path is as it was and nothing is left behind.
// A symbolic link at path is followed, so that a linked file stays linked.
func Write(path string, data []byte, perm fs.FileMode) error {
	path, err := target(path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := fill(tmp, data, perm); err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := replace(tmp.Name(), path); err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("write %s: sync folder: %w", path, err)
	}
	return nil
}

// target resolves a link at path; a link to nothing is resolved one step.
func target(path string) (string, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if err != nil {
		return path, err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return path, nil
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		to, err := os.Readlink(path)
		if err != nil {
			return path, err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		return to, nil
	}
	if err != nil {
		return path, err
	}
	return real, nil
}

func fill(f *os.File, data []byte, perm fs.FileMode) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(perm)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Create is Write for a file that must not exist yet: of several processes
// that create path at once exactly one succeeds, and the others get an error
// that is fs.ErrExist with the winner's content in place. Where the file
// system has no hard links the guarantee shrinks to "a whole file".
func Create(path string, data []byte, perm fs.FileMode) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("create %s: %w", path, fs.ErrExist)
	}
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	defer os.Remove(tmp.Name())
	if err := fill(tmp, data, perm); err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	err = os.Link(tmp.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = replace(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	if err := syncDir(dir); err != nil {
		return fmt.Errorf("create %s: sync folder: %w", path, err)
	}
	return nil
}
