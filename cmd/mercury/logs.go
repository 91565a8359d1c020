package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon/supervise"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

func logsCommand() *cobra.Command {
	var follow bool
	var lines int
	c := &cobra.Command{Use: "logs", Short: "What happened to the Mercury in the background", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			err = supervise.Show(c.Context(), safeWriter{c.OutOrStdout()}, logFile(home), lines, follow)
			if errors.Is(err, os.ErrNotExist) {
				return &mercury.Error{Kind: mercury.NotFound, Err: errors.New("there is no log yet"), Help: "`mercury start` and `mercury up` write one; `mercury serve` prints where it runs."}
			}
			return err
		}}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes, until Ctrl+C")
	c.Flags().IntVarP(&lines, "lines", "n", 100, "how many of the last lines to begin with")
	return c
}

// safeWriter keeps what a log quotes from steering the terminal.
type safeWriter struct{ out io.Writer }

func (w safeWriter) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.out, tui.Safe(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
