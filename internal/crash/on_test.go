//go:build crashpoints

package crash

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestVictim is the body of the processes that the next test starts.
func TestVictim(t *testing.T) {
	if os.Getenv("CRASH_TEST_VICTIM") == "" {
		return
	}
	ctx := With(context.Background(), "accept")
	for range 2 {
		At(ctx, "commit.before")
		At(ctx, "commit.after")
	}
	Reach("plain")
}

func TestAProcessDiesAtThePointAskedFor(t *testing.T) {
	const all = "accept.commit.before\naccept.commit.after\naccept.commit.before\naccept.commit.after\nplain\n"
	for at, want := range map[string]string{
		"":                       all,
		"1":                      "accept.commit.before\n",
		"3":                      "accept.commit.before\naccept.commit.after\naccept.commit.before\n",
		"6":                      all,
		"accept.commit.after#2":  "accept.commit.before\naccept.commit.after\naccept.commit.before\naccept.commit.after\n",
		"accept.commit.before#3": all,
		"plain#1":                all,
	} {
		log := filepath.Join(t.TempDir(), "log")
		cmd := exec.Command(os.Args[0], "-test.run=^TestVictim$")
		cmd.Env = append(os.Environ(), "CRASH_TEST_VICTIM=1", "MERCURY_CRASH_LOG="+log, "MERCURY_CRASH_AT="+at)
		err := cmd.Run()
		dies := at != "" && at != "6" && at != "accept.commit.before#3"
		if (err != nil) != dies || (dies && cmd.ProcessState.ExitCode() != -1) {
			t.Errorf("%q: ended with %v", at, err)
		}
		if got, _ := os.ReadFile(log); string(got) != want {
			t.Errorf("%q: reached %q", at, got)
		}
	}
}
