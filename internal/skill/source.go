package skill

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// archiveMax is the largest archive that is read, packed.
const archiveMax = 8 << 20

// Get fetches an https address; what it returns is at most limit bytes.
type Get func(ctx context.Context, address string, limit int64) ([]byte, error)

// Read reads a skill from where it is: a folder, a SKILL.md, an archive (.zip,
// .tar.gz, .tgz, .tar), an https address of one of these, or a git address. It
// runs nothing of it.
func Read(ctx context.Context, from string, get Get) (Bundle, error) {
	from = strings.TrimSpace(from)
	switch u, err := url.Parse(from); {
	case err == nil && isGit(from):
		return readGit(ctx, from)
	case err == nil && u.Scheme == "https":
		if get == nil {
			return Bundle{}, invalid("addresses cannot be fetched here")
		}
		b, err := get(ctx, from, archiveMax)
		if err != nil {
			return Bundle{}, fmt.Errorf("fetch the skill: %w", err)
		}
		return readBytes(u.Path, b)
	case err == nil && u.Scheme == "http":
		return Bundle{}, invalid("a skill is not fetched over http, where anybody on the way can change it")
	}
	info, err := os.Stat(from)
	if err != nil {
		return Bundle{}, wrapped(mercury.NotFound, "Give a folder, a SKILL.md, an archive, or an https or git address.", "read the skill: %w", err)
	}
	if info.IsDir() {
		return ReadFolder(from)
	}
	if info.Size() > archiveMax {
		return Bundle{}, invalid("%s has %d MB, the limit is %d", from, info.Size()>>20, archiveMax>>20)
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return Bundle{}, fmt.Errorf("read the skill: %w", err)
	}
	return readBytes(from, b)
}

// FromText makes a skill of one SKILL.md.
func FromText(text string) (Bundle, error) {
	return NewBundle(map[string]File{FileName: {Text: []byte(text)}})
}

// readBytes reads an archive or a SKILL.md by what it is.
func readBytes(name string, b []byte) (Bundle, error) {
	switch {
	case bytes.HasPrefix(b, []byte("PK\x03\x04")):
		return readZip(b)
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return Bundle{}, invalid("the archive is damaged: %v", err)
		}
		return readTar(z)
	case strings.HasSuffix(name, ".tar"):
		return readTar(bytes.NewReader(b))
	}
	return FromText(string(b))
}

// ReadFolder reads a skill from a folder. Links are refused: what they lead to
// would not come along, or would be somebody else's.
func ReadFolder(dir string) (Bundle, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Bundle{}, fmt.Errorf("read the skill: %w", err)
	}
	defer root.Close()
	return readFS(root.FS())
}

func readFS(from fs.FS) (Bundle, error) {
	files, total := map[string]File{}, 0
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "__pycache__"):
			return fs.SkipDir
		case d.IsDir() || d.Name() == ".DS_Store":
			return nil
		case !d.Type().IsRegular():
			return invalid("%s is a link or no file", name)
		case len(files) == FilesMax:
			return invalid("it has more than %d files", FilesMax)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if total += int(min(info.Size(), TotalMax+1)); total > TotalMax {
			return invalid("it has more than %d MB", TotalMax>>20)
		}
		text, err := fs.ReadFile(from, name)
		files[name] = File{Text: text, Exec: info.Mode()&0o100 != 0}
		return err
	})
	if err != nil {
		return Bundle{}, err
	}
	return NewBundle(files)
}

// packed collects the files of an archive within the limits.
type packed struct {
	files map[string]File
	total int64
}

func (p *packed) add(name string, exec bool, r io.Reader) error {
	name = strings.TrimPrefix(name, "./")
	if err := validPath(name); err != nil {
		return err
	}
	if _, twice := p.files[name]; twice {
		return invalid("the archive holds %s twice", name)
	}
	if len(p.files) == FilesMax {
		return invalid("the archive holds more than %d files", FilesMax)
	}
	text, err := io.ReadAll(io.LimitReader(r, TotalMax-p.total+1))
	if err != nil {
		return invalid("the archive is damaged: %v", err)
	}
	if p.total += int64(len(text)); p.total > TotalMax {
		return invalid("the archive holds more than %d MB", TotalMax>>20)
	}
	p.files[name] = File{text, exec}
	return nil
}

// bundle drops the folder that most archives have around everything.
func (p *packed) bundle() (Bundle, error) {
	if _, ok := p.files[FileName]; !ok {
		var around string
		for name := range p.files {
			if path.Base(name) == FileName && (around == "" || len(path.Dir(name)) < len(around)) {
				around = path.Dir(name)
			}
		}
		if around != "" {
			inner := map[string]File{}
			for name, f := range p.files {
				if rest, ok := strings.CutPrefix(name, around+"/"); ok {
					inner[rest] = f
				}
			}
			p.files = inner
		}
	}
	return NewBundle(p.files)
}

func readZip(b []byte) (Bundle, error) {
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return Bundle{}, invalid("the archive is damaged: %v", err)
	}
	p := &packed{files: map[string]File{}}
	for _, f := range z.File {
		if f.FileInfo().IsDir() {
			continue
		}
		if !f.Mode().IsRegular() {
			return Bundle{}, invalid("the archive holds %s, a link or no file", cut(f.Name, 80))
		}
		if f.Flags&1 != 0 {
			return Bundle{}, invalid("the archive is locked with a password, so nobody can look into it")
		}
		r, err := f.Open()
		if err != nil {
			return Bundle{}, invalid("the archive is damaged: %v", err)
		}
		err = p.add(f.Name, f.Mode()&0o100 != 0, r)
		if err := errors.Join(err, r.Close()); err != nil {
			return Bundle{}, err
		}
	}
	return p.bundle()
}

func readTar(r io.Reader) (Bundle, error) {
	p := &packed{files: map[string]File{}}
	// What unpacks to far more than it may hold is not read to its end.
	for t := tar.NewReader(io.LimitReader(r, 2*TotalMax)); ; {
		head, err := t.Next()
		if errors.Is(err, io.EOF) {
			return p.bundle()
		}
		if err != nil {
			return Bundle{}, invalid("the archive is damaged or too large: %v", err)
		}
		switch head.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
		case tar.TypeReg:
			if err := p.add(head.Name, head.Mode&0o100 != 0, t); err != nil {
				return Bundle{}, err
			}
		default:
			return Bundle{}, invalid("the archive holds %s, a link or no file", cut(head.Name, 80))
		}
	}
}

// isGit reports whether an address is git's. A fragment names a folder in it:
// https://host/owner/repository.git#skills/review.
func isGit(from string) bool {
	address, _, _ := strings.Cut(from, "#")
	return strings.HasPrefix(from, "git+https://") || strings.HasPrefix(from, "git@") || strings.HasPrefix(from, "ssh://") ||
		strings.HasPrefix(from, "https://") && strings.HasSuffix(address, ".git") || strings.HasPrefix(from, "file://") && strings.HasSuffix(address, ".git")
}

// readGit clones the newest state of a repository without its history, hooks,
// submodules or filters, and reads the skill in it.
func readGit(ctx context.Context, from string) (Bundle, error) {
	address, sub, _ := strings.Cut(strings.TrimPrefix(from, "git+"), "#")
	if strings.HasPrefix(address, "-") || sub != "" && validPath(sub) != nil {
		return Bundle{}, invalid("%q is no git address", cut(from, 120))
	}
	dir, err := os.MkdirTemp("", "mercury-skill-")
	if err != nil {
		return Bundle{}, fmt.Errorf("make a folder for the clone: %w", err)
	}
	defer os.RemoveAll(dir)
	c := exec.CommandContext(ctx, "git", "-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=false", "-c", "protocol.ext.allow=never",
		"-c", "filter.lfs.smudge=", "-c", "filter.lfs.required=false", "-c", "core.fsmonitor=false",
		"clone", "--quiet", "--depth=1", "--no-recurse-submodules", "--no-tags", "--", address, filepath.Join(dir, "clone"))
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_ASKPASS=true", "GIT_SSH_COMMAND=ssh -oBatchMode=yes"}
	if out, err := c.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return Bundle{}, wrapped(mercury.Setup, "Install git, or give a folder or an archive.", "git is not installed")
		}
		return Bundle{}, invalid("git could not clone %s: %s", address, cut(oneLine(string(out)), 300))
	}
	return ReadFolder(filepath.Join(dir, "clone", filepath.FromSlash(sub)))
}
