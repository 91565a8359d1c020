package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/tool/mcp"
	"github.com/mercury-agent/mercury/internal/tui"
)

func mcpCommand() *cobra.Command {
	return group("mcp", "See, test and approve the tools of MCP servers", mcpListCommand(), mcpTestCommand(), mcpApproveCommand())
}

func mcpListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "list", Short: "Configured servers and what is approved of them; starts none", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			page, err := query(c.Context(), func(r *client.Client) (client.Page[mcp.Catalogue], error) { return r.MCP(c.Context()) })
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), page)
			}
			if len(page.Items) == 0 {
				fmt.Fprintln(c.OutOrStdout(), "none; servers are named under mcp.servers in mercury.yaml")
				return nil
			}
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "SERVER\tSTATE\tTOOLS\tWHERE")
			for _, s := range page.Items {
				fmt.Fprintf(t, "%s\t%s\t%d\t%s\n", oneLine(s.Server, 30), s.State, len(s.Tools), oneLine(s.Where, 60))
			}
			return t.Flush()
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func mcpTestCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "test NAME", Short: "Start a server and show what it has", Args: exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cat, err := query(c.Context(), func(r *client.Client) (mcp.Catalogue, error) { return r.TestMCP(c.Context(), args[0]) })
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), cat)
			}
			showCatalogue(c.OutOrStdout(), cat)
			return nil
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func mcpApproveCommand() *cobra.Command {
	var readOnly []string
	var yes bool
	c := &cobra.Command{Use: "approve NAME", Short: "Let models use exactly what a server has now", Args: exactArgs(1),
		Long: `Show everything a server says about its tools and, after a yes, let models use
exactly that. A tool that later says something else is not run until it is
approved anew.`,
		RunE: func(c *cobra.Command, args []string) error {
			return with(c.Context(), func(r *client.Client) error {
				cat, err := r.TestMCP(c.Context(), args[0])
				if err != nil {
					return err
				}
				out := c.OutOrStdout()
				showCatalogue(out, cat)
				if !yes {
					if !isTerminal(os.Stdin) {
						return usage("nothing was approved: there is nobody to ask; add --yes once you have read the above")
					}
					fmt.Fprintf(out, "Approve these tools? [y/N] ")
					answer, err := bufio.NewReader(c.InOrStdin()).ReadString('\n')
					if err != nil && answer == "" || strings.ToLower(strings.TrimSpace(answer)) != "y" {
						fmt.Fprintln(out, "nothing was approved")
						return nil
					}
				}
				cat, err = r.ApproveMCP(c.Context(), args[0], api.Approval{Digest: cat.Digest, ReadOnly: readOnly})
				if err != nil {
					return err
				}
				fmt.Fprintf(out, "approved %s\n", tui.Safe(cat.Server))
				return nil
			})
		}}
	c.Flags().StringSliceVar(&readOnly, "read-only", nil, "tools that only read and may be run again after a crash, by the server's names")
	c.Flags().BoolVar(&yes, "yes", false, "approve without asking")
	return c
}

// showCatalogue prints all that a server says about itself.
func showCatalogue(w io.Writer, cat mcp.Catalogue) {
	fmt.Fprintf(w, "%s (%s): %s\n", tui.Safe(cat.Server), cat.State, tui.Safe(cat.Where))
	for _, t := range cat.Tools {
		fmt.Fprintf(w, "\n%s  %s", tui.Safe(t.Own), t.State)
		if t.ReadOnly {
			fmt.Fprint(w, ", only reads")
		}
		if t.Why != "" {
			fmt.Fprintf(w, ": %s", tui.Safe(t.Why))
		}
		fmt.Fprintf(w, "\n  %s\n", strings.ReplaceAll(tui.Safe(t.Description), "\n", "\n  "))
		if t.Schema != "" {
			fmt.Fprintf(w, "  %s\n", tui.Safe(t.Schema))
		}
	}
	if len(cat.Tools) == 0 {
		fmt.Fprintln(w, "  it has no tools")
	}
}
