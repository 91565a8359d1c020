package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/tui"
)

// chat is `mercury` alone: the conversation in this terminal. It attaches to
// the runtime of the home; if none runs, this process is the runtime for as
// long as the terminal is open.
func chat(c *cobra.Command, _ []string) error {
	ctx := c.Context()
	home, cfg, cfgErr := loadConfig(ctx)
	r, err := attachOrRun(ctx, home, func() (daemon.Options, error) {
		if cfgErr != nil {
			return daemon.Options{}, cfgErr
		}
		return daemon.Options{Home: home, Config: cfg, Version: version, Helper: helper(), Log: logger(c.ErrOrStderr(), quieter(cfg.Log.Level))}, nil
	})
	if err != nil {
		return err
	}
	where := "attached to the Mercury that runs"
	if r.house != nil {
		where = "Mercury runs until you leave"
	}
	out := c.OutOrStdout()
	fmt.Fprintf(out, "%s\n/help lists commands, /quit leaves\n", where)
	l := &tui.Line{Client: r.Client, Conversation: "local/default", Lines: tui.ReadLines(c.InOrStdin()), Out: out,
		Color: isTerminal(out) && os.Getenv("NO_COLOR") == "", Width: columns(out), Quit: []string{"/quit", "/exit"}}
	if !isTerminal(c.InOrStdin()) {
		l.Quiet = true
	}
	if r.house == nil {
		l.Reconnect = func(ctx context.Context) (*client.Client, error) { return attach(ctx, home) }
	}
	err = errors.Join(l.Run(ctx), r.close())
	if err == nil && l.Busy() {
		fmt.Fprintln(out, "What was in hand is kept; it goes on while a Mercury runs: mercury serve")
	}
	return err
}
