//go:build unix

package homelock

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestALockIsGivenUpThoughAChildThatStartsSharesItsFile(t *testing.T) {
	dir := t.TempDir()
	l, err := Take(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	shared, err := unix.Dup(int(l.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(shared)
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := Take(dir, "")
	if err != nil {
		t.Fatalf("the home is still taken: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}
