package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/store/homelock"
)

func stopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the Mercury that runs in the background",
		Long: `Stop the Mercury of this home in order: nothing new is taken, and what is in hand
is put down where the next start picks it up. It waits for the end, which takes
at most ten seconds or so.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			return stop(c, home)
		},
	}
}

// stop ends the Mercury of a home in order and waits for its end.
func stop(c *cobra.Command, home config.Home) error {
	r, err := attach(c.Context(), home)
	if err != nil {
		return stopSupervisor(c, home, err)
	}
	pid := homelock.Read(home.Dir()).PID
	if err := r.Stop(c.Context()); err != nil {
		return err
	}
	for _, dir := range []string{home.Dir(), home.Logs()} { // its supervisor ends behind it
		if err := free(c.Context(), dir); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "stopped (pid %d)\n", pid)
	return err
}

// free waits until the home's lock can be taken.
func free(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		lock, err := homelock.Take(dir, "")
		if err == nil {
			return lock.Release()
		}
		select {
		case <-ctx.Done():
			return errors.New("it was asked to stop and has not ended after 20 seconds; it goes on stopping")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stopSupervisor ends a supervisor that waits to start a crashed Mercury again.
// none is why there is no Mercury to stop.
func stopSupervisor(c *cobra.Command, home config.Home, none error) error {
	pid, err := endSupervisor(c.Context(), home)
	if err != nil {
		return err
	}
	if pid == 0 {
		return none
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "stopped what waited to start it again (pid %d)\n", pid)
	return err
}

// endSupervisor ends the supervisor of a home and waits for its end. It returns
// its process id; zero if there is none.
func endSupervisor(ctx context.Context, home config.Home) (pid int, err error) {
	held, by := homelock.Held(home.Logs())
	if !held || by.PID <= 0 {
		return 0, nil
	}
	p, err := os.FindProcess(by.PID)
	if err == nil {
		err = askToEnd(p)
	}
	if err != nil {
		return 0, fmt.Errorf("end the supervisor (pid %d): %w", by.PID, err)
	}
	return by.PID, free(ctx, home.Logs())
}
