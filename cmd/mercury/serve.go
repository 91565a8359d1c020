package main

import (
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/daemon"
)

func serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run Mercury in the foreground",
		Long: `Run the runtime in the foreground until it is interrupted. Other commands, the
terminal and other programs attach to it. A second one in the same home leaves
with exit code 6.

SIGTERM and Ctrl+C stop it in order: nothing new is taken, what is in hand is
put down where it can be picked up again, within ten seconds.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, cfg, problems, err := loadForServe(c.Context())
			if err != nil {
				return err
			}
			// Whoever reads what is printed may go, as the supervisor does when it is
			// killed; that is no reason to go too.
			signal.Ignore(syscall.SIGPIPE)
			house, err := daemon.Open(c.Context(), daemon.Options{Home: home, Config: cfg, Version: version, Helper: helper(),
				Problems: problems, Stoppable: true, Follow: true, Log: logger(c.ErrOrStderr(), cfg.Log.Level)})
			if err != nil {
				return err
			}
			for _, p := range problems {
				fmt.Fprintln(c.ErrOrStderr(), "mercury: degraded: "+p)
			}
			if held := house.Restored(); held != "" {
				fmt.Fprintln(c.ErrOrStderr(), "mercury: "+held)
			}
			if len(problems) == 0 {
				if err := cfg.Keep(); err != nil {
					fmt.Fprintln(c.ErrOrStderr(), "mercury: the configuration could not be kept for a later start: "+err.Error())
				}
			}
			// Whoever reads this line may kill it the next moment: the copy of the
			// configuration is kept by then.
			fmt.Fprintf(c.ErrOrStderr(), "mercury %s serves %s on http://%s\n", version, home.Dir(), house.Addr())
			return house.Run(c.Context())
		},
	}
}
