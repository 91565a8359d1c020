package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/move"
)

func exportCommand() *cobra.Command {
	var to string
	var asJSON bool
	c := &cobra.Command{
		Use:   "export",
		Short: "Write everything out as files that people can read",
		Long: `Write the conversations (Markdown and JSON), the configuration, soul, skills and
bots into a folder that is new or empty. Keys and tokens are left out. It is a
copy to read and to take elsewhere, and works while Mercury runs.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			if !home.Exists() {
				return &exit{code: exitSetup, err: fmt.Errorf("there is no home in %s to export\nRun mercury setup first", home.Dir())}
			}
			if to == "" {
				to = "mercury-export-" + time.Now().Format("2006-01-02")
			}
			return export(c, home, config.ExpandPath(to), asJSON)
		},
	}
	c.Flags().StringVar(&to, "to", "", "folder to write, new or empty; default mercury-export-DATE here")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// exported counts what was written.
type exported struct {
	Dir           string `json:"dir"`
	Conversations int    `json:"conversations"`
	Entries       int    `json:"entries"`
	Files         int    `json:"files"`
}

func export(c *cobra.Command, home config.Home, to string, asJSON bool) error {
	cfg, broken, err := config.LoadOrLastGood(config.Source{Home: home})
	if err != nil {
		return err
	}
	box, err := move.NewBox(to, hider(cfg))
	if err != nil {
		return err
	}
	done := exported{Dir: box.Dir()}
	if broken != nil {
		box.Note("- ! mercury.yaml had mistakes when this was written.")
	}
	err = with(c.Context(), func(r *client.Client) error {
		return errors.Join(exportTalks(c.Context(), r, box, &done), exportMemories(c.Context(), r, box),
			exportSchedules(c.Context(), r, box))
	})
	if err != nil {
		return err
	}
	box.Note("- conversations/: %d, each to read (.md) and for programs (.json).", done.Conversations)
	if err := exportFiles(home, box, &done); err != nil {
		return err
	}
	if err := box.Close(cfg.Name + ", " + time.Now().Format("2 January 2006")); err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), done)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "Written to %s: %s with %s, %s. README.md there says what is what.\n", done.Dir, mercury.Count(done.Conversations, "conversation", "conversations"),
		mercury.Count(done.Entries, "entry", "entries"), mercury.Count(done.Files, "file", "files"))
	return err
}

// hider takes the secrets of a configuration out of a text.
func hider(c *config.Config) func(string) string {
	var values []string
	for _, v := range c.Secrets() {
		if len(v) >= 6 {
			values = append(values, v)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(values))
	for _, v := range values {
		pairs = append(pairs, v, config.Masked)
	}
	return strings.NewReplacer(pairs...).Replace
}

func exportTalks(ctx context.Context, r *client.Client, box *move.Box, done *exported) error {
	for after := ""; ; {
		page, err := r.Conversations(ctx, url.Values{"after": {after}, "limit": {"200"}})
		if err != nil {
			return err
		}
		for _, conversation := range page.Items {
			entries, err := r.Entries(ctx, conversation.ID, 0)
			if err != nil {
				return err
			}
			lines := make([]move.Said, len(entries))
			for i, e := range entries {
				lines[i] = said(e)
			}
			whole := map[string]any{"conversation": conversation, "entries": entries}
			if err := box.Talk(conversation.ID, conversation.Title, lines, whole); err != nil {
				return err
			}
			done.Conversations, done.Entries = done.Conversations+1, done.Entries+len(entries)
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}

// said writes an entry for a reader.
func said(e api.Entry) move.Said {
	s := move.Said{Who: e.Kind, Text: e.Text, At: e.At, Aside: true}
	switch e.Kind {
	case "user":
		s.Who, s.Aside = "You", false
	case "assistant":
		s.Who, s.Aside = "Mercury", false
	case "tool_call":
		s.Who, s.Text = "used "+e.Tool, string(e.Args)
	case "tool_result":
		s.Who, s.Text = "got from "+e.Tool, e.Result
	}
	return s
}

func exportFiles(home config.Home, box *move.Box, done *exported) error {
	text, err := os.ReadFile(home.Config())
	if err == nil {
		err = box.Text("mercury.yaml", string(text))
		done.Files++
		box.Note("- mercury.yaml: the configuration. A key written in it is masked.")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, f := range []struct{ from, to, about string }{
		{home.Soul(), "soul", "who it is"}, {home.Skills(), "skills", "what it learned to do"}, {home.Bots(), "bots", "the bots, without their .env"},
		{filepath.Join(home.Files(), "imported"), "imported", "what was kept of other agents"},
	} {
		n, err := box.Folder(f.from, f.to, ".env")
		if err != nil {
			return err
		}
		if n > 0 {
			box.Note("- %s/: %s.", f.to, f.about)
		}
		done.Files += n
	}
	return nil
}
