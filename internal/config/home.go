package config

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mercury-agent/mercury/internal/atomicfile"
	"github.com/mercury-agent/mercury/internal/mercury"
)

// ErrForeignHome says that a folder belongs to the TypeScript Mercury. Nothing
// here ever writes such a folder; its content is taken over by import.
var ErrForeignHome = errors.New("this is a home of the TypeScript Mercury")

// Home is the folder that holds everything one Mercury owns.
type Home struct {
	dir    string
	usual  bool
	beside string
}

// FindHome returns the home named by MERCURY_HOME, else ~/.mercury. Where that
// belongs to the TypeScript Mercury it is left alone and ~/.mercury2 beside it
// is the home; Beside then names the other.
func FindHome(getenv func(string) string) (Home, error) {
	if dir := getenv("MERCURY_HOME"); dir != "" {
		return HomeAt(dir)
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return Home{}, &mercury.Error{
			Kind: mercury.Setup,
			Help: "Set MERCURY_HOME to a folder of your own.",
			Err:  fmt.Errorf("find the home: %w", err),
		}
	}
	h := Home{dir: filepath.Join(user, ".mercury"), usual: true}
	if errors.Is(h.Guard(), ErrForeignHome) {
		h = Home{dir: h.dir + "2", usual: true, beside: h.dir}
	}
	return h, nil
}

// HomeAt returns the home in dir, made absolute; a leading ~ is the user's
// folder.
func HomeAt(dir string) (Home, error) {
	abs, err := filepath.Abs(ExpandPath(dir))
	if err != nil {
		return Home{}, fmt.Errorf("find the home: %w", err)
	}
	return Home{dir: abs}, nil
}

// ExpandPath replaces a leading ~ by the user's folder. Other texts, ~name
// among them, stay as they are.
func ExpandPath(path string) string {
	if path != "~" && !strings.HasPrefix(path, "~/") && !strings.HasPrefix(path, `~\`) {
		return path
	}
	user, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(user, path[1:])
}

// The files and folders of a home.
func (h Home) Dir() string       { return h.dir }
func (h Home) Config() string    { return h.join("mercury.yaml") }
func (h Home) Good() string      { return h.join("mercury.yaml.good") }
func (h Home) Schema() string    { return h.join("mercury.schema.json") }
func (h Home) Env() string       { return h.join(".env") }
func (h Home) TokenFile() string { return h.join("token") }
func (h Home) Database() string  { return h.join("mercury.db") }
func (h Home) Soul() string      { return h.join("soul") }
func (h Home) Skills() string    { return h.join("skills") }
func (h Home) Bots() string      { return h.join("bots") }
func (h Home) Logs() string      { return h.join("logs") }
func (h Home) Files() string     { return h.join("files") }
func (h Home) Backups() string   { return h.join("backups") }

func (h Home) join(name string) string { return filepath.Join(h.dir, name) }

// Usual reports whether this home was found without MERCURY_HOME.
func (h Home) Usual() bool { return h.usual }

// Beside is the home of a TypeScript Mercury in the usual place, which this
// home stands beside; empty where there is none.
func (h Home) Beside() string { return h.beside }

// Exists reports whether the folder is there.
func (h Home) Exists() bool {
	info, err := os.Stat(h.dir)
	return err == nil && info.IsDir()
}

// Create makes the home and its folders where they are missing, 0700. It
// refuses a home of the TypeScript Mercury with ErrForeignHome.
func (h Home) Create() error {
	if err := h.Guard(); err != nil {
		return err
	}
	for _, dir := range []string{h.dir, h.Soul(), h.Skills(), h.Bots(), h.Logs(), h.Files(), h.Backups()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("create the home: %w", unwritten(err))
		}
	}
	return nil
}

// unwritten adds the cure to an error of writing in the home.
func unwritten(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return &mercury.Error{Kind: mercury.Full, Help: "Free some space on the disk of the Mercury home.", Err: err}
	}
	return &mercury.Error{Kind: mercury.Setup, Help: "Make the Mercury home writable for this user, or set MERCURY_HOME to another folder.", Err: err}
}

// Guard returns an error that is ErrForeignHome when the folder belongs to the
// TypeScript Mercury: its mercury.yaml has a top-level key identity, or it has
// a schedules.yaml. Everything here that writes a home asks it first.
func (h Home) Guard() error {
	foreign := false
	if _, err := os.Stat(h.join("schedules.yaml")); err == nil {
		foreign = true
	} else if text, err := readLimited(h.Config(), maxFile); err == nil {
		foreign = hasTopLevelKey(text, "identity")
	}
	if !foreign {
		return nil
	}
	return &mercury.Error{
		Kind: mercury.Setup,
		Help: fmt.Sprintf("It is left as it is. Name a new home in MERCURY_HOME; then `mercury import mercury %s` takes over what it holds.", h.dir),
		Err:  fmt.Errorf("open the home %s: %w", h.dir, ErrForeignHome),
	}
}

// hasTopLevelKey looks for "key:" at the first column, quoted or not, without
// parsing, since the file may be broken and is not ours.
func hasTopLevelKey(text []byte, key string) bool {
	for line := range bytes.Lines(bytes.TrimPrefix(text, bom)) {
		name, _, found := bytes.Cut(line, []byte(":"))
		if found && string(bytes.Trim(bytes.TrimRight(name, " \t"), `"'`)) == key {
			return true
		}
	}
	return false
}

const tokenBytes = 32

// Token returns the bearer token of the API, 64 hex digits. The first call in
// a home makes it, 0600; of several processes that do so at once all get the
// same one.
func (h Home) Token() (string, error) {
	token, err := h.readToken()
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := h.Create(); err != nil {
		return "", err
	}
	var b [tokenBytes]byte
	rand.Read(b[:])
	err = atomicfile.Create(h.TokenFile(), []byte(hex.EncodeToString(b[:])+"\n"), 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", unwritten(err)
	}
	return h.readToken()
}

func (h Home) readToken() (string, error) {
	text, err := readLimited(h.TokenFile(), 4<<10)
	if err != nil {
		return "", &mercury.Error{
			Kind: mercury.Setup,
			Help: fmt.Sprintf("Make %s readable for this user.", h.TokenFile()),
			Err:  fmt.Errorf("read the API token: %w", err),
		}
	}
	token := string(bytes.TrimSpace(text))
	if b, err := hex.DecodeString(token); err != nil || len(b) < tokenBytes {
		return "", &mercury.Error{
			Kind: mercury.Setup,
			Help: fmt.Sprintf("Delete %s; a new one is made at the next start, and open cockpits log in again.", h.TokenFile()),
			Err:  errors.New("read the API token: the file holds no token"),
		}
	}
	return token, nil
}
