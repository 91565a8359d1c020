package storetest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
)

var textTests = map[string]func(*testing.T, Home, store.Store){
	"any valid text comes back as it was, without its NULs": func(t *testing.T, _ Home, s store.Store) {
		conversation(t, s, "local/a")
		for _, tt := range []struct{ in, want string }{
			{"'; DROP TABLE run; -- ? $1 @run", "'; DROP TABLE run; -- ? $1 @run"},
			{"日本語 한국어 العربية 👩‍👩‍👧‍👦 e\u0301 \u202e", "日本語 한국어 العربية 👩‍👩‍👧‍👦 e\u0301 \u202e"},
			{"line\nline\r\n\ttab \x01\x1b[31m\x7f", "line\nline\r\n\ttab \x01\x1b[31m\x7f"},
			{"\ufeffbom \uffff \U0010ffff", "\ufeffbom \uffff \U0010ffff"},
			{"a\x00b", "a\ufffdb"},
			{"broken \xff\xfe\xed\xa0\x80 end", "broken \ufffd end"},
			{`\u0000 \\ \x00 %s`, `\u0000 \\ \x00 %s`},
			{strings.Repeat("ä", 1<<20), strings.Repeat("ä", 1<<20)},
			{"", ""},
		} {
			update(t, s, func(tx store.Tx) error {
				wrote, err := tx.Append("local/a", mercury.Entry{Text: tt.in})
				if err != nil {
					return err
				}
				got, err := tx.Entry(wrote[0].ID)
				if got.Text != tt.want {
					t.Errorf("%.60q came back as %.60q, want %.60q", tt.in, got.Text, tt.want)
				}
				return err
			})
		}
	},
	"an id with hostile bytes still finds its row": func(t *testing.T, _ Home, s store.Store) {
		in := newInput("in_1", 0)
		in.MessageID, in.ConversationID = "m\x00\xff'\"", "telegram/\x00'"
		in.Actor.Name = "Bobby\x00Tables"
		in.Files = []mercury.File{{Name: "a\x00b\xff"}}
		update(t, s, func(tx store.Tx) error { return tx.InsertInput(in) })
		fails(t, s, store.ErrExists, func(tx store.Tx) error {
			again := in
			again.ID = "in_2"
			return tx.InsertInput(again)
		})
		view(t, s, func(tx store.Tx) error {
			found, err := tx.FindInput("telegram", in.MessageID)
			same(t, "found", found.ID, "in_1")
			queued, err2 := tx.QueuedInputs(in.ConversationID)
			same(t, "queued", len(queued), 1)
			return errors.Join(err, err2)
		})
	},
	"JSON comes back byte for byte": func(t *testing.T, _ Home, s store.Store) {
		for _, text := range []string{`{"a":  1.50, "a": 2, "n": "\u0000\ud800"}`, `[]`, `null`, `"x"`, `12345678901234567890`} {
			update(t, s, func(tx store.Tx) error {
				if err := tx.PutStep(mercury.Step{RunID: "run", CallID: "c", Output: json.RawMessage(text)}); err != nil {
					return err
				}
				got, err := tx.Step("run", 0, "c")
				same(t, "output", string(got.Output), text)
				return err
			})
		}
	},
	"a large output fits in a row": func(t *testing.T, _ Home, s store.Store) {
		output, _ := json.Marshal(strings.Repeat("0123456789abcdef", 4<<20/16))
		update(t, s, func(tx store.Tx) error {
			return tx.PutStep(mercury.Step{RunID: "run", CallID: "c", Output: output})
		})
		view(t, s, func(tx store.Tx) error {
			got, err := tx.Step("run", 0, "c")
			if !bytes.Equal(got.Output, output) {
				t.Errorf("%d bytes came back as %d", len(output), len(got.Output))
			}
			return err
		})
	},
}

var blobTests = map[string]func(*testing.T, Home, store.Store){
	"a blob is its content, put once or twice": func(t *testing.T, home Home, s store.Store) {
		refs := map[string][]byte{}
		for _, content := range [][]byte{{}, nil, {0, 1, 255}, bytes.Repeat([]byte("x"), 3<<20), {0, 1, 255}} {
			ref, err := s.Blobs().Put(t.Context(), content)
			if err != nil {
				t.Fatal(err)
			}
			refs[ref] = content
		}
		same(t, "different contents", len(refs), 3)
		s.Close()
		s = home.Open(t)
		defer s.Close()
		for ref, content := range refs {
			if got := readBlob(t, s, ref); !bytes.Equal(got, content) {
				t.Errorf("%s: %d bytes came back as %d", ref, len(content), len(got))
			}
		}
	},
	"an unknown blob is not found, whatever its name": func(t *testing.T, _ Home, s store.Store) {
		for _, ref := range []string{"", "../../etc/passwd", strings.Repeat("a", 64), strings.Repeat("A", 64), "a\x00"} {
			if _, err := s.Blobs().Open(t.Context(), ref); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%q: %v, want ErrNotFound", ref, err)
			}
		}
	},
	"a sweep takes what is old and unwanted": func(t *testing.T, _ Home, s store.Store) {
		b := s.Blobs()
		wanted, err := b.Put(t.Context(), []byte("wanted"))
		if err != nil {
			t.Fatal(err)
		}
		loose, err := b.Put(t.Context(), []byte("loose"))
		if err != nil {
			t.Fatal(err)
		}
		keep := func(ref string) bool { return ref == wanted }
		n, err := b.Sweep(t.Context(), time.Now().Add(-time.Hour), keep)
		same(t, "young ones", []any{n, err}, []any{0, error(nil)})
		n, err = b.Sweep(t.Context(), time.Now().Add(time.Hour), keep)
		same(t, "old ones", []any{n, err}, []any{1, error(nil)})
		readBlob(t, s, wanted)
		if _, err := b.Open(t.Context(), loose); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("swept: %v", err)
		}
		if _, err := b.Put(t.Context(), []byte("loose")); err != nil {
			t.Errorf("put again: %v", err)
		}
		readBlob(t, s, loose)
	},
}

func readBlob(t *testing.T, s store.Store, ref string) []byte {
	t.Helper()
	r, err := s.Blobs().Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
