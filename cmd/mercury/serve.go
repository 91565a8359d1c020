package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/daemon/supervise"
)

// diaryFlag has serve write what happens into the log of its home instead of
// printing it: a supervisor starts it so.
const diaryFlag = "diary"

func serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run Mercury in the foreground",
		Long: `Run the runtime in the foreground until it is interrupted. Other commands, the
terminal and other programs attach to it. A second one in the same home leaves
with exit code 6.

SIGTERM and Ctrl+C stop it in order: nothing new is taken, what is in hand is
put down where it can be picked up again, within ten seconds.`,
		Args: noArgs,
	}
	diary := c.Flags().Bool(diaryFlag, false, "write what happens to logs/mercury.log of the home")
	c.RunE = func(c *cobra.Command, _ []string) error { return serve(c, *diary) }
	return c
}

func serve(c *cobra.Command, diary bool) error {
	home, cfg, problems, err := loadForServe(c.Context())
	if err != nil {
		return err
	}
	log := logger(c.ErrOrStderr(), cfg.Log.Level)
	say := func(line string) { fmt.Fprintln(c.ErrOrStderr(), line) }
	if diary {
		file, err := supervise.OpenLog(logFile(home))
		if err != nil {
			return err
		}
		defer file.Close()
		log = logger(file, cfg.Log.Level)
		say = func(line string) { fmt.Fprintln(file, line) }
	}
	house, err := daemon.Open(c.Context(), daemon.Options{Home: home, Config: cfg, Version: version, Helper: helper(),
		Problems: problems, Stoppable: true, Follow: true, Log: log})
	if err != nil {
		return err
	}
	for _, p := range problems {
		say("mercury: degraded: " + p)
	}
	if held := house.Restored(); held != "" {
		say("mercury: " + held)
	}
	if len(problems) == 0 {
		if err := cfg.Keep(); err != nil {
			say("mercury: the configuration could not be kept for a later start: " + err.Error())
		}
	}
	// Whoever reads this line may kill it the next moment: the copy of the
	// configuration is kept by then.
	say(fmt.Sprintf("mercury %s serves %s on http://%s", version, home.Dir(), house.Addr()))
	return house.Run(c.Context())
}
