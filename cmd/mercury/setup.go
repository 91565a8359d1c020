package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/daemon/setup"
	"github.com/mercury-agent/mercury/internal/tui"
)

func setupCommand() *cobra.Command {
	var a setup.Answers
	var proposals bool
	c := &cobra.Command{
		Use:   "setup",
		Short: "Set up a new Mercury, or change what was set up",
		Long: `Ask for what Mercury cannot find out by itself: which model answers, and the
time where you are. Enter takes what is proposed. Keys in the environment and
model servers on this machine are found by themselves; a pasted key is never
shown, is tried before it is kept, and lies in .env of the home. What is
answered is kept at once: an interrupted set-up goes on where it was.

With --model or --yes nothing is asked: what is not given is taken as proposed,
keys come from the environment, and saying it again changes nothing more. With
MERCURY_DISCOVER=off in the environment no server is looked for.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			if proposals || a.Model != "" {
				return setup.Quiet(c.Context(), setupOptions(c, home, nil), a)
			}
			if a != (setup.Answers{}) {
				return usage("these flags answer without questions: add --yes or --model")
			}
			_, err = setUp(c, home, newPrompter(c))
			return err
		},
	}
	f := c.Flags()
	f.BoolVarP(&proposals, "yes", "y", false, "ask nothing; take what is proposed")
	f.StringVar(&a.Model, "model", "", "provider/model that answers; asks nothing")
	f.StringVar(&a.Timezone, "timezone", "", "your zone or city, such as Europe/Lisbon")
	f.StringVar(&a.Name, "name", "", "what Mercury is called")
	f.StringVar(&a.Owner, "owner", "", "what it calls you")
	f.StringVar(&a.Workspace, "workspace", "", "folder where it works")
	f.StringVar(&a.Budget, "budget", "", "tokens a day")
	f.BoolVar(&a.Telegram, "telegram", false, "check and keep the token in TELEGRAM_BOT_TOKEN")
	f.BoolVar(&a.KeepKey, "keep-key", false, "copy the model's key from the environment into .env of the home")
	return c
}

// prompter asks at a terminal, or reads lines where there is none.
type prompter struct {
	ask   func(context.Context, string, tui.Veil) (string, error)
	lines func() <-chan string // what follows the set-up
}

func newPrompter(c *cobra.Command) prompter {
	in, out := c.InOrStdin(), c.OutOrStdout()
	if isTerminal(in) && isTerminal(out) {
		p := tui.NewPrompt(in.(*os.File), out)
		return prompter{ask: p.Ask, lines: func() <-chan string { return tui.ReadLines(p.Rest()) }}
	}
	return lined(c, tui.ReadLines(in))
}

// lined asks by lines that someone else reads.
func lined(c *cobra.Command, lines <-chan string) prompter {
	ask := func(ctx context.Context, question string, _ tui.Veil) (string, error) {
		fmt.Fprint(c.OutOrStdout(), question)
		line, err := nextLine(ctx, lines)
		if !isTerminal(c.InOrStdin()) || err != nil {
			fmt.Fprintln(c.OutOrStdout())
		}
		return line, err
	}
	return prompter{ask: ask, lines: func() <-chan string { return lines }}
}

func setupOptions(c *cobra.Command, home config.Home, ask func(context.Context, string, tui.Veil) (string, error)) setup.Options {
	return setup.Options{Source: config.Source{Home: home}, Ask: ask, Out: c.OutOrStdout(), Width: columns(c.OutOrStdout()),
		Telegram: daemon.Talks("telegram")}
}

// setUp asks until everything is answered, or reports that the person left;
// that is no failure, and they are told how to go on.
func setUp(c *cobra.Command, home config.Home, p prompter) (whole bool, err error) {
	if other := elsewhere(home); other != "" {
		fmt.Fprintf(c.OutOrStdout(), "A Mercury of yours lives in %s. To use it: MERCURY_HOME=%s mercury\n", other, other)
		line, err := p.ask(c.Context(), "Begin another one in "+home.Dir()+"? [y/N] ", tui.Open)
		if line = strings.ToLower(line); err != nil || line != "y" && line != "yes" {
			return false, err
		}
	}
	err = setup.Run(c.Context(), setupOptions(c, home, p.ask))
	switch {
	case errors.Is(err, setup.ErrLeft):
		fmt.Fprintln(c.OutOrStdout(), "What was answered is kept. mercury setup goes on from there.")
		return false, nil
	case errors.Is(err, io.EOF):
		return false, &exit{code: exitSetup, err: errors.New(strings.TrimSuffix(err.Error(), ": "+io.EOF.Error()))}
	}
	return err == nil, err
}

// nextLine waits for a line of in; io.EOF says that there are no more.
func nextLine(ctx context.Context, in <-chan string) (string, error) {
	select {
	case line, ok := <-in:
		if !ok {
			return "", io.EOF
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// afterDemo proposes the person's own model when the tour is over. Without
// lines nobody is there to choose.
func afterDemo(c *cobra.Command, lines <-chan string) error {
	out := c.OutOrStdout()
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		return err
	}
	if lines == nil {
		fmt.Fprintln(out, "\nUse your own model now? Set a provider's key or start a local model server, then: mercury setup")
		for _, f := range config.Discover(c.Context(), config.Source{Home: home}) {
			fmt.Fprintf(out, "  found: %s (%s)\n", f.Model, f.Provider.Title)
		}
		return nil
	}
	// The tour reads the terminal by lines, which would show a pasted key. The
	// set-up reads it with a veil, in this process's place.
	if !canBecome {
		fmt.Fprintln(out, "\nUse your own model now: mercury setup")
		return nil
	}
	fmt.Fprint(out, "\nUse your own model now? [Y/n] ")
	line, err := nextLine(c.Context(), lines)
	if err != nil {
		fmt.Fprintln(out)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); err != nil || answer == "n" || answer == "no" || answer == "q" {
		fmt.Fprintln(out, "Later then: mercury setup")
		return nil
	}
	return become("setup")
}
