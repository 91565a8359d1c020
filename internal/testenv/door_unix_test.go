//go:build unix

package testenv_test

import (
	"net"
	"testing"

	"github.com/mercury-agent/mercury/internal/testenv"
)

func TestAHeldAddressIsClosedOpensAndClosesAgainAndIsNobodyElses(t *testing.T) {
	at := testenv.Address(t)
	refused := func() {
		t.Helper()
		if c, err := net.Dial("tcp", at); err == nil {
			c.Close()
			t.Fatal("something answers at a closed address")
		}
		if l, err := net.Listen("tcp", at); err == nil {
			l.Close()
			t.Fatal("another socket took a held address")
		}
	}
	for range 3 {
		refused()
		l, err := testenv.ListenAt(at)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatalf("nothing answers at an open address: %v", err)
		}
		c.Close()
		l.Close()
	}
	refused()
}
