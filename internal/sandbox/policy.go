package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// resolved is a policy whose paths are physical: no links, existing, and free
// of what is hidden as a whole.
type resolved struct {
	write   []string
	read    []string
	hidden  []string
	links   map[string]string // path as it was named → where it leads
	dir     string
	network bool
	limits  Limits
}

// resolve follows every path of p. What does not exist is left out, and so is
// what lies inside something hidden.
func resolve(p Policy, dir string) (resolved, error) {
	r := resolved{links: map[string]string{}, network: p.Network, limits: p.Limits}
	r.hidden = everywhere(p.Hidden)
	for _, h := range privateFiles {
		if real, ok := physical(h); ok && readable(real) {
			r.hidden = append(r.hidden, real)
		}
	}
	r.hidden = outermost(r.hidden)
	add := func(list *[]string, path string) error {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("the path %q of a fence is not absolute", path)
		}
		real, ok := physical(path)
		if !ok || within(real, r.hidden) {
			return nil
		}
		if clean := filepath.Clean(path); clean != real {
			r.links[clean] = real
		}
		if !slices.Contains(*list, real) {
			*list = append(*list, real)
		}
		return nil
	}
	for _, path := range p.ReadWrite {
		if err := add(&r.write, path); err != nil {
			return r, err
		}
	}
	for _, path := range append(slices.Clone(p.ReadOnly), systemFolders...) {
		if err := add(&r.read, path); err != nil {
			return r, err
		}
	}
	real, ok := physical(dir)
	if !ok {
		return r, fmt.Errorf("the folder %s, where the command should run, is gone", dir)
	}
	if !within(real, r.write) && !within(real, r.read) || within(real, r.hidden) {
		return r, fmt.Errorf("the folder %s, where the command should run, is not inside its fence", dir)
	}
	r.dir = real
	return r, nil
}

func physical(path string) (string, bool) {
	real, err := filepath.EvalSymlinks(path)
	return real, err == nil
}

// readable reports whether the file can be read by this process at all; what
// cannot need not be hidden.
func readable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// within reports whether path is one of the folders or lies in one.
func within(path string, folders []string) bool {
	for _, f := range folders {
		if path == f || strings.HasPrefix(path, strings.TrimSuffix(f, "/")+"/") {
			return true
		}
	}
	return false
}

// outermost sorts paths and drops those that lie in another.
func outermost(paths []string) []string {
	slices.Sort(paths)
	var out []string
	for _, p := range paths {
		if !within(p, out) {
			out = append(out, p)
		}
	}
	return out
}

// carveMax bounds how many entries stand in for a folder with something hidden
// in it; more would make every start slow.
const carveMax = 5000

// carve returns folder, or, where something hidden lies below it, the entries
// around that. It is for fences that can only grant: then the folder itself
// cannot be listed, and nothing new can be made in it.
func carve(folder string, hidden []string) ([]string, error) {
	return carveInto(nil, folder, hidden)
}

func carveInto(out []string, folder string, hidden []string) ([]string, error) {
	if within(folder, hidden) {
		return out, nil
	}
	inside := false
	for _, h := range hidden {
		inside = inside || within(h, []string{folder})
	}
	if !inside {
		return append(out, folder), nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("hide what lies in %s: %w", folder, err)
	}
	for _, e := range entries {
		// A link is no way in: where it leads is judged there.
		if e.Type()&os.ModeSymlink != 0 {
			continue
		}
		if out, err = carveInto(out, filepath.Join(folder, e.Name()), hidden); err != nil {
			return nil, err
		}
		if len(out) > carveMax {
			return nil, fmt.Errorf("hide what lies in %s: it has too many entries to be granted one by one", folder)
		}
	}
	return out, nil
}

// privateFiles are secrets of the machine that lie in folders every program
// reads from. Where Mercury itself cannot read them they need no hiding.
var privateFiles = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d",
	"/etc/ssh", "/etc/ssl/private", "/etc/wireguard", "/etc/NetworkManager/system-connections",
	"/etc/krb5.keytab", "/etc/kubernetes", "/etc/letsencrypt", "/etc/master.passwd",
}

// keys are where people and programs keep what opens other doors, below a
// person's home folder.
var keys = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".netrc", ".pgpass", ".npmrc", ".pypirc",
	".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli", ".cargo/credentials",
	".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".gradle/gradle.properties", ".terraform.d",
	".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".config/rclone", ".config/op", ".mozilla", ".thunderbird",
	".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".config/Signal", ".bash_history", ".zsh_history",
	".python_history", ".node_repl_history", ".psql_history", ".mysql_history", ".local/share/fish/fish_history",
	"Library/Keychains", "Library/Cookies", "Library/Application Support/Google", "Library/Application Support/Firefox",
	"Library/Application Support/Signal", "Library/Messages", "Library/Mail",
}

// Keys returns the places below a person's home folder that hold keys,
// passwords and histories. A policy with wide folders hides them.
func Keys(user string) []string { return below(user, keys) }

// programs are folders of a home folder that hold installed programs.
var programs = []string{
	".local/bin", ".local/lib", ".local/share/mise", ".local/share/uv", ".local/share/pnpm", ".cargo/bin", ".cargo/registry", ".rustup",
	"go", ".nvm", ".volta", ".asdf", ".pyenv", ".rbenv", ".deno/bin", ".bun/bin", ".sdkman", ".dotnet", "miniconda3", "anaconda3",
}

// Programs returns the folders below a person's home folder in which programs
// are installed, so that a fenced command can use them.
func Programs(user string) []string { return below(user, programs) }

func below(user string, names []string) []string {
	if user == "" {
		return nil
	}
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = filepath.Join(user, filepath.FromSlash(n))
	}
	return out
}
