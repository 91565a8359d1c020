package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/tour"
	"github.com/mercury-agent/mercury/internal/tui"
)

func demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See Mercury work: no key, no account, under a minute",
		Long: `Start a private Mercury in a temporary home with a scripted stand-in for a model,
and talk to it: it looks into files, proposes an edit, runs a command when you
say yes, keeps a note, and finishes its answer after a kill -9. Without a
terminal it plays the scene by itself.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			// A closed terminal or pipe must not leave the runtime behind.
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGHUP, syscall.SIGPIPE)
			defer stop()
			alone := !isTerminal(c.InOrStdin()) || !isTerminal(c.OutOrStdout())
			var lines <-chan string
			if !alone {
				lines = tui.ReadLines(c.InOrStdin())
			}
			err = tour.Run(ctx, tour.Options{Binary: self, Lines: lines, Out: c.OutOrStdout(), Alone: alone,
				Color: !alone && os.Getenv("NO_COLOR") == "", Width: columns(c.OutOrStdout()),
				Attach: func(ctx context.Context, dir string) (*client.Client, error) {
					home, err := config.HomeAt(dir)
					if err != nil {
						return nil, err
					}
					return attach(ctx, home)
				}})
			if ctx.Err() != nil && c.Context().Err() == nil { // nobody is left to be told anything
				return &exit{code: exitFailed, silent: true, err: ctx.Err()}
			}
			if err != nil || ctx.Err() != nil {
				return err
			}
			return afterDemo(c, lines)
		},
	}
}
