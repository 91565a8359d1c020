package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noArgs, RunE: func(c *cobra.Command, args []string) error {
		return c.Help()
	}}
	c.AddCommand(commands...)
	return c
}

// listing is a command that prints one page of things as a table or, with
// --json, as the API gives it.
func listing[T any](short string, get func(*cobra.Command, *client.Client, url.Values) (client.Page[T], error), header string, row func(T) []string, flags func(*cobra.Command) func(url.Values)) *cobra.Command {
	var limit int
	var asJSON bool
	var extra func(url.Values)
	c := &cobra.Command{Use: "list", Short: short, Args: noArgs}
	c.Flags().IntVar(&limit, "limit", 50, "how many, at most 1,000")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	if flags != nil {
		extra = flags(c)
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		if limit < 1 || limit > 1000 {
			return usage("--limit should be from 1 to 1,000, not %d", limit)
		}
		q := url.Values{"limit": {strconv.Itoa(limit)}}
		if extra != nil {
			extra(q)
		}
		page, err := query(c.Context(), func(r *client.Client) (client.Page[T], error) { return get(c, r, q) })
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), page)
		}
		if len(page.Items) == 0 {
			fmt.Fprintln(c.OutOrStdout(), "none")
			return nil
		}
		t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, header)
		for _, item := range page.Items {
			cells := row(item)
			for i := range cells {
				cells[i] = oneLine(cells[i], 60)
			}
			fmt.Fprintln(t, strings.Join(cells, "\t"))
		}
		return t.Flush()
	}
	return c
}

// only adds the flag --state, which takes some of the words.
func only(c *cobra.Command, states *[]string, words ...string) {
	c.Flags().StringSliceVar(states, "state", nil, "only these states: "+strings.Join(words, ", "))
	c.PreRunE = func(*cobra.Command, []string) error {
		for _, s := range *states {
			if !slices.Contains(words, s) {
				return usage("there is no state %q; there are %s", s, strings.Join(words, ", "))
			}
		}
		return nil
	}
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// acting is a command on one thing, named by its id.
func acting[T any](use, short string, do func(*cobra.Command, *client.Client, string) (T, error), show func(io.Writer, T)) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: use + " ID", Short: short, Args: exactArgs(1), RunE: func(c *cobra.Command, args []string) error {
		v, err := query(c.Context(), func(r *client.Client) (T, error) { return do(c, r, args[0]) })
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), v)
		}
		show(c.OutOrStdout(), v)
		return nil
	}}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// oneLine is a cell of a table: one line, harmless, at most n characters.
func oneLine(s string, n int) string {
	s = tui.Safe(strings.Join(strings.Fields(s), " "))
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func ago(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

func conversationsCommand() *cobra.Command {
	return group("conversations", "List, show, export and search conversations",
		listing("Conversations, newest activity first",
			func(c *cobra.Command, r *client.Client, q url.Values) (client.Page[api.Conversation], error) {
				return r.Conversations(c.Context(), q)
			},
			"CONVERSATION\tKIND\tENTRIES\tLAST ACTIVE", func(v api.Conversation) []string {
				return []string{v.ID, v.Kind, strconv.FormatInt(v.LastSeq, 10), ago(v.UpdatedAt)}
			}, nil),
		acting("show", "What was said in a conversation", entriesOf, func(w io.Writer, es []api.Entry) {
			for _, e := range es {
				fmt.Fprintln(w, spoken(e))
			}
		}),
		acting("export", "Write a conversation out as Markdown", entriesOf, exportMarkdown),
		searchConversationsCommand(),
	)
}

func entriesOf(c *cobra.Command, r *client.Client, id string) ([]api.Entry, error) {
	return r.Entries(c.Context(), mercury.LocalConversation(id), 0)
}

// spoken is an entry as a line or paragraph of a terminal.
func spoken(e api.Entry) string {
	head := ago(e.At) + "  "
	switch mercury.EntryKind(e.Kind) {
	case mercury.UserEntry:
		return head + "you: " + tui.Safe(e.Text)
	case mercury.AssistantEntry:
		if e.Hidden {
			return head + "mercury (broken off): " + tui.Safe(e.Text)
		}
		if e.Text == "" {
			return head + "mercury calls tools"
		}
		return head + "mercury: " + tui.Safe(e.Text)
	case mercury.ToolCallEntry:
		return head + "→ " + e.Tool + " " + oneLine(tui.Args(e.Args), 200)
	case mercury.ToolResultEntry:
		mark := "✓ "
		if e.Failed {
			mark = "× "
		}
		return head + mark + e.Tool + ": " + oneLine(e.Result, 200)
	case mercury.ResetEntry:
		return head + "— a fresh start —"
	}
	return head + "· " + tui.Safe(e.Text)
}

func exportMarkdown(w io.Writer, es []api.Entry) {
	for _, e := range es {
		switch mercury.EntryKind(e.Kind) {
		case mercury.UserEntry:
			fmt.Fprintf(w, "## You, %s\n\n%s\n\n", e.At.Format(time.RFC3339), e.Text)
		case mercury.AssistantEntry:
			if !e.Hidden && e.Text != "" {
				fmt.Fprintf(w, "## Mercury, %s\n\n%s\n\n", e.At.Format(time.RFC3339), e.Text)
			}
		case mercury.ToolCallEntry:
			fmt.Fprintf(w, "- `%s` %s\n\n", e.Tool, "`"+strings.ReplaceAll(string(e.Args), "`", "'")+"`")
		case mercury.ToolResultEntry:
			fence := strings.Repeat("`", max(3, longestRun(e.Result, '`')+1))
			fmt.Fprintf(w, "%s\n%s\n%s\n\n", fence, strings.TrimRight(e.Result, "\n"), fence)
		default:
			if e.Text != "" {
				fmt.Fprintf(w, "> %s\n\n", strings.ReplaceAll(e.Text, "\n", "\n> "))
			}
		}
	}
}

func longestRun(s string, mark rune) (longest int) {
	n := 0
	for _, r := range s {
		if r == mark {
			n++
			longest = max(longest, n)
		} else {
			n = 0
		}
	}
	return longest
}

func runsCommand() *cobra.Command {
	return group("runs", "List, show, cancel and replay runs",
		listing("Runs, newest first",
			func(c *cobra.Command, r *client.Client, q url.Values) (client.Page[api.Run], error) {
				return r.Runs(c.Context(), q)
			},
			"RUN\tSTATE\tLANE\tCONVERSATION\tSTARTED\tTOKENS\tERROR", func(v api.Run) []string {
				started := ""
				if v.StartedAt != nil {
					started = ago(*v.StartedAt)
				}
				return []string{v.ID, v.State, v.Lane, v.ConversationID, started,
					fmt.Sprintf("%d/%d", v.Usage.Input, v.Usage.Output), v.Error}
			},
			func(c *cobra.Command) func(url.Values) {
				var states []string
				var conversation string
				c.Flags().StringVar(&conversation, "conversation", "", "only of this conversation")
				only(c, &states, "queued", "running", "waiting", "done", "failed", "stopped", "dead")
				return func(q url.Values) {
					if len(states) > 0 {
						q.Set("state", strings.Join(states, ","))
					}
					if conversation != "" {
						q.Set("conversation", conversation)
					}
				}
			}),
		acting("show", "One run with its steps",
			func(c *cobra.Command, r *client.Client, id string) (api.Run, error) { return r.Run(c.Context(), id) }, showRun),
		acting("cancel", "End a run and what it started",
			func(c *cobra.Command, r *client.Client, id string) (api.Run, error) {
				return r.Cancel(c.Context(), id)
			},
			func(w io.Writer, v api.Run) { fmt.Fprintf(w, "%s is being stopped\n", v.ID) }),
		acting("replay", "Run a stopped or dead run again with its old input",
			func(c *cobra.Command, r *client.Client, id string) (api.Run, error) {
				return r.Replay(c.Context(), id)
			},
			func(w io.Writer, v api.Run) { fmt.Fprintf(w, "%s replays %s\n", v.ID, v.ReplayOf) }),
	)
}

func showRun(w io.Writer, r api.Run) {
	fmt.Fprintf(w, "%s  %s in %s, %s\n", r.ID, r.State, r.ConversationID, r.Lane)
	if r.Waiting != "" {
		fmt.Fprintln(w, "waits:", oneLine(r.Waiting, 200))
	}
	if r.Error != "" {
		fmt.Fprintln(w, "error:", tui.Safe(r.Error))
	}
	fmt.Fprintf(w, "tokens: %d in, %d out\n", r.Usage.Input, r.Usage.Output)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range r.Steps {
		took := ""
		if s.EndedAt != nil {
			took = s.EndedAt.Sub(s.StartedAt).Round(time.Millisecond).String()
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\n", s.Round, s.Kind, s.Name, s.State, took, oneLine(s.Error, 60))
	}
	t.Flush()
}

func deliveriesCommand() *cobra.Command {
	return group("deliveries", "List, show and resend what Mercury sent",
		listing("Deliveries, newest first",
			func(c *cobra.Command, r *client.Client, q url.Values) (client.Page[api.Delivery], error) {
				return r.Deliveries(c.Context(), q)
			},
			"DELIVERY\tSTATE\tKIND\tADDRESS\tTEXT", func(v api.Delivery) []string {
				return []string{v.ID, v.State, v.Kind, v.Address, v.Text}
			},
			func(c *cobra.Command) func(url.Values) {
				var states []string
				only(c, &states, "pending", "held", "sending", "sent", "unknown", "refused", "superseded", "cancelled")
				return func(q url.Values) {
					if len(states) > 0 {
						q.Set("state", strings.Join(states, ","))
					}
				}
			}),
		acting("show", "One delivery with its parts",
			func(c *cobra.Command, r *client.Client, id string) (api.Delivery, error) {
				return r.Delivery(c.Context(), id)
			}, showDelivery),
		acting("resend", "Send an unknown, refused or held delivery again",
			func(c *cobra.Command, r *client.Client, id string) (api.Delivery, error) {
				return r.Resend(c.Context(), id)
			},
			func(w io.Writer, v api.Delivery) { fmt.Fprintf(w, "%s is %s\n", v.ID, v.State) }),
	)
}

func showDelivery(w io.Writer, d api.Delivery) {
	fmt.Fprintf(w, "%s  %s to %s (%s)\n", d.ID, d.State, d.Address, d.Kind)
	if d.Reason != "" {
		fmt.Fprintln(w, "reason:", tui.Safe(d.Reason))
	}
	for _, p := range d.Parts {
		fmt.Fprintf(w, "  part %d of %d: %s %s %s\n", p.N+1, len(d.Parts), p.State, p.Receipt, oneLine(p.Error, 200))
	}
	fmt.Fprintln(w, tui.Safe(d.Text))
}

func questionsCommand() *cobra.Command {
	list := listing("What waits for a decision",
		func(c *cobra.Command, r *client.Client, q url.Values) (client.Page[api.Question], error) {
			return r.Questions(c.Context(), q.Get("all") == "true")
		},
		"QUESTION\tSTATE\tKIND\tCONVERSATION\tWHAT\tEXACTLY", func(v api.Question) []string {
			return []string{v.ID, v.State, v.Kind, v.ConversationID, v.Title, v.Body}
		},
		func(c *cobra.Command) func(url.Values) {
			all := c.Flags().Bool("all", false, "settled ones too")
			return func(q url.Values) { q.Set("all", strconv.FormatBool(*all)) }
		})
	answer := &cobra.Command{
		Use:   "answer ID ANSWER",
		Short: "Decide: once, run, hour, always or no; or the choice, or the text that was asked for",
		Args:  exactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			q, err := query(c.Context(), func(r *client.Client) (api.Question, error) { return r.Answer(c.Context(), args[0], args[1]) })
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", tui.Safe(q.Answer), tui.Safe(q.Title))
			return nil
		},
	}
	return group("questions", "List and answer what waits for a decision", list, answer)
}
