//go:build unix

package cluster

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mercury-agent/mercury/test/house"
)

// taken is the exit code of a runtime that finds its home taken.
const taken = 6

func TestOfTwoStartedAtOnceInOneHomeExactlyOneLives(t *testing.T) {
	program := house.Program{}.Build(t)
	const rounds = 50
	for _, tt := range []struct{ name, listen string }{
		{"on any port", "127.0.0.1:0"},
		{"on one port", freePort(t)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			if err := os.Mkdir(home, 0o700); err != nil {
				t.Fatal(err)
			}
			config := fmt.Sprintf("model: local/none\nweb: { listen: %q }\nproviders:\n  local: { api: openai, base_url: \"http://127.0.0.1:9/v1\" }\n", tt.listen)
			if err := os.WriteFile(filepath.Join(home, "mercury.yaml"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range rounds {
				twins(t, program, home, i)
			}
		})
	}
}

// twins starts two at once and wants one to live and the other to leave with
// its code.
func twins(t *testing.T, program, home string, round int) {
	t.Helper()
	var both [2]*house.Process
	var ready, started sync.WaitGroup
	ready.Add(1)
	for i := range both {
		started.Go(func() {
			ready.Wait()
			p, err := house.Spawn(home, []string{program, "serve"}, []string{"MERCURY_HOME=" + home, "HOME=" + home})
			if err != nil {
				t.Error(err)
			}
			both[i] = p
		})
	}
	ready.Done()
	started.Wait()
	if both[0] == nil || both[1] == nil {
		t.FailNow()
	}
	var loser, winner *house.Process
	select {
	case <-both[0].Ended():
		loser, winner = both[0], both[1]
	case <-both[1].Ended():
		loser, winner = both[1], both[0]
	case <-time.After(time.Minute):
		t.Errorf("round %d: both live", round)
		loser, winner = both[0], both[1]
	}
	addr, err := winner.Address(time.Minute)
	if err != nil || addr == "" {
		t.Errorf("round %d: none lives: %v\n%s\n%s", round, err, winner.Output(), loser.Output())
	}
	for _, p := range both {
		_ = p.Signal(os.Kill)
		<-p.Ended()
	}
	if loser.Code() != taken {
		t.Errorf("round %d: the second left with %d, want %d:\n%s", round, loser.Code(), taken, loser.Output())
	}
}

// freePort is an address that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
