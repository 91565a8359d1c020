package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon/supervise"
	"github.com/mercury-agent/mercury/internal/store/homelock"
)

func startCommand() *cobra.Command {
	return &cobra.Command{Use: "start", Short: "Start Mercury in the background", Args: noArgs,
		Long: `Start Mercury in the background, where it goes on after this terminal is closed and
is started again when it crashes (see "mercury up"). Where one runs already, say so.`,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			return start(c, home)
		}}
}

func restartCommand() *cobra.Command {
	return &cobra.Command{Use: "restart", Short: "Stop the Mercury in the background in order and start it again", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			if _, err := attach(c.Context(), home); err == nil {
				if err := stop(c, home); err != nil {
					return err
				}
			}
			return start(c, home)
		}}
}

// startPatience is how long a Mercury is given to answer after it was started.
const startPatience = 15 * time.Second

// start has the runtime of a home kept running in the background.
func start(c *cobra.Command, home config.Home) error {
	ctx := c.Context()
	if _, err := attach(ctx, home); err == nil {
		return saysRunning(c, home, "Mercury runs already")
	}
	// What a start would refuse is said here, where somebody reads it.
	if _, _, _, err := loadForServe(ctx); err != nil {
		return err
	}
	if err := home.Create(); err != nil {
		return fmt.Errorf("make the home: %w", err)
	}
	if err := calm(c, home); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	p := exec.Command(self, "up")
	p.Dir = home.Dir() // the folder of this terminal may go
	p.SysProcAttr = detached()
	if err := p.Start(); err != nil {
		return fmt.Errorf("start %s: %w", self, err)
	}
	return await(c, home, p)
}

// calm ends a supervisor that waits after a crash, and forgets the crashes:
// somebody wants it started now.
func calm(c *cobra.Command, home config.Home) error {
	s, err := supervise.Read(crashFile(home))
	if err == nil && len(s.Crashes) == 0 {
		return nil // one that is just starting is left alone
	}
	if _, err := endSupervisor(c.Context(), home); err != nil {
		return err
	}
	return supervise.Forget(crashFile(home))
}

// await waits until the runtime of a home answers, whoever started it, or its
// supervisor p gives up.
func await(c *cobra.Command, home config.Home, p *exec.Cmd) error {
	ctx := c.Context()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = p.Wait() // how it ended is read from its state
	}()
	late := time.After(startPatience)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			if p.ProcessState.ExitCode() != exitTaken {
				return &exit{code: max(p.ProcessState.ExitCode(), exitFailed), err: fmt.Errorf("it did not begin; the last of %s: %s", logFile(home), lastOf(ctx, home))}
			}
			ended = nil // another start was faster
		case <-late:
			return &exit{code: exitFailed, err: fmt.Errorf("it was started and does not answer yet; mercury status and %s say more", logFile(home))}
		case <-time.After(20 * time.Millisecond):
			if _, err := attach(ctx, home); err == nil {
				return saysRunning(c, home, "started")
			}
		}
	}
}

// saysRunning says which Mercury runs, and whether it is kept running.
func saysRunning(c *cobra.Command, home config.Home, what string) error {
	h := homelock.Read(home.Dir())
	text := fmt.Sprintf("%s (pid %d, http://%s)", what, h.PID, h.Address)
	if kept, _ := homelock.Held(home.Logs()); kept {
		text += "; mercury logs -f shows what happens"
	} else {
		text += "; nothing starts it again after a crash: mercury restart mends that"
	}
	_, err := fmt.Fprintln(c.OutOrStdout(), text)
	return err
}

// lastOf is what a Mercury that did not begin left.
func lastOf(ctx context.Context, home config.Home) string {
	var b strings.Builder
	if err := supervise.Show(ctx, &b, logFile(home), 3, false); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
