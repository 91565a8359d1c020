package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon/setup"
	"github.com/mercury-agent/mercury/internal/daemon/supervise"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store/homelock"
	"github.com/mercury-agent/mercury/internal/tui"
)

func statusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Say what Mercury is doing and what needs you",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			r, err := attach(c.Context(), home)
			if err != nil {
				if asJSON {
					return errors.Join(printJSON(c.OutOrStdout(), map[string]string{"state": "stopped", "home": home.Dir()}),
						&exit{code: exitFailed, silent: true, err: err})
				}
				fmt.Fprintf(c.OutOrStdout(), "Mercury is not running (%s).\n%s\n", home.Dir(), mercury.HelpOf(errNoRuntime))
				if line := afterCrash(home); line != "" {
					fmt.Fprintln(c.OutOrStdout(), tui.Safe(line))
				}
				if setup.Begun(home) {
					fmt.Fprintln(c.OutOrStdout(), "Its set-up was begun and not finished; mercury setup goes on where it was.")
				}
				return &exit{code: exitFailed, silent: true, err: err}
			}
			st, err := r.Status(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), st)
			}
			printStatus(c.OutOrStdout(), st)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printStatus(w io.Writer, st api.Status) {
	fmt.Fprintf(w, "Mercury %s is %s", st.Version, st.State)
	if !st.Started.IsZero() {
		fmt.Fprintf(w, ", running for %s", time.Since(st.Started).Round(time.Second))
	}
	fmt.Fprintf(w, " (pid %d)\n", st.PID)
	for _, p := range st.Problems {
		fmt.Fprintf(w, "! %s\n", tui.Safe(p))
	}
	if len(st.Restart) > 0 {
		fmt.Fprintf(w, "changed in mercury.yaml, from the next start on: %s\n", strings.Join(st.Restart, ", "))
	}
	fmt.Fprintf(w, "home    %s\nlisten  http://%s\nmodel   %s\n", st.Home, st.Listen, st.Model)
	if st.Fence != "" {
		fmt.Fprintf(w, "fence   %s", st.Fence)
		if st.FenceMissing != "" {
			fmt.Fprintf(w, ": %s", tui.Safe(st.FenceMissing))
		}
		fmt.Fprintln(w)
		if st.FenceCure != "" {
			fmt.Fprintf(w, "        %s\n", tui.Safe(st.FenceCure))
		}
	}
	if st.Veil == "none" {
		fmt.Fprintln(w, "        nothing keeps commands that you allow from Mercury's own folder")
	}
	for _, lane := range slices.Sorted(maps.Keys(st.Lanes)) {
		if l := st.Lanes[lane]; l.Queued+l.Running+l.Waiting > 0 && (lane != "quiet" || l.Running > 0) {
			fmt.Fprintf(w, "%-7s %d running, %d queued, %d waiting\n", lane, l.Running, l.Queued, l.Waiting)
		}
	}
	for _, h := range st.Holds {
		fmt.Fprintf(w, "hold    %s: %s\n", h.Key, tui.Safe(h.Reason))
	}
	for _, state := range []string{"unknown", "held", "refused", "pending"} {
		if n := st.Deliveries[state]; n > 0 {
			fmt.Fprintf(w, "%s %s: mercury deliveries list --state %s\n", mercury.Count(n, "delivery", "deliveries"), state, state)
		}
	}
	for _, q := range st.Waiting {
		fmt.Fprintf(w, "waits for you: %s  %s\n", q.ID, oneLine(q.Title, 100))
	}
	for _, model := range slices.Sorted(maps.Keys(st.Usage)) {
		fmt.Fprintf(w, "today   %s: %d tokens in, %d out\n", model, st.Usage[model].Input, st.Usage[model].Output)
	}
}

// afterCrash says what becomes of a Mercury that crashed in the background and
// does not run now; empty when that is not so.
func afterCrash(home config.Home) string {
	s, err := supervise.Read(crashFile(home))
	if err != nil || len(s.Crashes) == 0 {
		return ""
	}
	if why := s.Why(); why != "" {
		return "In the background " + why + "."
	}
	if waits, _ := homelock.Held(home.Logs()); waits {
		return "It crashed (" + s.Crashes[len(s.Crashes)-1].How + ") and is started again by itself in a moment; mercury stop ends that."
	}
	return ""
}
