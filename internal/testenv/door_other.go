//go:build !unix

package testenv

import (
	"net"
	"testing"
)

// Address returns an address on loopback at which nothing listens. This system
// cannot hold it, so another socket may be given it.
func Address(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a port: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ListenAt listens at what Address returned. It may be closed and opened again.
func ListenAt(address string) (net.Listener, error) { return net.Listen("tcp", address) }
