package permission

import (
	"fmt"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// windowsName refuses Windows paths that name something else than the file
// they look like. It is a pure function and holds on every system.
func windowsName(raw string) *finding {
	stop := func(f finding) *finding { return &f }
	path := strings.ReplaceAll(raw, "/", `\`)
	if strings.HasPrefix(path, `\\.\`) || strings.HasPrefix(path, `\\?\`) || strings.HasPrefix(path, `\??\`) {
		return stop(deny("path.special", shown(raw)+" is in the device namespace"))
	}
	if strings.HasPrefix(path, `\\`) {
		return stop(ask("path.outside", shown(raw)+" is on another machine, which would be sent credentials"))
	}
	if len(path) >= 2 && path[1] == ':' {
		if len(path) == 2 || path[2] != '\\' {
			return stop(deny("path.invalid", shown(raw)+" depends on the current folder of a drive"))
		}
		path = path[2:]
	}
	for _, name := range strings.Split(path, `\`) {
		if strings.Contains(name, ":") {
			return stop(deny("path.special", shown(name)+" names a stream inside a file"))
		}
		if reserved(name) {
			return stop(deny("path.special", shown(name)+" is a device name"))
		}
		if name != "." && name != ".." && name != strings.TrimRight(name, " .") {
			return stop(deny("path.invalid", shown(name)+" ends in a character that Windows drops"))
		}
		if i := strings.IndexByte(name, '~'); i > 0 && i+1 < len(name) && name[i+1] >= '0' && name[i+1] <= '9' && len(name) <= 12 {
			return stop(ask("path.outside", shown(name)+" looks like the short form of another name"))
		}
	}
	return nil
}

// reserved recognises the names that are devices in every folder, with any
// extension.
func reserved(name string) bool {
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	base = strings.TrimRight(base, " ")
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$":
		return true
	}
	if len(base) < 4 || base[:3] != "COM" && base[:3] != "LPT" {
		return false
	}
	return strings.ContainsAny(base[3:], "0123456789¹²³") && len([]rune(base)) == 4
}

// windowsPath judges a Windows path by its text alone, against scopes given as
// Windows paths: letters of either case are one, both slashes are one.
func windowsPath(kind mercury.AccessKind, raw, dir string, scopes []mercury.Scope) finding {
	if strings.IndexByte(raw, 0) >= 0 {
		return deny("path.invalid", "the path holds a NUL byte")
	}
	if out := windowsName(raw); out != nil {
		return *out
	}
	path := windowsClean(raw, dir)
	best := -1
	var scope mercury.Scope
	for _, s := range scopes {
		root := windowsClean(s.Path, "")
		if root == "" || path != root && !strings.HasPrefix(path, strings.TrimSuffix(root, `\`)+`\`) {
			continue
		}
		if len(root) > best {
			best, scope = len(root), s
		}
	}
	switch {
	case best < 0:
		return ask("path.outside", fmt.Sprintf("%s is outside the granted folders", shown(raw)))
	case kind == mercury.ReadPath && !scope.Read, kind == mercury.WritePath && !scope.Write:
		return ask("path.not-granted", fmt.Sprintf("%s is granted, but not to %s", shown(scope.Path), kind))
	case kind == mercury.DeletePath:
		return ask("path.delete", shown(raw)+" would be deleted")
	}
	return allow("path.scope", fmt.Sprintf("%s is inside %s", shown(raw), shown(scope.Path)))
}

// windowsClean returns raw as an absolute lower-case path without dots, or ""
// when it has no drive.
func windowsClean(raw, dir string) string {
	path := strings.ToLower(strings.ReplaceAll(raw, "/", `\`))
	if len(path) < 2 || path[1] != ':' {
		base := windowsClean(dir, "c:\\")
		if strings.HasPrefix(path, `\`) {
			path = base[:2] + path
		} else {
			path = base + `\` + path
		}
		if dir == "" {
			return ""
		}
	}
	var out []string
	for _, name := range strings.Split(path[2:], `\`) {
		switch name {
		case "", ".":
		case "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
		default:
			out = append(out, name)
		}
	}
	return path[:2] + `\` + strings.Join(out, `\`)
}
