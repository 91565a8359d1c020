package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/daemon/setup"
	"github.com/mercury-agent/mercury/internal/tui"
)

// chat is `mercury` alone: the conversation in this terminal. It attaches to
// the runtime of the home; if none runs, this process is the runtime for as
// long as the terminal is open.
func chat(c *cobra.Command, _ []string) error {
	ctx := c.Context()
	home, cfg, cfgErr := loadConfig(ctx)
	if home.Beside() != "" && !home.Exists() && isTerminal(c.InOrStdin()) && isTerminal(c.OutOrStdout()) {
		if err := takeOver(c, home); err != nil {
			return err
		}
		_, cfg, cfgErr = loadConfig(ctx)
	}
	lines, cfg, cfgErr, err := firstTime(c, home, cfg, cfgErr)
	if err != nil || lines == nil {
		return err
	}
	r, err := attachOrRun(ctx, home, func() (daemon.Options, error) {
		if cfgErr != nil {
			return daemon.Options{}, cfgErr
		}
		return daemon.Options{Home: home, Config: cfg, Version: version, Helper: helper(), Follow: true, Log: logger(c.ErrOrStderr(), quieter(cfg.Log.Level))}, nil
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
	l := &tui.Line{Client: r.Client, Conversation: "local/default", Lines: lines(), Out: out,
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

// firstTime sets up a home in which nothing is decided yet, or in which that
// was interrupted, when somebody sits at the terminal. It returns what is read
// from then on; without that and without an error the person has left.
func firstTime(c *cobra.Command, home config.Home, cfg *config.Config, cfgErr error) (func() <-chan string, *config.Config, error, error) {
	in := c.InOrStdin()
	plain := func() <-chan string { return tui.ReadLines(in) }
	if !isTerminal(in) || !isTerminal(c.OutOrStdout()) || !unsettled(home) && !errors.Is(cfgErr, config.ErrNotConfigured) {
		return plain, cfg, cfgErr, nil
	}
	if _, err := attach(c.Context(), home); err == nil {
		return plain, cfg, cfgErr, nil // it runs, so it is set up
	}
	p := newPrompter(c)
	if whole, err := setUp(c, home, p); err != nil || !whole {
		return nil, nil, nil, err
	}
	_, cfg, cfgErr = loadConfig(c.Context())
	return p.lines, cfg, cfgErr, nil
}

// unsettled reports whether nothing was ever decided in a home, or the set-up
// of it was interrupted.
func unsettled(home config.Home) bool {
	_, err := os.Stat(home.Config())
	return errors.Is(err, fs.ErrNotExist) || setup.Begun(home)
}
