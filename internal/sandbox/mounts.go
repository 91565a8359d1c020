package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// everywhere returns the physical paths of the folders, each with its other
// names: where a file system is mounted twice, what lies in it has two.
func everywhere(folders []string) []string {
	var all []string
	for _, folder := range folders {
		if real, ok := physical(folder); ok {
			all = append(append(all, real), otherNames(real)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// mount is one line of the kernel's list.
type mount struct{ device, root, point string }

// otherNames are the paths by which the same folder is reached through other
// mounts. Where the kernel keeps no such list there are none that we know.
func otherNames(path string) (names []string) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	mounts := readMounts(string(b))
	var home mount
	for _, m := range mounts { // of several at one point the last is on top
		if within(path, []string{m.point}) && len(m.point) >= len(home.point) {
			home = m
		}
	}
	if home.point == "" {
		return nil
	}
	inside := filepath.Join(home.root, strings.TrimPrefix(path, home.point))
	for _, m := range mounts {
		if m.device != home.device || !within(inside, []string{m.root}) {
			continue
		}
		name := filepath.Join(m.point, strings.TrimPrefix(inside, m.root))
		if other, err := os.Stat(name); err == nil && name != path && os.SameFile(info, other) {
			names = append(names, name)
		}
	}
	return names
}

func readMounts(list string) (mounts []mount) {
	plain := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 4 {
			mounts = append(mounts, mount{f[2], plain.Replace(f[3]), plain.Replace(f[4])})
		}
	}
	return mounts
}
