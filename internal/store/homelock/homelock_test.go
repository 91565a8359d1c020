//go:build unix

package homelock

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func TestALockHasOneHolderAndSaysWho(t *testing.T) {
	dir := t.TempDir()
	l, err := Take(dir, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	var held *HeldError
	if _, err := Take(dir, ""); !errors.As(err, &held) || held.Holder.Address != "127.0.0.1:1" {
		t.Errorf("a second Take: %v", err)
	}
	if got := Read(dir); got.Address != "127.0.0.1:1" || got.PID == 0 {
		t.Errorf("Read = %+v", got)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := Take(dir, "")
	if err != nil {
		t.Fatalf("after Release: %v", err)
	}
	again.Release()
}

// A program that is just being started has a copy of the open file until it
// begins; so has this test.
func TestReleaseFreesTheHomeThoughACopyOfTheFileIsOpen(t *testing.T) {
	dir := t.TempDir()
	l, err := Take(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(l.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := Take(dir, "")
	if err != nil {
		t.Fatalf("after Release: %v", err)
	}
	again.Release()
}
