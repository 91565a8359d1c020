package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/move"
	"github.com/mercury-agent/mercury/internal/tui"
)

func importCommand() *cobra.Command {
	var dry, sure, secrets, asJSON bool
	c := &cobra.Command{
		Use:   "import openclaw|hermes|mercury [PATH]",
		Short: "Take over what another agent knows; shows it first",
		Long: `Read the home of another agent, show what it holds, and after a yes take it
over: who it is, memories, skills, schedules (paused), people, talks, settings
where you have not decided yet. The other home is only read and never changed,
so both can run side by side, and an import may be repeated.

Keys and tokens stay behind unless --with-secrets is given. Without PATH the
usual place is read: ~/.openclaw, ~/.hermes, or ~/.mercury for the TypeScript
Mercury.`,
		Args:      cobra.RangeArgs(1, 2),
		ValidArgs: move.Sources(),
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(move.Sources(), args[0]) {
				return usage("homes of %q cannot be read; name one of %s", args[0], strings.Join(move.Sources(), ", "))
			}
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			dir := usualPlace(args[0], home)
			if len(args) == 2 {
				dir = config.ExpandPath(args[1])
			}
			p, err := move.Read(args[0], dir)
			if err != nil {
				return err
			}
			if err := home.Guard(); err != nil {
				return err
			}
			ownPort(p, home)
			out := c.OutOrStdout()
			if dry && asJSON {
				return printJSON(out, summary(p))
			}
			if !asJSON {
				preview(c, p, secrets)
			}
			if dry {
				fmt.Fprintln(out, "Nothing was done: this was a look only.")
				return nil
			}
			if !sure {
				fmt.Fprintf(out, "Take this over into %s? [y/N] ", home.Dir())
				line, err := nextLine(c.Context(), tui.ReadLines(c.InOrStdin()))
				if line = strings.ToLower(strings.TrimSpace(line)); err != nil || line != "y" && line != "yes" {
					fmt.Fprintln(out)
					return &exit{code: exitApproval, err: errors.New("nothing was taken over; --yes does it without a question")}
				}
			}
			return unpack(c, home, p, secrets, asJSON)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "show what there is and do nothing")
	c.Flags().BoolVarP(&sure, "yes", "y", false, "do it without a question")
	c.Flags().BoolVar(&secrets, "with-secrets", false, "take keys and tokens along, into .env of the home")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// usualPlace is where an agent keeps its home unless it was told otherwise.
func usualPlace(source string, home config.Home) string {
	switch source {
	case move.OpenClaw:
		for _, old := range []string{"~/.openclaw", "~/.clawdbot", "~/.moltbot"} {
			if _, err := os.Stat(config.ExpandPath(old)); err == nil {
				return config.ExpandPath(old)
			}
		}
		return config.ExpandPath("~/.openclaw")
	case move.Mercury:
		if home.Beside() != "" {
			return home.Beside()
		}
		return config.ExpandPath("~/.mercury")
	}
	return config.ExpandPath("~/." + source)
}

// ownPort gives a home beside that of a TypeScript Mercury, which listens on
// the same usual port, one of its own.
func ownPort(p *move.Parcel, home config.Home) {
	if p.Source != move.Mercury {
		return
	}
	p.Settings = append(p.Settings, move.Setting{Key: "web.listen", Value: freeAddress(), From: "the other one has 6174"})
}

// freeAddress is the first free address behind the usual one.
func freeAddress() string {
	for port := 6175; port < 6200; port++ {
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		if l, err := net.Listen("tcp", addr); err == nil {
			l.Close()
			return addr
		}
	}
	return "127.0.0.1:6175"
}

// preview shows a parcel, broken at the width of the terminal.
func preview(c *cobra.Command, p *move.Parcel, secrets bool) {
	var b bytes.Buffer
	p.Preview(&b, target(nil, nil, secrets))
	text := b.String()
	if width := columns(c.OutOrStdout()); width != nil && width() > 0 {
		text = tui.Wrap(strings.TrimRight(text, "\n"), width()) + "\n"
	}
	io.WriteString(c.OutOrStdout(), tui.Safe(text))
}

// target is what this Mercury has room for.
func target(h move.House, r *client.Client, secrets bool) move.Target {
	return move.Target{House: h, Memories: remembers{r}, Schedules: timetable{r, time.Local}, Default: shipped, Secrets: secrets}
}

func unpack(c *cobra.Command, home config.Home, p *move.Parcel, secrets, asJSON bool) error {
	if err := home.Create(); err != nil {
		return err
	}
	var report move.Report
	err := with(c.Context(), func(r *client.Client) (err error) {
		report, err = p.Unpack(c.Context(), target(&receiver{home: home, client: r, source: p.Source}, r, secrets))
		return err
	})
	if err != nil {
		return fmt.Errorf("%w\nWhat was taken over so far is kept; say it again to go on", err)
	}
	out := c.OutOrStdout()
	if asJSON {
		return printJSON(out, report)
	}
	fmt.Fprintf(out, "Taken over into %s: %s.\n", home.Dir(), reportText(report))
	for _, s := range report.Stay {
		fmt.Fprintln(out, "  stays as it is: "+tui.Safe(s))
	}
	return afterImport(c, home)
}

// reportText says what was done, without what there was nothing of.
func reportText(r move.Report) string {
	var parts []string
	for _, n := range []struct {
		n    int
		what string
	}{{r.Settings, "settings"}, {r.Files, "files"}, {r.Memories, "memories"}, {r.Schedules, "schedules"}, {r.Conversations, "talks"},
		{r.Secrets, "secrets"}, {r.Kept, "kept as files"}, {r.There, "there already"}} {
		if n.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.n, n.what))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// afterImport says what is missing before it can answer.
func afterImport(c *cobra.Command, home config.Home) error {
	cfg, err := config.Load(config.Source{Home: home})
	if err != nil {
		return err
	}
	if err := cfg.Configured(); err != nil {
		fmt.Fprintf(c.OutOrStdout(), "Before it answers: %s\n", message(err))
		return nil
	}
	fmt.Fprintf(c.OutOrStdout(), "%s answers, at http://%s once it runs. Talk to it: mercury\n", cfg.Model, cfg.Web.Listen)
	return nil
}

// summary is a parcel for programs: what there is, without the texts.
func summary(p *move.Parcel) map[string]any {
	variables := []string{}
	for _, s := range p.Secrets {
		variables = append(variables, s.Variable)
	}
	talks := 0
	for _, t := range p.Conversations {
		talks += len(t.Entries)
	}
	files, kept := []string{}, []string{}
	for _, f := range p.Files {
		files = append(files, f.Path)
	}
	for _, f := range p.Kept {
		kept = append(kept, f.Path)
	}
	return map[string]any{"source": p.Source, "dir": p.Dir, "settings": p.Settings, "files": files, "memories": len(p.Memories), "schedules": p.Schedules,
		"conversations": len(p.Conversations), "messages": talks, "people": p.People, "secrets": variables, "kept": kept, "left": p.Left, "warnings": p.Warnings}
}

// receiver is the home that things are taken over into.
type receiver struct {
	home   config.Home
	client *client.Client
	source string
}

func (n *receiver) Dir() string { return n.home.Dir() }

// Set writes what the file does not decide: all at once, or, where one of them
// is no longer valid, those that are.
func (n *receiver) Set(settings []move.Setting) (written int, stay []string, err error) {
	src := config.Source{Home: n.home}
	c, err := config.Load(src)
	if err != nil {
		return 0, nil, err
	}
	plain := strings.NewReplacer(" ", "", `"`, "")
	var list []config.Setting
	for _, s := range settings {
		e, err := c.Explain(s.Key)
		if err != nil || e.Origin.Source != config.FromFile {
			list = append(list, config.Setting{Key: s.Key, Value: s.Value})
		} else if plain.Replace(e.Value) != plain.Replace(s.Value) && e.Written != s.Value {
			stay = append(stay, fmt.Sprintf("%s is %s here", s.Key, e.Value))
		}
	}
	if len(list) == 0 {
		return 0, stay, nil
	}
	if _, err := config.Change(src, list...); err == nil {
		return len(list), stay, nil
	}
	for _, s := range list {
		if _, err := config.Set(src, s.Key, s.Value); err != nil {
			stay = append(stay, fmt.Sprintf("%s = %s: %s", s.Key, s.Value, firstLine(message(err))))
			continue
		}
		written++
	}
	return written, stay, nil
}

func (n *receiver) SetSecret(s move.Secret) (bool, error) {
	there, err := config.HasVariable(n.home, s.Variable)
	if there || err != nil {
		return false, err
	}
	return true, config.SetVariable(n.home, s.Variable, s.Value)
}

func (n *receiver) AddConversation(ctx context.Context, c move.Conversation) (bool, error) {
	h := api.History{Title: c.Title, Source: n.source}
	for _, e := range c.Entries {
		h.Entries = append(h.Entries, api.HistoryLine{Kind: string(e.Kind), Text: e.Text, At: e.At})
	}
	return n.client.KeepHistory(ctx, c.ID, h)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// takeOver offers to import a TypeScript Mercury that lives in the usual place,
// before this home is first used.
func takeOver(c *cobra.Command, home config.Home) error {
	out := c.OutOrStdout()
	addr := freeAddress()
	fmt.Fprintf(out, "A TypeScript Mercury lives in %s. It is left as it is.\nThis Mercury lives in %s, at %s.\n", home.Beside(), home.Dir(), addr)
	p := newPrompter(c)
	line, err := p.ask(c.Context(), "Take over what the other one knows? [Y/n]", tui.Open)
	if err != nil {
		return err
	}
	if line = strings.ToLower(line); line == "n" || line == "no" {
		fmt.Fprintf(out, "Later then: mercury import mercury\n")
		if err := home.Create(); err != nil {
			return err
		}
		_, err := config.Set(config.Source{Home: home}, "web.listen", addr)
		return err
	}
	parcel, err := move.Read(move.Mercury, home.Beside())
	if err != nil {
		return err
	}
	ownPort(parcel, home)
	preview(c, parcel, true)
	line, err = p.ask(c.Context(), "Do it, keys and tokens included? [Y/n] or s to leave the secrets:", tui.Open)
	if err != nil {
		return err
	}
	switch strings.ToLower(line) {
	case "n", "no":
		return nil
	case "s":
		return unpack(c, home, parcel, false, false)
	}
	return unpack(c, home, parcel, true, false)
}
