package shell

import (
	"syscall"
	"testing"

	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tool/tooltest"
)

func TestWhatAKilledMercuryLeftIsEnded(t *testing.T) {
	w := tooltest.NewWorld(t)
	o := Options{Owner: "o" + mercury.NewID("x")}.withDefaults()
	// As after a kill: the command runs, and nobody minds it.
	cmd, _ := o.command(call(w, "x"), "echo $$ > pid; exec sleep 60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if n := EndLeftovers(o.Owner + "x"); n != 0 {
		t.Errorf("ended %d of somebody else", n)
	}
	if n := EndLeftovers(o.Owner); n != 1 {
		t.Errorf("ended %d", n)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it ended by itself")
	}
	if n := EndLeftovers(""); n != 0 {
		t.Errorf("ended %d of anybody", n)
	}
}
