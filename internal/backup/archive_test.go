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
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/store/sqlite"
	"github.com/mercury-agent/mercury/internal/store/storetest"
)

// lived is a home with something of everything, and its open database.
func lived(t *testing.T) (string, *sqlite.Store) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	for name, text := range map[string]string{
		"mercury.yaml":                       "name: Mercury\n",
		".env":                               "OPENAI_API_KEY=sk-canary-env\n",
		"token":                              "canary-token\n",
		"node":                               "node_1\n",
		"soul/soul.md":                       "I am calm.\n",
		"skills/greet/SKILL.md":              "---\nname: greet\n---\n",
		"skills/greet/scripts/run.sh":        "#!/bin/sh\n",
		"bots/ann/bot.yaml":                  "name: Ann\n",
		"bots/ann/.env":                      "KEY=sk-canary-bot\n",
		"bots/bob/persona.md":                "Terse.\n",
		"logs/mercury.log":                   "noise\n",
		"files/outputs/a.txt":                "output\n",
		"files/spool/run_1":                  "half an answer",
		"files/trash/old.txt":                "thrown away",
		"backups/notes.txt":                  "not one",
		"bots/cleo/workspace/deep/notes.txt": "notes\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "skills/greet/scripts/run.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := opened(t, dir)
	storetest.FillTables(t, s, 5)
	return dir, s
}

func opened(t *testing.T, dir string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*sqlite.Store)
}

func created(t *testing.T, k *Keeper, r Request) Info {
	t.Helper()
	info, err := k.Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestABackupHoldsWhatPeopleOwnAndNoSecretAndComesBackEqual(t *testing.T) {
	home, s := lived(t)
	want := storetest.Tables(t, s)
	info := created(t, New(home, s, Options{Version: "1"}), Request{})
	m, err := Verify(t.Context(), info.Path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range m.Entries {
		if !strings.HasPrefix(e.Path, "files/") || e.Path == "files/outputs/a.txt" {
			names = append(names, e.Path)
		}
	}
	slices.Sort(names)
	if want := []string{"bots/ann/bot.yaml", "bots/bob/persona.md", "bots/cleo/workspace/deep/notes.txt", "files/outputs/a.txt",
		"mercury.db", "mercury.yaml", "skills/greet/SKILL.md", "skills/greet/scripts/run.sh", "soul/soul.md"}; !slices.Equal(names, want) {
		t.Errorf("it holds %v", names)
	}
	if all := unpacked(t, info.Path); bytes.Contains(all, []byte("canary")) {
		t.Error("a secret is in it")
	}
	to := filepath.Join(t.TempDir(), "there")
	if _, err := Restore(t.Context(), info.Path, to, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name == databaseEntry {
			continue
		}
		a, err := os.ReadFile(filepath.Join(home, name))
		b, err2 := os.ReadFile(filepath.Join(to, name))
		if err != nil || err2 != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %q became %q (%v, %v)", name, a, b, err, err2)
		}
	}
	if st, err := os.Stat(filepath.Join(to, "skills/greet/scripts/run.sh")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("a script came back as %v, %v", st.Mode(), err)
	}
	if got := storetest.Tables(t, opened(t, to)); !slices.Equal(got, want) {
		t.Errorf("the database holds %v\nwant %v", got, want)
	}
}

func unpacked(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSecretsAreInABackupOnlyBehindTheirPassphrase(t *testing.T) {
	home, s := lived(t)
	sealed, err := SealSecrets(home, "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	info := created(t, New(home, s, Options{}), Request{Secrets: sealed})
	if !info.Secrets || bytes.Contains(unpacked(t, info.Path), []byte("canary")) {
		t.Error("the secrets lie open, or are missing")
	}
	if _, err := SealSecrets(home, "short"); err == nil {
		t.Error("a passphrase of five characters was taken")
	}
	with := func(p string) (string, error) {
		to := filepath.Join(t.TempDir(), "there")
		_, err := Restore(t.Context(), info.Path, to, RestoreOptions{Passphrase: func() (string, error) { return p, nil }})
		return to, err
	}
	if to, err := with("wrong horse"); !errors.Is(err, ErrPassphrase) {
		t.Errorf("got %v", err)
	} else if _, err := os.Stat(filepath.Join(to, databaseEntry)); err == nil {
		t.Error("a home was made without its secrets")
	}
	to, err := with("correct horse")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".env", "token", "bots/ann/.env"} {
		a, _ := os.ReadFile(filepath.Join(home, name))
		b, err := os.ReadFile(filepath.Join(to, name))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s came back as %q, %v", name, b, err)
		}
		if st, err := os.Stat(filepath.Join(to, name)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s came back as %v, %v", name, st.Mode(), err)
		}
	}
}

func TestEveryDamagedByteOfABackupIsFound(t *testing.T) {
	home := t.TempDir()
	info := created(t, New(home, opened(t, home), Options{}), Request{})
	whole, err := os.ReadFile(info.Path)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "damaged")
	refused := func(b []byte, what string, at int) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(t.Context(), path); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s %d of %d: got %v", what, at, len(whole), err)
		}
	}
	for i := range whole {
		if i > 1000 && i < len(whole)-1000 && i%7 != 0 {
			continue // between the ends one byte is like another
		}
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		refused(b, "a flipped bit in byte", i)
	}
	for i := 0; i < len(whole); i += 97 {
		refused(whole[:i], "cut at", i)
	}
	refused(append(bytes.Clone(whole), 0), "a byte more than", len(whole))
	to := filepath.Join(t.TempDir(), "there")
	if _, err := Restore(t.Context(), path, to, RestoreOptions{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("something was written")
	}
}

// forged is an archive whose checksums all hold, with entries of our choice.
func forged(t *testing.T, entries []tar.Header, m func(*Manifest), after ...tar.Header) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "forged.tar.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sum := sha256.New()
	zip := gzip.NewWriter(io.MultiWriter(f, sum))
	pack := tar.NewWriter(zip)
	manifest := Manifest{Format: format, ID: "bk_x"}
	add := func(h tar.Header, body string) {
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			h.Size = int64(len(body))
		} else {
			body = ""
		}
		if err := pack.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(pack, body); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range entries {
		add(h, "body")
		digest := sha256.Sum256([]byte("body"))
		manifest.Entries = append(manifest.Entries, Entry{Path: h.Name, Size: 4, SHA256: hex.EncodeToString(digest[:])})
	}
	if m != nil {
		m(&manifest)
	}
	b, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	add(tar.Header{Name: manifestEntry, Mode: 0o600}, string(b))
	for _, h := range after {
		add(h, "body")
	}
	if err := errors.Join(pack.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(seal(sum)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestABackupWithStrangeEntriesIsRefused(t *testing.T) {
	db := tar.Header{Name: databaseEntry, Mode: 0o600}
	file := func(name string) []tar.Header { return []tar.Header{db, {Name: name, Mode: 0o600}} }
	if _, err := Verify(t.Context(), forged(t, file("soul/soul.md"), nil)); err != nil {
		t.Fatalf("an ordinary one is refused: %v", err)
	}
	for name, path := range map[string]string{
		"a way out":                forged(t, file("soul/../../x"), nil),
		"an absolute path":         forged(t, file("/etc/passwd"), nil),
		"a way out by backslashes": forged(t, file(`soul\..\..\x`), nil),
		"a drive":                  forged(t, file("files/C:x"), nil),
		"an empty piece":           forged(t, file("soul//x"), nil),
		"an unknown name":          forged(t, file("notes.txt"), nil),
		"a secret in the open":     forged(t, file("bots/ann/.env"), nil),
		"the API's token":          forged(t, file("token"), nil),
		"a home's record":          forged(t, file(identityFile), nil),
		"a name twice":             forged(t, append(file("soul/a"), tar.Header{Name: "soul/a"}), nil),
		"a name in other letters":  forged(t, append(file("soul/a"), tar.Header{Name: "soul/A"}), nil),
		"a link":                   forged(t, []tar.Header{db, {Name: "soul/a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}}, nil),
		"a hard link":              forged(t, []tar.Header{db, {Name: "soul/a", Typeflag: tar.TypeLink, Linkname: "mercury.db"}}, nil),
		"a device":                 forged(t, []tar.Header{db, {Name: "soul/a", Typeflag: tar.TypeChar}}, nil),
		"a folder":                 forged(t, []tar.Header{db, {Name: "soul/", Typeflag: tar.TypeDir}}, nil),
		"no database":              forged(t, []tar.Header{{Name: "soul/a"}}, nil),
		"an entry less":            forged(t, file("soul/a"), func(m *Manifest) { m.Entries = append(m.Entries, Entry{Path: "soul/b"}) }),
		"an entry more":            forged(t, file("soul/a"), func(m *Manifest) { m.Entries = m.Entries[:1] }),
		"another sum":              forged(t, file("soul/a"), func(m *Manifest) { m.Entries[1].SHA256 = m.Entries[1].SHA256[1:] + "0" }),
		"something after the end":  forged(t, file("soul/a"), nil, tar.Header{Name: "soul/b"}),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Verify(t.Context(), path); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v", err)
			}
			to := filepath.Join(t.TempDir(), "there")
			if _, err := Restore(t.Context(), path, to, RestoreOptions{}); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := Verify(t.Context(), forged(t, file("soul/a"), func(m *Manifest) { m.Format++ })); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("a newer format: got %v", err)
	}
}

func FuzzNoNameOfAnArchiveLeadsOutOfTheHome(f *testing.F) {
	for _, name := range []string{"soul/a", "../x", "soul/../../x", `soul\..\x`, "files/C:x", "/x", "mercury.yaml/x", "soul", "skills/./x", "CON"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if !inside(name) {
			return
		}
		got := filepath.Join("/home", filepath.FromSlash(name))
		if !strings.HasPrefix(got, "/home/") || filepath.ToSlash(got) != "/home/"+name {
			t.Errorf("%q is written to %q", name, got)
		}
	})
}

func TestABackupUnderLoadIsConsistent(t *testing.T) {
	home, s := lived(t)
	// Each transaction writes the same to two places; a snapshot that fell
	// between them would show it.
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		for i := int64(1); ; i++ {
			value := strings.Repeat("v", int(i%50))
			err := s.Update(ctx, func(tx store.Tx) error {
				return errors.Join(tx.SetMeta("one", value), tx.SetMeta("two", value))
			})
			if err != nil {
				done <- err
				return
			}
			if _, err := s.Blobs().Put(ctx, []byte(value+"content")); err != nil {
				done <- err
				return
			}
		}
	}()
	k := New(home, s, Options{})
	for range 5 {
		info := created(t, k, Request{})
		to := filepath.Join(t.TempDir(), "there")
		if _, err := Restore(t.Context(), info.Path, to, RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		var one, two string
		err := opened(t, to).View(t.Context(), func(tx store.Tx) (err error) {
			if one, err = fact(tx, "one"); err == nil {
				two, err = fact(tx, "two")
			}
			return err
		})
		if err != nil || one != two {
			t.Errorf("got %q and %q, %v", one, two, err)
		}
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
