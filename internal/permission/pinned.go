package permission

import (
	"os"
	"path/filepath"
	"runtime"
)

// pinnedFolders are where programs of the argv lane come from, in order. PATH
// is never asked: who can change it could change what a harmless name runs.
func pinnedFolders() []string {
	if runtime.GOOS == "windows" {
		return []string{`C:\Windows\System32`, `C:\Program Files\Git\cmd`, `C:\Program Files\Git\usr\bin`}
	}
	folders := []string{"/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin", "/opt/homebrew/bin"}
	if runtime.GOOS == "android" {
		folders = append([]string{"/data/data/com.termux/files/usr/bin"}, folders...)
	}
	return folders
}

// pin finds name in folders. A program, or a folder, that everyone may write
// to is passed over. It returns "" when there is none.
func pin(name string, folders []string) string {
	for _, dir := range folders {
		if info, err := os.Stat(dir); err != nil || openToAll(info) {
			continue
		}
		path := filepath.Join(dir, name)
		if runtime.GOOS == "windows" {
			path += ".exe"
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || openToAll(info) {
			continue
		}
		if runtime.GOOS != "windows" && info.Mode().Perm()&0o111 == 0 {
			continue
		}
		return path
	}
	return ""
}

func openToAll(info os.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0
}
