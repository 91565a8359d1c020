package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

func setupCommand() *cobra.Command {
	var model string
	c := &cobra.Command{
		Use:   "setup",
		Short: "Choose the model that answers",
		Long: `Choose the model that answers. Keys in the environment and model servers on this
machine are found by themselves; a pasted key is recognised and tried before it
is kept. With --model nothing is asked; with MERCURY_DISCOVER=off in the
environment no server is looked for.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			src := config.Source{Home: home}
			if model != "" {
				return keepModel(c, src, model)
			}
			return setUp(c, src, tui.ReadLines(c.InOrStdin()))
		},
	}
	c.Flags().StringVar(&model, "model", "", "provider/model to use, without questions")
	return c
}

// setUp asks for a model until one answers, or the person leaves.
func setUp(c *cobra.Command, src config.Source, in <-chan string) error {
	out := c.OutOrStdout()
	found := config.Discover(c.Context(), src)
	fmt.Fprintln(out, "Which model should answer?")
	for i, f := range found {
		from := "answers on this machine"
		if f.Key.Name != "" {
			from = "key in " + f.Key.Name
		}
		fmt.Fprintf(out, "  %d. %-32s %s (%s)\n", i+1, f.Model, f.Provider.Title, from)
	}
	if len(found) == 0 {
		fmt.Fprintln(out, "  no key in the environment and no model server on this machine was found")
	}
	for {
		proposal := ""
		if len(found) > 0 {
			proposal = "Enter takes 1, "
		}
		fmt.Fprintf(out, "%sa number chooses, a pasted key is tried, q leaves: ", proposal)
		line, ok := <-in
		line = strings.TrimSpace(line)
		if !ok {
			return &exit{code: exitSetup, err: errors.New("the input ended before a model was chosen; nothing was changed. Run mercury setup again")}
		}
		if line == "q" || line == "quit" {
			fmt.Fprintln(out, "Nothing was changed. mercury setup asks again.")
			return nil
		}
		if line == "" && len(found) > 0 {
			line = "1"
		}
		if n, err := strconv.Atoi(line); err == nil && n >= 1 && n <= len(found) {
			err = keepModel(c, src, found[n-1].Model)
			if err == nil {
				return nil
			}
			fmt.Fprintln(out, "! "+message(err))
			continue
		}
		if err := tryKey(c, src, line); err != nil {
			fmt.Fprintln(out, "! "+message(err))
			continue
		}
		return nil
	}
}

// keyShapes are how the keys of providers begin; the longer prefix first.
var keyShapes = []struct{ prefix, provider string }{
	{"sk-ant-", "anthropic"}, {"sk-or-", "openrouter"}, {"gsk_", "groq"}, {"xai-", "xai"}, {"AIza", "gemini"}, {"sk-", "openai"},
}

// tryKey recognises a pasted key, tries it, and keeps it in the home's .env.
func tryKey(c *cobra.Command, src config.Source, key string) error {
	for _, s := range keyShapes {
		if !strings.HasPrefix(key, s.prefix) {
			continue
		}
		for _, p := range config.KnownProviders() {
			if p.Name != s.provider || len(p.Env) == 0 {
				continue
			}
			with := src
			with.Getenv = func(name string) string {
				if name == p.Env[0] {
					return key
				}
				return os.Getenv(name)
			}
			model := p.Name + "/" + p.Model
			if err := try(c.Context(), with, model, c.OutOrStdout()); err != nil {
				return err
			}
			if err := src.Home.Create(); err != nil {
				return err
			}
			if err := config.SetVariable(src.Home, p.Env[0], key); err != nil {
				return err
			}
			return write(c, src, model)
		}
	}
	return &mercury.Error{Kind: mercury.Invalid, Err: errors.New("that is neither a number of the list nor a key of a provider that is known"),
		Help: "For another provider, name it in mercury.yaml: docs/configuration.md."}
}

// keepModel tries a model and writes it down.
func keepModel(c *cobra.Command, src config.Source, model string) error {
	if err := try(c.Context(), src, model, c.OutOrStdout()); err != nil {
		return err
	}
	return write(c, src, model)
}

// try asks the model one word with the configuration as it would be.
func try(ctx context.Context, src config.Source, model string, out io.Writer) error {
	src.Flags = map[string]string{"model": model}
	cfg, err := config.Load(src)
	if err != nil {
		return err
	}
	if err := cfg.Configured(); err != nil {
		if !errors.Is(err, config.ErrNotConfigured) && mercury.KindOf(err) != mercury.Setup {
			return err
		}
		// A local server needs no entry in the file to be tried.
		for _, f := range config.Discover(ctx, src) {
			if f.Model == model {
				cfg.Use(f)
			}
		}
		if err := cfg.Configured(); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "Trying %s … ", model)
	if err := daemon.CheckModel(ctx, cfg); err != nil {
		fmt.Fprintln(out, "no.")
		return err
	}
	fmt.Fprintln(out, "it answers.")
	return nil
}

func write(c *cobra.Command, src config.Source, model string) error {
	if err := src.Home.Create(); err != nil {
		return err
	}
	if _, err := config.Set(src, "model", model); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s answers from now on (%s).\nTry: mercury ask \"what is in this folder?\"   or talk to it: mercury\n", model, src.Home.Config())
	return nil
}

// afterDemo proposes the person's own model when the tour is over. Without
// lines nobody is there to choose.
func afterDemo(c *cobra.Command, lines <-chan string) error {
	out := c.OutOrStdout()
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		return err
	}
	src := config.Source{Home: home}
	if lines == nil {
		fmt.Fprintln(out, "\nUse your own model now? Set a provider's key or start a local model server, then: mercury setup")
		for _, f := range config.Discover(c.Context(), src) {
			fmt.Fprintf(out, "  found: %s (%s)\n", f.Model, f.Provider.Title)
		}
		return nil
	}
	fmt.Fprint(out, "\nUse your own model now? [Y/n] ")
	line, ok := <-lines
	if answer := strings.ToLower(strings.TrimSpace(line)); !ok || answer == "n" || answer == "no" || answer == "q" {
		fmt.Fprintln(out, "Later then: mercury setup")
		return nil
	}
	return setUp(c, src, lines)
}
