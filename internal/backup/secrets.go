package backup

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"

	"github.com/mercury-agent/mercury/internal/mercury"
)

// maxSecrets bounds what is decrypted, in bytes.
const maxSecrets = 16 << 20

// ErrPassphrase says that a passphrase opens nothing.
var ErrPassphrase = errors.New("the passphrase is not the one it was encrypted with")

// SealSecrets encrypts the secrets of the home in dir with a passphrase: .env,
// those of bots, the API's token, and mercury.yaml as it is. It takes about a
// second, so that guessing takes long.
func SealSecrets(dir, passphrase string) ([]byte, error) {
	if len(passphrase) < 8 {
		return nil, &mercury.Error{Kind: mercury.Invalid, Err: errors.New("the passphrase is shorter than 8 characters"), Help: "Choose a longer one; several words are easy to remember."}
	}
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, fmt.Errorf("seal secrets: %w", err)
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, to)
	if err != nil {
		return nil, fmt.Errorf("seal secrets: %w", err)
	}
	pack := tar.NewWriter(w)
	names, err := secretNames(dir)
	if err != nil {
		return nil, fmt.Errorf("seal secrets: %w", err)
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = pack.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(b)), Mode: 0o600})
		}
		if err == nil {
			_, err = pack.Write(b)
		}
		if err != nil {
			return nil, fmt.Errorf("seal secrets: %w", err)
		}
	}
	if err := errors.Join(pack.Close(), w.Close()); err != nil {
		return nil, fmt.Errorf("seal secrets: %w", err)
	}
	return out.Bytes(), nil
}

// secretNames are the files of a home that hold secrets.
func secretNames(dir string) ([]string, error) {
	names := []string{".env", "token", "mercury.yaml"}
	bots, err := os.ReadDir(filepath.Join(dir, "bots"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, b := range bots {
		names = append(names, "bots/"+b.Name()+"/.env")
	}
	return names, nil
}

// openSecrets writes the secrets into a restored home.
func openSecrets(home *os.Root, sealed []byte, passphrase string) error {
	key, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return fmt.Errorf("open secrets: %w", err)
	}
	r, err := age.Decrypt(bytes.NewReader(sealed), key)
	var wrong *age.NoIdentityMatchError
	if errors.As(err, &wrong) {
		return &mercury.Error{Kind: mercury.Denied, Err: fmt.Errorf("open secrets: %w", ErrPassphrase),
			Help: "Try again with the right one, or restore without secrets and set them anew."}
	}
	if err != nil {
		return fmt.Errorf("open secrets: %w", err)
	}
	pack := tar.NewReader(io.LimitReader(r, maxSecrets))
	for {
		h, err := pack.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return damaged("open secrets: %w", err)
		}
		if h.Typeflag != tar.TypeReg || !(secretFile(h.Name) && fs.ValidPath(h.Name) && filepath.IsLocal(filepath.FromSlash(h.Name)) || h.Name == "mercury.yaml") ||
			strings.ContainsAny(h.Name, "\\:\x00") {
			return damaged("%q is no secret of a home", h.Name)
		}
		if err := writeFile(home, h.Name, 0o600, pack); err != nil {
			return fmt.Errorf("open secrets: %w", err)
		}
	}
}
