package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon/supervise"
	"github.com/mercury-agent/mercury/internal/doctor"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store/homelock"
	"github.com/mercury-agent/mercury/internal/tui"
)

// logFile is where a Mercury in the background writes what happens to it.
func logFile(home config.Home) string { return filepath.Join(home.Logs(), "mercury.log") }

// crashFile is where its supervisor keeps what is known of its crashes.
func crashFile(home config.Home) string { return filepath.Join(home.Logs(), "crashes.json") }

// drainPatience is how long a Mercury that was asked to end is waited for
// before it is ended by force; it takes ten seconds by itself.
const drainPatience = 20 * time.Second

func upCommand() *cobra.Command {
	return &cobra.Command{Use: "up", Short: "Run Mercury and start it again when it crashes", Args: noArgs,
		Long: `Run "mercury serve" and start it again when it crashes: after one second, then
two, four and so on up to a minute. After five crashes in a row it gives up and says
why; "mercury status" and "mercury doctor" say it too. An ordered end, a broken
configuration and a home that another Mercury owns are no crashes.

What happens is written to logs/mercury.log of the home, at most five files of 5 MB.`,
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
			diary, err := supervise.OpenLog(logFile(home))
			if err != nil {
				return err
			}
			defer diary.Close()
			var out io.Writer = diary
			if isTerminal(c.ErrOrStderr()) {
				out = io.MultiWriter(diary, c.ErrOrStderr())
			}
			say := func(line string) {
				fmt.Fprintf(out, "time=%s level=WARN msg=%q\n", time.Now().Format("2006-01-02T15:04:05.000Z07:00"), "supervisor: "+line)
			}
			code, err := supervise.Run(c.Context(), supervise.Options{File: crashFile(home), Say: say,
				Final: []int{exitUsage, exitSetup, exitTaken},
				Live:  func(ctx context.Context) (supervise.Ending, error) { return live(ctx, out, diary) }})
			switch {
			case err != nil:
				say(err.Error())
				return &mercury.Error{Kind: mercury.Unknown, Err: err, Help: "What was accepted is kept. See `mercury logs`; `mercury start` tries again."}
			case code != 0:
				return &exit{code: code, err: errors.New("mercury serve could not begin: " + lastLine(diary.Last())), silent: out != diary}
			}
			return nil
		}}
}

// live is one life of the runtime as a process of its own.
func live(ctx context.Context, out io.Writer, diary *supervise.Log) (supervise.Ending, error) {
	self, err := os.Executable()
	if err != nil {
		return supervise.Ending{}, fmt.Errorf("find this program: %w", err)
	}
	p := exec.CommandContext(ctx, self, "serve")
	p.Stdout, p.Stderr = out, out
	p.Cancel = func() error { return askToEnd(p.Process) }
	p.WaitDelay = drainPatience
	err = p.Run()
	if p.ProcessState == nil {
		return supervise.Ending{}, fmt.Errorf("start %s: %w", self, err)
	}
	return supervise.Ending{Code: p.ProcessState.ExitCode(), How: p.ProcessState.String(), Last: lastLine(diary.Last())}, nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

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

// startPatience is how long a Mercury is given to answer after it was started.
const startPatience = 15 * time.Second

func start(c *cobra.Command, home config.Home) error {
	ctx, out := c.Context(), c.OutOrStdout()
	if _, err := attach(ctx, home); err == nil {
		h := homelock.Read(home.Dir())
		_, err = fmt.Fprintf(out, "Mercury runs already (pid %d, http://%s)\n", h.PID, h.Address)
		return err
	}
	// What a start would refuse is said here, where somebody reads it.
	if _, _, _, err := loadForServe(ctx); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	p := exec.Command(self, "up")
	p.SysProcAttr = detached()
	if err := p.Start(); err != nil {
		return fmt.Errorf("start %s: %w", self, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	late := time.After(startPatience)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			if p.ProcessState.ExitCode() == exitTaken { // another start was faster
				ended = nil
				continue
			}
			return &exit{code: max(p.ProcessState.ExitCode(), exitFailed), err: fmt.Errorf("it did not begin; the last words of %s: %s", logFile(home), lastOf(ctx, logFile(home)))}
		case <-late:
			return &exit{code: exitFailed, err: fmt.Errorf("it was started and does not answer yet; mercury status and %s say more", logFile(home))}
		case <-time.After(20 * time.Millisecond):
			if _, err := attach(ctx, home); err != nil {
				continue
			}
			h := homelock.Read(home.Dir())
			_, err := fmt.Fprintf(out, "started (pid %d, http://%s); mercury logs -f shows what happens\n", h.PID, h.Address)
			return err
		}
	}
}

func lastOf(ctx context.Context, file string) string {
	var b strings.Builder
	if err := supervise.Show(ctx, &b, file, 3, false); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
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

// checkCrashes is the doctor's look at a Mercury that crashed.
func checkCrashes(home config.Home) doctor.Check {
	return func(context.Context) []doctor.Finding {
		s, err := supervise.Read(crashFile(home))
		switch {
		case err != nil:
			return []doctor.Finding{{Area: "crashes", Level: doctor.Note, Text: err.Error()}}
		case s.Why() != "":
			return []doctor.Finding{{Area: "crashes", Level: doctor.Fault, Text: s.Why(), Fix: "`mercury logs` shows what came before; `mercury start` tries again."}}
		case len(s.Crashes) > 0:
			last := s.Crashes[len(s.Crashes)-1]
			return []doctor.Finding{{Area: "crashes", Level: doctor.Warning, Text: fmt.Sprintf("%s lately, the last at %s (%s)",
				counted(len(s.Crashes), "crash", "crashes"), last.At.Local().Format("2006-01-02 15:04"), last.How), Fix: "`mercury logs` shows what came before."}}
		}
		return nil
	}
}
