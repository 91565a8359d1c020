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
		return err
	}
	pid := homelock.Read(home.Dir()).PID
	if err := r.Stop(c.Context()); err != nil {
		return err
	}
	if err := free(c.Context(), home.Dir()); err != nil {
		return err
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
