//go:build unix

package testenv

import (
	"context"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Address returns an address on loopback at which nothing listens, and no one
// else will while the test runs: a socket that is bound and never listens holds
// the port, so that connections to it are refused and the kernel gives it to
// nobody. ListenAt opens it.
func Address(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatalf("make a socket: %v", err)
	}
	unix.CloseOnExec(fd)
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatalf("share a port: %v", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("hold a port: %v", err)
	}
	held, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatalf("name a port: %v", err)
	}
	return (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: held.(*unix.SockaddrInet4).Port}).String()
}

// listening shares the port with the socket that holds it.
var listening = net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
	var shared error
	err := c.Control(func(fd uintptr) {
		shared = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	if err != nil {
		return err
	}
	return shared
}}

// ListenAt listens at what Address returned. It may be closed and opened again.
func ListenAt(address string) (net.Listener, error) {
	return listening.Listen(context.Background(), "tcp", address)
}
