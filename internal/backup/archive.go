package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// small is the size up to which a file of a person is read whole and secrets
// are taken out of it, in bytes.
const small = 8 << 20

// sqliteEngine is the engine that keeps contents as files of the home.
const sqliteEngine = "sqlite"

// packer writes entries into an archive.
type packer struct {
	ctx   context.Context
	home  string
	tar   *tar.Writer
	clean func(string, []byte) ([]byte, []string)
	m     *Manifest
	when  time.Time
}

// pack writes the archive to path, synced.
func (k *Keeper) pack(ctx context.Context, path, work string, secrets []byte, m *Manifest) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	zip := gzip.NewWriter(io.MultiWriter(f, sum))
	p := &packer{ctx: ctx, home: k.home, tar: tar.NewWriter(zip), clean: k.opts.Clean, m: m, when: m.CreatedAt}
	if err := p.all(k.home, work, secrets); err != nil {
		return err
	}
	if err := errors.Join(p.tar.Close(), zip.Close()); err != nil {
		return err
	}
	if _, err := f.Write(seal(sum)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

func (p *packer) all(home, work string, secrets []byte) error {
	if err := p.file(databaseEntry, filepath.Join(work, databaseEntry)); err != nil {
		return err
	}
	for _, name := range owned {
		if err := p.tree(name, filepath.Join(home, name), nil); err != nil {
			return err
		}
	}
	if p.m.Engine != sqliteEngine {
		if err := p.tree("files", filepath.Join(work, "files"), nil); err != nil {
			return err
		}
	}
	if secrets != nil {
		if err := p.bytes(secretsEntry, secrets, 0o600); err != nil {
			return err
		}
	}
	slices.Sort(p.m.LeftOut)
	p.m.LeftOut = slices.Compact(p.m.LeftOut)
	b, err := json.MarshalIndent(p.m, "", "  ")
	if err != nil {
		return err
	}
	return p.write(manifestEntry, bytes.NewReader(b), int64(len(b)), 0o600, io.Discard)
}

// tree adds a file, or a folder with all in it. A person's links are followed,
// since the archive has none, but not back to a folder above.
func (p *packer) tree(name, path string, above []fs.FileInfo) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // gone meanwhile, or a link to nothing
	case err != nil:
		return err
	case info.Mode().IsRegular():
		if secretFile(name) || temporary(name) {
			return nil
		}
		return p.file(name, path)
	case !info.IsDir():
		return nil
	case slices.ContainsFunc(above, func(folder fs.FileInfo) bool { return os.SameFile(folder, info) }):
		return nil
	}
	found, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	above = append(above[:len(above):len(above)], info)
	for _, e := range found {
		if name == "files" && (slices.Contains(passing, e.Name()) || contents.MatchString(e.Name()) && p.elsewhere(path)) {
			continue
		}
		if err := p.tree(name+"/"+e.Name(), filepath.Join(path, e.Name()), above); err != nil {
			return err
		}
	}
	return nil
}

// contents is a folder of contents that rows name.
var contents = regexp.MustCompile(`^[0-9a-f]{2}$`)

// elsewhere reports whether the contents come from another place than the
// home's folder: what lies there is left of an earlier database.
func (p *packer) elsewhere(folder string) bool {
	return p.m.Engine != sqliteEngine && filepath.Dir(folder) == p.home
}

// secretFile reports whether a file below a home is one that holds secrets.
func secretFile(name string) bool {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return base == ".env" || name == "token"
}

// temporary reports whether a name is one of a file that is just being written.
func temporary(name string) bool {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return strings.HasPrefix(base, ".") && strings.HasSuffix(base, ".tmp") || strings.HasPrefix(base, "part-")
}

// file adds one file. A small one of a person is read whole and cleaned; of
// another one what it holds now is taken, though it may grow.
func (p *packer) file(name, path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && name != databaseEntry {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	mode := 0o600 | info.Mode().Perm()&0o100
	if name == databaseEntry || strings.HasPrefix(name, "files/") || info.Size() > small {
		return p.stream(name, f, info.Size(), mode)
	}
	b, err := io.ReadAll(io.LimitReader(f, small+1))
	if err != nil {
		return err
	}
	if p.clean != nil {
		clean, leftOut := p.clean(name, b)
		p.m.LeftOut = append(p.m.LeftOut, leftOut...)
		b = clean
	}
	return p.bytes(name, b, mode)
}

func (p *packer) bytes(name string, b []byte, mode fs.FileMode) error {
	return p.stream(name, bytes.NewReader(b), int64(len(b)), mode)
}

func (p *packer) stream(name string, r io.Reader, size int64, mode fs.FileMode) error {
	sum := sha256.New()
	if err := p.write(name, r, size, mode, sum); err != nil {
		return err
	}
	p.m.Entries = append(p.m.Entries, Entry{Path: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

func (p *packer) write(name string, r io.Reader, size int64, mode fs.FileMode, also io.Writer) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: int64(mode), ModTime: p.when, Format: tar.FormatPAX}
	if err := p.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if _, err := io.CopyN(io.MultiWriter(p.tar, also), untilCanceled{p.ctx, r}, size); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}

// untilCanceled reads as long as nobody wants it to stop.
type untilCanceled struct {
	ctx context.Context
	io.Reader
}

func (r untilCanceled) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// sealName begins the comment of the last gzip member.
const sealName = "sha256:"

// seal is an empty gzip member whose comment is the sum of all before it. It
// has the same length for every sum.
func seal(sum hash.Hash) []byte {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	zip.Comment = sealName + hex.EncodeToString(sum.Sum(nil))
	_ = zip.Close() // a buffer takes everything
	return b.Bytes()
}

// syncDir makes names in dir durable. Windows has no such call and needs none.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
