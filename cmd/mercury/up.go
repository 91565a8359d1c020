package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon/supervise"
	"github.com/mercury-agent/mercury/internal/doctor"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store/homelock"
)

// What a Mercury in the background leaves in the logs of its home. Its
// supervisor locks that folder.
func logFile(home config.Home) string   { return filepath.Join(home.Logs(), "mercury.log") }
func crashFile(home config.Home) string { return filepath.Join(home.Logs(), "crashes.json") }
func wordsFile(home config.Home) string { return filepath.Join(home.Logs(), "last-words") }

func upCommand() *cobra.Command {
	return &cobra.Command{Use: "up", Short: "Run Mercury and start it again when it crashes", Args: noArgs,
		Long: `Run "mercury serve" and start it again when it crashes: after one second, then
two, four and so on up to a minute. After five crashes in a row it gives up with exit
code 8 and says why; "mercury status" and "mercury doctor" say it too, and "mercury
start" tries again. An ordered end, a broken configuration and a home that another
Mercury owns are no crashes.

What happens is written to logs/mercury.log of the home, at most five files of 5 MB,
and shown here as well in a terminal.`,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			if err := home.Create(); err != nil {
				return fmt.Errorf("make the home: %w", err)
			}
			lock, err := homelock.Take(home.Logs(), "")
			if err != nil {
				return err
			}
			defer lock.Release()
			if isTerminal(c.ErrOrStderr()) {
				go func() { _ = supervise.Show(c.Context(), safeWriter{c.ErrOrStderr()}, logFile(home), 0, true) }()
			}
			return up(c.Context(), home)
		}}
}

// up keeps the runtime of a home running.
func up(ctx context.Context, home config.Home) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	serve := supervise.Program{Path: self, Args: []string{"serve", "--" + diaryFlag}, Words: wordsFile(home), End: askToEnd}
	say := func(line string) {
		line = fmt.Sprintf("time=%s level=WARN msg=%q", time.Now().Format("2006-01-02T15:04:05.000Z07:00"), "supervisor: "+line)
		_ = supervise.Append(logFile(home), line) // a full disk is said by the runtime
	}
	code, err := supervise.Run(ctx, supervise.Options{Live: serve.Live, Final: []int{exitUsage, exitSetup, exitTaken}, File: crashFile(home), Say: say})
	switch {
	case errors.Is(err, supervise.ErrParked):
		say(err.Error())
		return &exit{code: exitParked, err: &mercury.Error{Kind: mercury.Unknown, Err: err,
			Help: "What was accepted is kept. `mercury logs` shows what came before; `mercury start` tries again."}}
	case err != nil:
		return err
	case code != 0:
		words, _ := os.ReadFile(wordsFile(home))
		return &exit{code: code, err: fmt.Errorf("mercury serve could not begin: %s", words)}
	}
	return nil
}

// checkCrashes is the doctor's look at a Mercury that crashed, or that nothing
// would start again.
func checkCrashes(home config.Home) doctor.Check {
	return func(context.Context) []doctor.Finding {
		s, err := supervise.Read(crashFile(home))
		runs, _ := homelock.Held(home.Dir())
		kept, _ := homelock.Held(home.Logs())
		switch {
		case err != nil:
			return []doctor.Finding{{Area: "crashes", Level: doctor.Note, Text: err.Error()}}
		case s.Why() != "" && !runs:
			return []doctor.Finding{{Area: "crashes", Level: doctor.Fault, Text: s.Why(), Fix: "`mercury logs` shows what came before; `mercury start` tries again."}}
		case len(s.Crashes) > 0:
			last := s.Crashes[len(s.Crashes)-1]
			return []doctor.Finding{{Area: "crashes", Level: doctor.Warning, Text: fmt.Sprintf("%s lately, the last at %s (%s)",
				mercury.Count(len(s.Crashes), "crash", "crashes"), last.At.Local().Format("2006-01-02 15:04"), last.How), Fix: "`mercury logs` shows what came before."}}
		case runs && !kept:
			return []doctor.Finding{{Area: "crashes", Level: doctor.Note, Text: "nothing starts this Mercury again after a crash", Fix: "`mercury restart` runs it in the background, where it is."}}
		}
		return nil
	}
}
