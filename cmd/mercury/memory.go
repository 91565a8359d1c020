package main

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/intake"
	"github.com/mercury-agent/mercury/internal/memory"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/store"
	"github.com/mercury-agent/mercury/internal/tui"
)

func memoryCommand() *cobra.Command {
	c := group("memory", "What Mercury remembers, and how to correct it",
		memoryOverviewCommand(), memoryListCommand(), memorySearchCommand(), memoryShowCommand(), memoryAddCommand(),
		memoryChangeCommand("forget", "Take a memory out of use; it can be restored", "Forgotten: "),
		memoryChangeCommand("restore", "Bring a forgotten or superseded memory back", "Remembered again: "),
		memoryPauseCommand("pause", "Stop learning from what is said", true, "Paused: nothing said from now on is learned, now or later."),
		memoryPauseCommand("resume", "Learn again", false, "Learning again."),
		memoryClearCommand(), memoryWhyCommand(), memoryPeopleCommand(), memoryExportCommand(), memoryImportCommand())
	c.PersistentFlags().String("scope", memory.OwnerScope, "whose memories: owner, person/CHANNEL/ID, place/CONVERSATION or bot/ID")
	return c
}

func scopeOf(c *cobra.Command) string {
	scope, err := c.Flags().GetString("scope")
	if err != nil {
		return memory.OwnerScope
	}
	return scope
}

// jsonFlag adds --json.
func jsonFlag(c *cobra.Command) *bool { return c.Flags().Bool("json", false, "print JSON") }

func memoryOverviewCommand() *cobra.Command {
	c := &cobra.Command{Use: "overview", Short: "How much is remembered, and what is always at hand", Args: noArgs}
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		o, err := query(c.Context(), func(r *client.Client) (memory.Overview, error) { return r.MemoryOverview(c.Context(), scopeOf(c)) })
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(c.OutOrStdout(), o)
		}
		fmt.Fprintln(c.OutOrStdout(), tui.Safe(intake.OverviewText(o)))
		return nil
	}
	return c
}

func factRow(f memory.Fact) []string {
	state := f.Tier
	if f.State != store.MemoryLive {
		state = f.State
	}
	return []string{f.ID, f.Kind, state, f.SeenAt.Local().Format("2006-01-02"), f.Summary}
}

func memoryListCommand() *cobra.Command {
	return listing("Memories, newest first",
		func(c *cobra.Command, r *client.Client, q url.Values) (client.Page[memory.Fact], error) {
			q.Set("scope", scopeOf(c))
			return r.Memories(c.Context(), q)
		}, "MEMORY\tKIND\tSTATE\tSEEN\tWHAT", factRow,
		func(c *cobra.Command) func(url.Values) {
			var states, kinds []string
			only(c, &states, store.MemoryLive, store.MemorySuperseded, store.MemoryForgotten)
			c.Flags().StringSliceVar(&kinds, "kind", nil, "only these kinds: "+strings.Join(memory.Kinds, ", "))
			return func(q url.Values) {
				if len(states) > 0 {
					q.Set("state", strings.Join(states, ","))
				}
				if len(kinds) > 0 {
					q.Set("kind", strings.Join(kinds, ","))
				}
			}
		})
}

func memorySearchCommand() *cobra.Command {
	var limit int
	c := &cobra.Command{Use: "search TEXT", Short: "Memories with these words, the best match first", Args: cobra.MinimumNArgs(1)}
	c.Flags().IntVar(&limit, "limit", 20, "how many, at most 1,000")
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if limit < 1 || limit > 1000 {
			return usage("--limit should be from 1 to 1,000, not %d", limit)
		}
		q := url.Values{"q": {strings.Join(args, " ")}, "scope": {scopeOf(c)}, "limit": {strconv.Itoa(limit)}}
		page, err := query(c.Context(), func(r *client.Client) (client.Page[memory.Fact], error) { return r.Memories(c.Context(), q) })
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(c.OutOrStdout(), page)
		}
		printFacts(c.OutOrStdout(), page.Items)
		return nil
	}
	return c
}

func printFacts(w io.Writer, facts []memory.Fact) {
	if len(facts) == 0 {
		fmt.Fprintln(w, "none")
	}
	for _, f := range facts {
		fmt.Fprintf(w, "%s  %s (%s)\n", f.ID, tui.Safe(f.Summary), f.Kind)
	}
}

func memoryShowCommand() *cobra.Command {
	return acting("show", "One memory: what it rests on, and what contradicts it",
		func(c *cobra.Command, r *client.Client, id string) (api.MemoryDetail, error) {
			return r.Memory(c.Context(), id)
		}, func(w io.Writer, d api.MemoryDetail) {
			var rival *store.Memory
			if d.Against != nil {
				rival = &store.Memory{ID: d.Against.ID, State: d.Against.State, Summary: d.Against.Summary}
			}
			f := d.Fact
			fmt.Fprintln(w, tui.Safe(memory.Describe(store.Memory{ID: f.ID, Kind: f.Kind, Tier: f.Tier, State: f.State, Summary: f.Summary,
				Detail: f.Detail, Confidence: f.Confidence, Importance: f.Importance, Durability: f.Durability, Learned: f.Learned,
				Evidence: f.Evidence, SeenAt: f.SeenAt, Sources: f.Sources, Taint: f.Taint}, rival)))
		})
}

func memoryAddCommand() *cobra.Command {
	var kind, detail string
	c := &cobra.Command{Use: "add TEXT", Short: "Remember something by hand", Args: cobra.MinimumNArgs(1),
		Example: `  mercury memory add --type constraint "is allergic to peanuts"`}
	c.Flags().StringVar(&kind, "type", memory.Preference, strings.Join(memory.Kinds, ", "))
	c.Flags().StringVar(&detail, "detail", "", "more about it")
	asJSON := jsonFlag(c)
	_ = c.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(memory.Kinds, cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, args []string) error {
		a, err := query(c.Context(), func(r *client.Client) (api.MemoryAdded, error) {
			return r.AddMemory(c.Context(), scopeOf(c), kind, strings.Join(args, " "), detail)
		})
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(c.OutOrStdout(), a)
		}
		result := memory.Result{Outcome: a.Outcome, Memory: store.Memory{ID: a.Memory.ID, Kind: a.Memory.Kind, Summary: a.Memory.Summary}}
		if a.Against != nil {
			result.Rival = &store.Memory{ID: a.Against.ID, Kind: a.Against.Kind, Summary: a.Against.Summary}
		}
		fmt.Fprintln(c.OutOrStdout(), tui.Safe(intake.AddedText(result)))
		return nil
	}
	return c
}

func memoryChangeCommand(verb, short, said string) *cobra.Command {
	return acting(verb, short,
		func(c *cobra.Command, r *client.Client, id string) (api.MemoryDetail, error) {
			return r.ChangeMemory(c.Context(), id, verb)
		}, func(w io.Writer, d api.MemoryDetail) { fmt.Fprintln(w, said+tui.Safe(d.Summary)) })
}

func memoryPauseCommand(verb, short string, on bool, said string) *cobra.Command {
	return &cobra.Command{Use: verb, Short: short, Args: noArgs, RunE: func(c *cobra.Command, _ []string) error {
		if err := with(c.Context(), func(r *client.Client) error { return r.PauseLearning(c.Context(), scopeOf(c), on) }); err != nil {
			return err
		}
		fmt.Fprintln(c.OutOrStdout(), said)
		return nil
	}}
}

func memoryClearCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{Use: "clear", Short: "Delete all memories for good", Args: noArgs}
	c.Flags().BoolVar(&yes, "yes", false, "do it, not only say how many there are")
	c.RunE = func(c *cobra.Command, _ []string) error {
		return with(c.Context(), func(r *client.Client) error {
			if !yes {
				o, err := r.MemoryOverview(c.Context(), scopeOf(c))
				if err != nil {
					return err
				}
				fmt.Fprintf(c.OutOrStdout(), "this deletes everything remembered, %s, for good; `mercury memory clear --yes` does it, `mercury memory export` writes them out before\n",
					mercury.Count(o.Conscious+o.Subconscious+o.Superseded+o.Forgotten, "memory", "memories"))
				return nil
			}
			n, err := r.ClearMemories(c.Context(), scopeOf(c))
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "deleted %s\n", mercury.Count(n, "memory", "memories"))
			return nil
		})
	}
	return c
}

func memoryWhyCommand() *cobra.Command {
	c := &cobra.Command{Use: "why [CONVERSATION]", Short: "Which memories stood before the last answer", Args: cobra.MaximumNArgs(1)}
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		conversation := "default"
		if len(args) > 0 {
			conversation = args[0]
		}
		page, err := query(c.Context(), func(r *client.Client) (client.Page[memory.Fact], error) {
			return r.MemoryWhy(c.Context(), mercury.LocalConversation(conversation))
		})
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(c.OutOrStdout(), page)
		}
		printFacts(c.OutOrStdout(), page.Items)
		return nil
	}
	return c
}

func memoryPeopleCommand() *cobra.Command {
	c := &cobra.Command{Use: "people", Short: "The people Mercury knows of", Args: noArgs}
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		page, err := query(c.Context(), func(r *client.Client) (client.Page[api.Person], error) { return r.People(c.Context(), scopeOf(c)) })
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(c.OutOrStdout(), page)
		}
		if len(page.Items) == 0 {
			fmt.Fprintln(c.OutOrStdout(), "none")
		}
		for _, p := range page.Items {
			fmt.Fprint(c.OutOrStdout(), tui.Safe(p.Name))
			if p.Role != "" {
				fmt.Fprintf(c.OutOrStdout(), " (%s)", tui.Safe(p.Role))
			}
			fmt.Fprintln(c.OutOrStdout())
			for _, m := range p.Memories {
				fmt.Fprintln(c.OutOrStdout(), "  "+tui.Safe(m.Summary))
			}
		}
		return nil
	}
	return c
}

func memoryExportCommand() *cobra.Command {
	var format string
	c := &cobra.Command{Use: "export", Short: "Write all memories out, as Markdown or JSON", Args: noArgs,
		Long: `Write all memories to standard output. As Markdown it is a list of those in use
that people can read and edit; as JSON it is everything, sources and states
included. mercury memory import reads both.`}
	c.Flags().StringVar(&format, "format", "markdown", "markdown or json")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if format != "markdown" && format != "json" {
			return usage("--format should be markdown or json, not %q", format)
		}
		var all []memory.Fact
		err := with(c.Context(), func(r *client.Client) error {
			q := url.Values{"scope": {scopeOf(c)}, "limit": {"1000"}, "state": {"live,superseded,forgotten"}}
			for {
				page, err := r.Memories(c.Context(), q)
				if err != nil {
					return err
				}
				all = append(all, page.Items...)
				if page.Next == "" {
					return nil
				}
				q.Set("after", page.Next)
			}
		})
		if err != nil {
			return err
		}
		if format == "json" {
			return printJSON(c.OutOrStdout(), client.Page[memory.Fact]{Items: all})
		}
		return memory.Markdown(c.OutOrStdout(), all)
	}
	return c
}

func memoryImportCommand() *cobra.Command {
	c := &cobra.Command{Use: "import FILE|-", Short: "Remember what was exported, as Markdown or JSON", Args: exactArgs(1)}
	c.RunE = func(c *cobra.Command, args []string) error {
		in := c.InOrStdin()
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return usage("%w", err)
			}
			defer f.Close()
			in = f
		}
		facts, err := memory.ParseFacts(in)
		if err != nil {
			return err
		}
		var sum client.Imported
		err = with(c.Context(), func(r *client.Client) error {
			const batch = 500
			for from := 0; from < len(facts); from += batch {
				got, err := r.ImportMemories(c.Context(), scopeOf(c), facts[from:min(from+batch, len(facts))])
				if err != nil {
					return err
				}
				sum.Added, sum.Merged, sum.Other = sum.Added+got.Added, sum.Merged+got.Merged, sum.Other+got.Other
			}
			return nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "%d remembered, %d known already, %d left out\n", sum.Added, sum.Merged, sum.Other)
		return nil
	}
	return c
}

func searchConversationsCommand() *cobra.Command {
	var limit int
	var conversation string
	c := &cobra.Command{Use: "search TEXT", Short: "What was said in any conversation, newest first", Args: cobra.MinimumNArgs(1),
		Long: `Look for words in everything that was said, in any script: also in what a
summary or a fresh start has hidden from the model.`}
	c.Flags().IntVar(&limit, "limit", 20, "how many, at most 200")
	c.Flags().StringVar(&conversation, "conversation", "", "only in this conversation")
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if limit < 1 || limit > 200 {
			return usage("--limit should be from 1 to 200, not %d", limit)
		}
		page, err := query(c.Context(), func(r *client.Client) (client.Page[api.SearchHit], error) {
			return r.Search(c.Context(), strings.Join(args, " "), conversation, limit)
		})
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(c.OutOrStdout(), page)
		}
		if len(page.Items) == 0 {
			fmt.Fprintln(c.OutOrStdout(), "none")
		}
		for _, f := range page.Items {
			fmt.Fprintf(c.OutOrStdout(), "%s  %s  %s: %s\n", ago(f.At), f.Conversation, f.Kind, oneLine(f.Text, 200))
		}
		return nil
	}
	return c
}
