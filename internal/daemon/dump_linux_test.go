package daemon

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The switch is the whole process's, so the attack runs in a copy of this test.
func TestACommandCannotReadTheEnvironmentOfTheRuntime(t *testing.T) {
	if os.Getenv("MERCURY_TEST_CLOSED") == "" {
		// By this name the binary is found though its folder is closed to others.
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
		cmd.Dir = "/"
		cmd.Env = append(os.Environ(), "MERCURY_TEST_CLOSED=a-key")
		// Root's capabilities would open every door, so root steps down first.
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	attacks := []string{"cat /proc/$PPID/environ", "cat /proc/$PPID/maps", "ls /proc/$PPID/fd", "ls /proc/$PPID/cwd/", "ls /proc/$PPID/root/"}
	for _, a := range attacks {
		if out, err := exec.Command("/bin/sh", "-c", a).CombinedOutput(); err != nil {
			t.Fatalf("%s does not work on an open process: %v %s", a, err, out)
		}
	}
	if err := closeMemory(); err != nil {
		t.Fatal(err)
	}
	if d, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || d != 0 {
		t.Errorf("dumpable = %d, %v", d, err)
	}
	for _, a := range attacks {
		if exec.Command("/bin/sh", "-c", a).Run() == nil {
			t.Errorf("a command got through with %s", a)
		}
	}
}
