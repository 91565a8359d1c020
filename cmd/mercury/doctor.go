package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/doctor"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/tui"
)

func doctorCommand() *cobra.Command {
	var fix, live, storage, asJSON bool
	c := &cobra.Command{Use: "doctor", Short: "Say what is wrong, and what cures it",
		Long: `Look at everything Mercury needs and say what is wrong with it, each with its cure.
It changes nothing, and works while Mercury runs, while it does not, and while it
cannot. Exit code 7 says that there is something to do.

--fix mends what needs no decision: permissions of files, missing folders, what a
killed process left. --live asks the model one short question, which costs a few
tokens. --storage shows what is kept, where, and what is removed next.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			if storage {
				return survey(c, home, asJSON)
			}
			report := doctor.Examine(c.Context(), examination(home, fix, live))
			if asJSON {
				err = printJSON(c.OutOrStdout(), report)
			} else {
				printReport(c.OutOrStdout(), report)
			}
			if err == nil && report.Todo > 0 {
				err = &exit{code: exitFindings, silent: true, err: errors.New("there is something to do")}
			}
			return err
		}}
	c.Flags().BoolVar(&fix, "fix", false, "mend what needs no decision")
	c.Flags().BoolVar(&live, "live", false, "ask the model one short question")
	c.Flags().BoolVar(&storage, "storage", false, "show what is kept and what is removed next")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// examination is how this program examines a home.
func examination(home config.Home, fix, live bool) doctor.Options {
	o := doctor.Options{Home: home, Version: version, Fix: fix, Fence: probeFence, More: moreChecks(home),
		Runtime: func(ctx context.Context) (api.Status, error) {
			r, err := attach(ctx, home)
			if err != nil {
				return api.Status{}, err
			}
			return r.Status(ctx)
		}}
	if live {
		o.Live = daemon.CheckModel
	}
	return o
}

// moreChecks are those of rooms that the doctor does not know. A room adds a
// line.
func moreChecks(home config.Home) []doctor.Check {
	return []doctor.Check{checkSkills(home), checkCrashes(home)}
}

// probeFence builds a fence once, to see which can be built, and keeps nothing.
func probeFence(ctx context.Context) sandbox.Report {
	scratch, err := os.MkdirTemp("", "mercury-doctor-")
	if err != nil {
		return sandbox.Report{Level: sandbox.None, Missing: err.Error()}
	}
	defer os.RemoveAll(scratch)
	return sandbox.New(sandbox.Options{Self: helper(), Scratch: scratch}).Probe(ctx)
}

// marks are the signs of the levels, the same on every face.
var marks = map[doctor.Level]string{doctor.Fine: "✓", doctor.Note: "·", doctor.Warning: "!", doctor.Fault: "×"}

func printReport(w io.Writer, r doctor.Report) {
	fmt.Fprintf(w, "Mercury %s, home %s\n\n", r.Version, r.Home)
	mendable, mended := 0, 0
	for _, f := range r.Findings {
		mark := marks[f.Level]
		if f.Fixed {
			mark = marks[doctor.Fine]
			mended++
		}
		fmt.Fprintf(w, "%s %-14s %s\n", mark, f.Area, indented(f.Text))
		switch {
		case f.Fixed:
			fmt.Fprintf(w, "  %-14s mended\n", "")
		case f.Fix != "":
			fmt.Fprintf(w, "  %-14s → %s\n", "", indented(f.Fix))
		}
		if f.CanFix && f.Todo() {
			mendable++
		}
	}
	fmt.Fprintln(w)
	switch {
	case r.Todo == 0 && mended > 0:
		fmt.Fprintf(w, "All is well; %s.\n", mercury.Count(mended, "finding was mended", "findings were mended"))
	case r.Todo == 0:
		fmt.Fprintln(w, "All is well.")
	case mendable > 0:
		fmt.Fprintf(w, "%s to do; mercury doctor --fix does %d of them.\n", mercury.Count(r.Todo, "thing", "things"), mendable)
	default:
		fmt.Fprintf(w, "%s to do.\n", mercury.Count(r.Todo, "thing", "things"))
	}
}

// indented lets further lines of a text begin below the first.
func indented(s string) string {
	return strings.ReplaceAll(tui.Safe(strings.TrimSpace(s)), "\n", "\n"+strings.Repeat(" ", 17))
}

func survey(c *cobra.Command, home config.Home, asJSON bool) error {
	cfg, _, err := config.LoadOrLastGood(config.Source{Home: home})
	if err != nil {
		return err
	}
	s, err := doctor.Survey(c.Context(), home, cfg)
	if err != nil {
		return err
	}
	out := c.OutOrStdout()
	if asJSON {
		return printJSON(out, s)
	}
	fmt.Fprintf(out, "%s, schema %d: %s\n\n", s.Engine, s.Schema, s.Where)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PLACE\tFILES\tSIZE")
	for _, p := range s.Places {
		fmt.Fprintf(t, "%s\t%d\t%s\n", tui.Safe(p.Path), p.Files, size(p.Bytes))
	}
	fmt.Fprintln(t, "\nTABLE\tROWS\t")
	for _, r := range s.Tables {
		fmt.Fprintf(t, "%s\t%d\t\n", r.Table, r.Rows)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nRemoved next:")
	if len(s.Removes) == 0 {
		fmt.Fprintln(out, "  nothing")
	}
	for _, line := range s.Removes {
		fmt.Fprintln(out, "  "+tui.Safe(line))
	}
	return nil
}
