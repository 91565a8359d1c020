package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/agent"
	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/budget"
	"github.com/mercury-agent/mercury/internal/tui"
)

// chartWidth is how long the longest bar is, in characters.
const chartWidth = 40

func usageCommand() *cobra.Command {
	var by string
	var days int
	var chart bool
	c := &cobra.Command{Use: "usage", Short: "What was used, and what it has cost", Args: noArgs,
		Long: `Every call of a model stands in the ledger with what its provider reported:
answers, retries, lessons, summaries and schedules. Prices come from
mercury.yaml and a dated table; where none is known, that is said.`,
		Example: "  mercury usage --by day --chart\n  mercury usage prefix"}
	c.Flags().StringVar(&by, "by", "model", strings.Join(budget.Groups, ", "))
	c.Flags().IntVar(&days, "days", 30, "how many days, today included, at most 366")
	c.Flags().BoolVar(&chart, "chart", false, "draw bars; cached input counts a tenth")
	asJSON := jsonFlag(c)
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(budget.Groups, cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !slices.Contains(budget.Groups, by) {
			return usage("--by should be one of %s, not %q", strings.Join(budget.Groups, ", "), by)
		}
		if days < 1 || days > 366 {
			return usage("--days should be from 1 to 366, not %d", days)
		}
		u, err := query(c.Context(), func(r *client.Client) (api.UsageReport, error) { return r.Usage(c.Context(), by, days) })
		if err != nil {
			return err
		}
		switch {
		case *asJSON:
			return printJSON(c.OutOrStdout(), u)
		case chart:
			fmt.Fprint(c.OutOrStdout(), tui.Safe(u.Bars(chartWidth)))
		default:
			showUsage(c.OutOrStdout(), u)
		}
		return nil
	}
	c.AddCommand(prefixCommand())
	return c
}

func showUsage(out io.Writer, u api.UsageReport) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ToUpper(u.By)+"\tCALLS\tIN\tCACHED\tOUT\tCOST")
	for _, l := range append(u.Lines, u.Total) {
		cost := l.Cost.String()
		if l.Calls == 0 {
			cost = "-"
		}
		if l.Usage.Estimated {
			cost += ", estimated"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\n", oneLine(l.Group, 60), l.Calls,
			budget.Number(l.Usage.Input), budget.Number(l.Usage.Cached), budget.Number(l.Usage.Output), cost)
	}
	w.Flush()
	if f := u.Forecast; f != nil && f.Tokens > 0 {
		fmt.Fprintf(out, "This month, if it goes on like this: about %s tokens, %.2f %s.\n", budget.Number(f.Tokens), f.Money, u.Currency)
	}
}

func prefixCommand() *cobra.Command {
	c := &cobra.Command{Use: "prefix [CONVERSATION]", Short: "What the next request of a conversation consists of, and what each part weighs", Args: cobra.MaximumNArgs(1)}
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		conversation := "default"
		if len(args) > 0 {
			conversation = args[0]
		}
		a, err := query(c.Context(), func(r *client.Client) (agent.Anatomy, error) { return r.Prefix(c.Context(), conversation) })
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(c.OutOrStdout(), a)
		}
		w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "PART\tNAME\tCOUNT\tBYTES\tTOKENS\tSTAYS THE SAME")
		for _, p := range a.Pieces {
			stable := ""
			if p.Stable {
				stable = "yes"
			}
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", p.Kind, oneLine(p.Name, 40), p.Count, p.Bytes, p.Tokens, stable)
		}
		w.Flush()
		fmt.Fprintf(c.OutOrStdout(), "%d tokens by estimate, %d of them the same from turn to turn; the window of %s has %d.\n", a.Tokens, a.Prefix, tui.Safe(a.Model), a.Window)
		return nil
	}
	return c
}
