package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/schedule"
	"github.com/mercury-agent/mercury/internal/tui"
)

func schedulesCommand() *cobra.Command {
	c := group("schedules", "What starts by itself: add, change, look, stop",
		listing("What starts by itself, newest first",
			func(c *cobra.Command, r *client.Client, q url.Values) (client.Page[api.Schedule], error) {
				return r.Schedules(c.Context(), q)
			},
			"SCHEDULE\tNAME\tSTATE\tWHEN\tNEXT\tGOES TO", func(v api.Schedule) []string {
				next := "–"
				if len(v.Next) > 0 {
					next = v.Next[0]
				}
				return []string{v.ID, v.Name, v.State, v.When, next, v.Destination}
			}, nil),
		addScheduleCommand(),
		acting("show", "Everything about one schedule, named by its id or its name",
			func(c *cobra.Command, r *client.Client, id string) (api.Schedule, error) {
				return r.Schedule(c.Context(), id)
			}, showSchedule),
		editScheduleCommand(),
		acting("pause", "Keep a schedule from starting until it is resumed",
			func(c *cobra.Command, r *client.Client, id string) (api.Schedule, error) {
				return r.PauseSchedule(c.Context(), id)
			},
			func(w io.Writer, v api.Schedule) { fmt.Fprintf(w, "%s (%s) is paused\n", v.ID, tui.Safe(v.Name)) }),
		acting("resume", "Let a paused schedule start again, from now on",
			func(c *cobra.Command, r *client.Client, id string) (api.Schedule, error) {
				return r.ResumeSchedule(c.Context(), id)
			}, showSchedule),
		acting("remove", "End a schedule; what is at work goes on, and its occurrences stay",
			func(c *cobra.Command, r *client.Client, id string) (api.Schedule, error) {
				return r.RemoveSchedule(c.Context(), id)
			},
			func(w io.Writer, v api.Schedule) { fmt.Fprintf(w, "%s (%s) is removed\n", v.ID, tui.Safe(v.Name)) }),
		runScheduleCommand(), occurrencesCommand(), nextCommand(),
	)
	c.Aliases = []string{"tasks"}
	return c
}

func showSchedule(w io.Writer, v api.Schedule) {
	state := v.State
	if v.Reason != "" {
		state += " (" + v.Reason + ")"
	}
	fmt.Fprintf(w, "%s, %s\n%s\n", v.ID, tui.Safe(state), tui.Safe(v.Card))
	if v.Failures > 0 {
		fmt.Fprintf(w, "Failed %s in a row; mercury schedules occurrences %s shows why\n", mercury.Count(v.Failures, "time", "times"), v.ID)
	}
}

// draftFlags are the flags that describe a schedule.
func draftFlags(c *cobra.Command, d *schedule.Draft) (when func([]string) error) {
	f := c.Flags()
	var cron, at, in, every, daily string
	f.StringVar(&d.Name, "name", "", "what it is called")
	f.StringVar(&cron, "cron", "", `a cron expression of five fields, such as "0 9 * * 1-5"`)
	f.StringVar(&at, "at", "", `once, such as "tomorrow at 9" or 2026-03-01T09:00:00+01:00`)
	f.StringVar(&in, "in", "", "once, after so long, such as 20m")
	f.StringVar(&every, "every", "", `again and again, such as 2h or "weekday at 8"`)
	f.StringVar(&daily, "daily", "", "every day at this time, such as 8:30")
	f.StringVar(&d.Zone, "zone", "", "IANA zone of its wall clock, such as Europe/Lisbon (default the house's)")
	f.StringVar(&d.Missed, "missed", "", "what becomes of a missed time: once, skip or \"within 30m\" (default once)")
	f.StringVar(&d.Jitter, "jitter", "", "spread its times over so long, such as 5m")
	f.StringVar(&d.Prompt, "prompt", "", "what the agent is asked each time")
	f.StringVar(&d.Send, "send", "", "a text that is sent as it is, without a model")
	f.StringVar(&d.Command, "command", "", "a command whose output is sent, or is given to --prompt; nothing printed is nothing sent")
	f.StringVar(&d.Skill, "skill", "", "the skill that the agent uses")
	f.StringVar(&d.Precheck, "precheck", "", "a command that skips a time when it fails, before any model is asked")
	f.StringVar(&d.Watch, "watch", "", "a file or URL: --prompt is asked only when it changed, about what changed")
	f.StringVar(&d.Destination, "to", "", "address its results go to, such as telegram/12345")
	return func(args []string) error {
		given := 0
		take := func(text, phrase string) {
			if text != "" {
				given, d.When = given+1, phrase
			}
		}
		take(strings.Join(args, " "), strings.Join(args, " "))
		take(cron, cron)
		take(at, atPhrase(at))
		take(in, "in "+in)
		take(every, "every "+every)
		take(daily, "every day at "+daily)
		if given > 1 {
			return usage("name one time: WHEN, --cron, --at, --in, --every or --daily")
		}
		return nil
	}
}

// atPhrase is a moment as a person or a program writes it.
func atPhrase(text string) string {
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		return "at " + text
	}
	return text
}

// draftError makes a mistake in a draft one of usage.
func draftError(err error) error {
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == 422 {
		return usage("%s", refused.Detail)
	}
	return err
}

func addScheduleCommand() *cobra.Command {
	var d client.Draft
	var asJSON bool
	c := &cobra.Command{Use: "add [WHEN]", Short: "Let something start by itself",
		Long: `Let something start by itself. WHEN is a phrase or a cron expression:

  mercury schedules add "every weekday at 8" --prompt "What is new in my inbox?"
  mercury schedules add "in 20 minutes" --send "The tea is ready."
  mercury schedules add "first monday of the month at 10:30" --command "df -h /"

The answer goes to the conversation named by --to. What it does is bound by the
rights you have now; what needs a question waits for you, and is denied after
twelve hours.`,
	}
	when := draftFlags(c, &d.Draft)
	c.Flags().StringVar(&d.Conversation, "conversation", "", "conversation it belongs to (default local/default)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := when(args); err != nil {
			return err
		}
		if d.When == "" {
			return usage("it needs a time: WHEN, --cron, --at, --in, --every or --daily\n%s --help shows how", c.CommandPath())
		}
		v, err := query(c.Context(), func(r *client.Client) (api.Schedule, error) { return r.AddSchedule(c.Context(), d) })
		if err != nil {
			return draftError(err)
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), v)
		}
		showSchedule(c.OutOrStdout(), v)
		return nil
	}
	return c
}

func editScheduleCommand() *cobra.Command {
	var d schedule.Draft
	var asJSON bool
	c := &cobra.Command{Use: "edit SCHEDULE [WHEN]", Short: "Change what is named; the rest stays as it is"}
	when := draftFlags(c, &d)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("usage: %s", c.UseLine())
		}
		if err := when(args[1:]); err != nil {
			return err
		}
		if d == (schedule.Draft{}) {
			return usage("nothing to change was named\n%s --help shows what there is", c.CommandPath())
		}
		v, err := query(c.Context(), func(r *client.Client) (api.Schedule, error) { return r.EditSchedule(c.Context(), args[0], d) })
		if err != nil {
			return draftError(err)
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), v)
		}
		showSchedule(c.OutOrStdout(), v)
		return nil
	}
	return c
}

func runScheduleCommand() *cobra.Command {
	var rehearse bool
	c := acting("run", "Start an occurrence now",
		func(c *cobra.Command, r *client.Client, id string) (api.Occurrence, error) {
			return r.RunSchedule(c.Context(), id, rehearse)
		},
		func(w io.Writer, o api.Occurrence) {
			switch {
			case o.RunID == "":
				fmt.Fprintln(w, "sent")
			case o.Rehearsal:
				fmt.Fprintf(w, "%s rehearses it; mercury questions list shows what it asks\n", o.RunID)
			default:
				fmt.Fprintf(w, "%s works on it\n", o.RunID)
			}
		})
	c.Long = `Start an occurrence now, besides the ones of its timetable.

With --rehearse you watch: everything that needs a right is asked, and what you
allow becomes all that the schedule may do.`
	c.Flags().BoolVar(&rehearse, "rehearse", false, "ask for everything, and keep what is allowed as its whole permission")
	return c
}

func occurrencesCommand() *cobra.Command {
	var limit int
	var asJSON bool
	c := &cobra.Command{Use: "occurrences [SCHEDULE]", Short: "What became of each time: ran, late, missed, skipped or interrupted, and why"}
	c.Flags().IntVar(&limit, "limit", 50, "how many, at most 1,000")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usage("usage: %s", c.UseLine())
		}
		if limit < 1 || limit > 1000 {
			return usage("--limit should be from 1 to 1,000, not %d", limit)
		}
		id := append(args, "-")[0]
		page, err := query(c.Context(), func(r *client.Client) (client.Page[api.Occurrence], error) {
			return r.Occurrences(c.Context(), id, url.Values{"limit": {strconv.Itoa(limit)}})
		})
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
		fmt.Fprintln(t, "DUE\tSCHEDULE\tSTATE\tOUTCOME\tRUN\tWHY")
		for _, o := range page.Items {
			state, outcome := o.State, o.Outcome
			if o.Covers > 1 {
				state += fmt.Sprintf(" (%d times)", o.Covers)
			}
			if o.EndedAt == nil {
				outcome = "at work"
			}
			if o.Manual {
				outcome = strings.TrimSpace(outcome + " by hand")
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", o.DueAt.Local().Format(time.RFC3339), o.ScheduleID, state, outcome, o.RunID, oneLine(o.Reason, 80))
		}
		return t.Flush()
	}
	return c
}

func nextCommand() *cobra.Command {
	var zoneName, from string
	var count int
	var asJSON bool
	c := &cobra.Command{Use: "next WHEN", Short: "The coming times of a cron expression or phrase; saves nothing",
		Long: `Print the coming times of a cron expression or a phrase. Nothing is saved and
no Mercury need run.

  mercury schedules next "0 9 * * 1-5" --zone Europe/Lisbon
  mercury schedules next "first monday of the month at 10:30" --count 3 --json`}
	c.Flags().StringVar(&zoneName, "zone", "", "IANA zone (default the configured one, else the machine's)")
	c.Flags().StringVar(&from, "from", "", "count from this time, as RFC 3339 (default now)")
	c.Flags().IntVar(&count, "count", 5, "how many, at most 1,000")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage("usage: %s", c.UseLine())
		}
		if count < 1 || count > 1000 {
			return usage("--count should be from 1 to 1,000, not %d", count)
		}
		zone, err := schedule.LoadZone(zoneName, configuredZone())
		if err != nil {
			return usage("%s", message(err))
		}
		now := time.Now()
		if from != "" {
			if now, err = time.Parse(time.RFC3339, from); err != nil {
				return usage("--from is no time of the form 2026-03-01T09:00:00Z")
			}
		}
		w, err := schedule.ParseWhen(strings.Join(args, " "), now, zone)
		if err != nil {
			return usage("%s", message(err))
		}
		table, err := w.Timetable()
		if err != nil {
			return usage("%s", message(err))
		}
		times := []string{}
		for _, at := range table.Coming(now, count) {
			times = append(times, at.Format(time.RFC3339))
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), times)
		}
		if len(times) == 0 {
			return &mercury.Error{Kind: mercury.NotFound, Err: errors.New("it never comes")}
		}
		for _, at := range times {
			fmt.Fprintln(c.OutOrStdout(), at)
		}
		return nil
	}
	return c
}

// configuredZone is the zone that the home names, else the machine's.
func configuredZone() *time.Location {
	home, err := config.FindHome(os.Getenv)
	if err != nil || !home.Exists() {
		return time.Local
	}
	cfg, _, err := config.LoadOrLastGood(config.Source{Home: home})
	if err != nil {
		return time.Local
	}
	zone, err := cfg.Location()
	if err != nil {
		return time.Local
	}
	return zone
}
