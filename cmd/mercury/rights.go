package main

import (
	"fmt"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

// rights is what Mercury may do: by configuration, and by what was granted.
type rights struct {
	Mode   string          `json:"mode"`
	Scopes []mercury.Scope `json:"scopes"`
	Grants []api.Grant     `json:"grants"`
}

func showRightsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "show", Short: "What Mercury may do without asking", Args: noArgs,
		Long: `Show the configured mode and folders, and every grant that holds: what it
covers, whom it is for, who gave it, when, and as the answer to which question.`,
		RunE: func(c *cobra.Command, _ []string) error {
			var r rights
			if cfg, err := loadRights(); err == nil {
				r = cfg
			} else {
				return err
			}
			page, err := query(c.Context(), func(r *client.Client) (client.Page[api.Grant], error) { return r.Grants(c.Context()) })
			if err != nil {
				return err
			}
			r.Grants = page.Items
			if asJSON {
				return printJSON(c.OutOrStdout(), r)
			}
			out := c.OutOrStdout()
			fmt.Fprintf(out, "mode    %s\n", r.Mode)
			for _, s := range r.Scopes {
				may := "read"
				if s.Write {
					may = "read and write"
				}
				fmt.Fprintf(out, "folder  %s (%s)\n", tui.Safe(s.Path), may)
			}
			if len(r.Grants) == 0 {
				fmt.Fprintln(out, "nothing is granted beyond that")
				return nil
			}
			t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "GRANT\tCOVERS\tFOR\tGIVEN BY\tAT\tUNTIL\tVIA")
			for _, g := range r.Grants {
				until := "revoked"
				if g.RunID != "" {
					until = "the end of " + g.RunID
				} else if g.ExpiresAt != nil {
					until = ago(*g.ExpiresAt)
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.ID, oneLine(g.Rule, 80), g.For, g.GivenBy, ago(g.CreatedAt), until, g.Via)
			}
			return t.Flush()
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func loadRights() (rights, error) {
	o, err := checkOptions("", "", nil)
	if err != nil {
		return rights{}, err
	}
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		return rights{}, err
	}
	cfg, err := config.Load(config.Source{Home: home})
	if err != nil {
		return rights{}, err
	}
	return rights{Mode: cfg.Permissions.Mode, Scopes: o.Scopes, Grants: []api.Grant{}}, nil
}

func allowCommand() *cobra.Command {
	var asJSON bool
	var span time.Duration
	c := &cobra.Command{Use: "allow RULE", Short: "Let something pass without a question from now on", Args: exactArgs(1),
		Long: `Grant a rule to the owner, for a time or until it is revoked. A rule is
kind:what:
  run:git commit *            commands without shell syntax that begin so
  run:=make test              exactly this command
  read:/home/me/notes/**      a folder and all below it; write: and delete: too
  fetch:https://example.com   one host
  send:telegram/12345         one address
What is blocked for everyone stays blocked.`,
		RunE: func(c *cobra.Command, args []string) error {
			if span < 0 {
				return usage("--for must be longer than nothing")
			}
			g, err := query(c.Context(), func(r *client.Client) (api.Grant, error) { return r.Allow(c.Context(), args[0], span) })
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), g)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s allows %s\n", g.ID, tui.Safe(g.Rule))
			return nil
		}}
	c.Flags().DurationVar(&span, "for", 0, "how long, such as 1h (default until revoked)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func revokeCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "revoke GRANT", Short: "End a grant; what it allowed is asked again", Args: exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			err := with(c.Context(), func(r *client.Client) error { return r.Revoke(c.Context(), args[0]) })
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), map[string]string{"revoked": args[0]})
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is revoked\n", args[0])
			return nil
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func decisionsCommand() *cobra.Command {
	c := listing("What was decided, by which rule and by whom, newest first",
		func(c *cobra.Command, r *client.Client, q url.Values) (client.Page[api.Decision], error) {
			return r.Decisions(c.Context(), q)
		},
		"AT\tWHO\tACT\tVERDICT\tRULE\tWHAT\tSUBJECT", func(v api.Decision) []string {
			return []string{ago(v.At), v.Who, v.Act, v.Verdict, v.Rule, v.Detail, v.Subject}
		}, nil)
	c.Use = "log"
	return c
}

func undoCommand() *cobra.Command {
	var yes, asJSON bool
	var conversation string
	c := &cobra.Command{Use: "undo [RUN]", Short: "Take back what a run did",
		Long: `Show what taking back a run would do and, with --yes, do it: files get their
former content, also those that a command in the workspace changed, moved ones
return, deleted ones come back, schedules and memories are as before, and rights
given to its questions end. Without RUN it is the last run that changed
something. What somebody changed since is left alone, and said.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			run := "last"
			if len(args) > 0 {
				run = args[0]
			}
			u, err := query(c.Context(), func(r *client.Client) (mercury.Undone, error) {
				return r.Undo(c.Context(), run, conversation, yes)
			})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), u)
			}
			fmt.Fprintln(c.OutOrStdout(), tui.Safe(intake.UndoText(u)))
			if !yes && len(u.Changes) > 0 {
				fmt.Fprintf(c.OutOrStdout(), "mercury undo %s --yes does it\n", u.RunID)
			}
			return nil
		}}
	c.Flags().BoolVar(&yes, "yes", false, "do it, not only show it")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().StringVar(&conversation, "conversation", "", "the last run of this conversation")
	return c
}
