package main

import (
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/tui"
)

func backgroundCommand() *cobra.Command {
	return group("bg", "List, look at and stop commands that run in the background",
		listing("Background commands, newest first",
			func(c *cobra.Command, r *client.Client, q url.Values) (client.Page[api.Job], error) {
				return r.Jobs(c.Context(), q)
			},
			"JOB\tSTATE\tCONVERSATION\tSTARTED\tCOMMAND", func(v api.Job) []string {
				state := v.State
				if v.State == "done" {
					state = fmt.Sprintf("done, exit code %d", v.ExitCode)
				}
				return []string{v.ID, state, v.ConversationID, ago(v.StartedAt), v.Command}
			}, func(c *cobra.Command) func(url.Values) {
				conversation := c.Flags().String("conversation", "", "only of this conversation")
				return func(q url.Values) {
					if *conversation != "" {
						q.Set("conversation", *conversation)
					}
				}
			}),
		acting("output", "The end of what a background command printed",
			func(c *cobra.Command, r *client.Client, id string) (api.Job, error) { return r.Job(c.Context(), id) },
			func(w io.Writer, v api.Job) { fmt.Fprintln(w, tui.Safe(v.Output)) }),
		acting("stop", "End a background command",
			func(c *cobra.Command, r *client.Client, id string) (api.Job, error) {
				return r.StopJob(c.Context(), id)
			},
			func(w io.Writer, v api.Job) { fmt.Fprintf(w, "%s is being stopped\n", v.ID) }),
	)
}
