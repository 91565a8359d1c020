//go:build linux

package power

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hex writes text as the recorder does.
func hex(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, `\x%02x`, c)
	}
	return b.String()
}

func TestTheTraceIsReadWithItsInterruptions(t *testing.T) {
	trace := strings.Join([]string{
		`7 openat(AT_FDCWD<` + hex("/h") + `>, "` + hex("/h/a") + `", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 9<` + hex("/h/a") + `>`,
		`7 pwrite64(9<` + hex("/h/a") + `>, "` + hex(`say "no"> `) + `", 10, 4096 <unfinished ...>`,
		`8 fdatasync(9<` + hex("/h/a") + `>) = 0`,
		`7 <... pwrite64 resumed>) = 10`,
		`8 write(5<TCP:[` + hex("127.0.0.1:1->127.0.0.1:2") + `]>, "` + hex("HTTP/1.1 202") + `", 12) = 12`,
		`8 openat(AT_FDCWD<` + hex("/h") + `>, "` + hex("/h/b") + `", O_RDONLY) = -1 ENOENT (No such file or directory)`,
		`8 --- SIGURG {si_signo=SIGURG} ---`,
		`8 renameat(AT_FDCWD<` + hex("/h") + `>, "` + hex("/h/a") + `", AT_FDCWD<` + hex("/h") + `>, "` + hex("/h/b") + `") = 0`,
		`8 +++ exited with 0 +++`,
	}, "\n") + "\n"
	calls, err := parseTrace(strings.NewReader(trace))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range calls {
		got = append(got, fmt.Sprintf("%d-%d %s %s %q %d %v %s", c.Begin, c.End, c.Name, c.FD, c.Data, c.Offset, c.Paths, c.Result))
	}
	want := []string{
		`1-1 openat /h "" 0 [/h/a] /h/a`,
		`3-3 fdatasync /h/a "" 0 [] `,
		`2-4 pwrite64 /h/a "say \"no\"> " 4096 [] `,
		`5-5 write TCP:[127.0.0.1:1->127.0.0.1:2] "HTTP/1.1 202" 0 [] `,
		`8-8 renameat /h "" 0 [/h/a /h/b] `,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// empty is the disk of a folder with nothing in it.
func empty() *disk {
	root := &node{folder: true}
	return &disk{root: "/h", now: map[string]*node{"/h": root}, kept: map[string]*node{"/h": root}, place: map[string]int64{}}
}

// left is what a power cut leaves of the file a, or "-" when there is none.
func left(t *testing.T, d *disk) string {
	t.Helper()
	dir := t.TempDir()
	if err := d.cutPower(dir, rand.New(rand.NewPCG(1, 1)), false); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "a"))
	if err != nil {
		return "-"
	}
	return string(b)
}

func TestAPowerCutLeavesWhatWasSyncedAndNoMore(t *testing.T) {
	write := func(d *disk, text string) {
		d.write("/h/a", int64(len(d.now["/h/a"].content(len(d.now["/h/a"].loose)))), []byte(text))
	}
	for _, tt := range []struct {
		name string
		do   func(d *disk)
		want string
	}{
		{"a file whose folder was not synced", func(d *disk) { write(d, "one"); d.sync("/h/a")(d) }, "-"},
		{"a synced file in a synced folder", func(d *disk) { write(d, "one"); d.sync("/h/a")(d); d.sync("/h")(d) }, "one"},
		{"a write after the sync", func(d *disk) { write(d, "one"); d.sync("/h/a")(d); d.sync("/h")(d); write(d, "two") }, "one"},
		{"a write while the sync is under way", func(d *disk) {
			write(d, "one")
			end := d.sync("/h/a")
			write(d, "two")
			end(d)
			d.sync("/h")(d)
		}, "one"},
		{"a removal of a synced file that was not synced", func(d *disk) {
			write(d, "one")
			d.sync("/h/a")(d)
			d.sync("/h")(d)
			delete(d.now, "/h/a")
		}, "one"},
		{"a cut that was synced", func(d *disk) { write(d, "one"); d.cut("/h/a", 1); d.sync("/h/a")(d); d.sync("/h")(d) }, "o"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := empty()
			d.open("/h/a", "O_CREAT")
			tt.do(d)
			if got := left(t, d); got != tt.want {
				t.Errorf("left %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTheLastWriteTearsAtASector(t *testing.T) {
	seen := map[int]bool{}
	for seed := range uint64(100) {
		n := &node{loose: []write{{at: 0, data: make([]byte, 4*sector)}}}
		size := len(n.left(rand.New(rand.NewPCG(seed, 0)), false))
		if size%sector != 0 {
			t.Fatalf("torn at %d", size)
		}
		seen[size/sector] = true
	}
	if len(seen) != 5 {
		t.Errorf("torn in %d ways, want 5", len(seen))
	}
}
