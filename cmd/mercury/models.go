package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

func modelsCommand() *cobra.Command {
	return group("models", "See, try and choose the models that answer", modelsListCommand(), modelsTestCommand(), modelsUseCommand())
}

// readConfig reads the configuration as it stands, with or without a model.
func readConfig() (config.Home, *config.Config, error) {
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		return home, nil, err
	}
	c, err := config.Load(config.Source{Home: home})
	return home, c, err
}

func modelsListCommand() *cobra.Command {
	var asJSON, fresh bool
	c := &cobra.Command{Use: "list [PROVIDER]", Short: "What each provider offers, by its own list", Args: cobra.MaximumNArgs(1),
		Long: `Ask each provider that has a key, and each model server found on this machine,
for its own list. Lists are kept for six hours; --fresh asks again. Nothing is
charged for a list.`,
		RunE: func(c *cobra.Command, args []string) error {
			home, cfg, err := readConfig()
			if err != nil {
				return err
			}
			offers, err := daemon.Offers(c.Context(), cfg, home, strings.Join(args, ""), fresh)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), map[string]any{"model": cfg.Model, "fallbacks": cfg.Fallbacks, "items": offers})
			}
			showOffers(c.OutOrStdout(), offers, cfg)
			for _, o := range offers {
				if o.Error == "" {
					return nil
				}
			}
			return &exit{code: exitFailed, silent: len(offers) > 0, err: fmt.Errorf("no provider was found\nSet a provider's key or start a local model server, then: mercury setup")}
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&fresh, "fresh", false, "ask again, whatever was kept")
	return c
}

func showOffers(w io.Writer, offers []daemon.Offer, cfg *config.Config) {
	for _, o := range offers {
		title := o.Provider
		if o.Title != "" && !strings.EqualFold(o.Title, o.Provider) {
			title += " (" + o.Title + ")"
		}
		if o.Error != "" {
			fmt.Fprintf(w, "%s: ! %s\n", title, tui.Safe(o.Error))
			continue
		}
		fmt.Fprintf(w, "%s: %s, asked %s\n", title, mercury.Count(len(o.Models), "model", "models"), o.Asked.Local().Format("2006-01-02 15:04"))
		for _, m := range o.Models {
			name, mark := o.Provider+"/"+m, ""
			switch {
			case name == cfg.Model:
				mark = "   answers now"
			case slices.Contains(cfg.Fallbacks, name):
				mark = "   fallback"
			}
			fmt.Fprintf(w, "  %s%s\n", tui.Safe(name), mark)
		}
	}
}

func modelsTestCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "test [MODEL]", Short: "Ask a model one word; without a name, the one that answers and its fallbacks", Args: cobra.MaximumNArgs(1),
		Long: `Ask a model for one word and show how long it took, or why it did not answer in
the provider's own words. The call is real and costs a few tokens.`,
		RunE: func(c *cobra.Command, args []string) error {
			home, cfg, err := readConfig()
			if err != nil {
				return err
			}
			names := append([]string{cfg.Model}, cfg.Fallbacks...)
			if len(args) == 1 {
				name, err := resolveModel(c.Context(), cfg, home, args[0])
				if err != nil {
					return err
				}
				names = []string{name}
			} else if err := cfg.Configured(); err != nil {
				return err
			}
			return testModels(c, config.Source{Home: home}, names, asJSON)
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// resolveModel finds out which model is meant. Where nobody is known to have
// it, the providers are asked what they have.
func resolveModel(ctx context.Context, cfg *config.Config, home config.Home, name string) (string, error) {
	full, err := daemon.ResolveModel(cfg, home, name)
	if mercury.KindOf(err) != mercury.NotFound {
		return full, err
	}
	if _, err := daemon.Offers(ctx, cfg, home, "", false); err != nil {
		return "", err
	}
	return daemon.ResolveModel(cfg, home, name)
}

// tested is how one model did.
type tested struct {
	Model   string  `json:"model"`
	Answers bool    `json:"answers"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error,omitempty"`
}

func testModels(c *cobra.Command, src config.Source, names []string, asJSON bool) error {
	var results []tested
	failed := 0
	for _, name := range names {
		begun := time.Now()
		err := daemon.TryModel(c.Context(), src, name)
		r := tested{Model: name, Answers: err == nil, Seconds: time.Since(begun).Round(time.Millisecond).Seconds()}
		if err != nil {
			r.Error = message(err)
			failed++
		}
		results = append(results, r)
		if !asJSON {
			if err != nil {
				fmt.Fprintf(c.OutOrStdout(), "%s: no. %s\n", name, tui.Safe(r.Error))
			} else {
				fmt.Fprintf(c.OutOrStdout(), "%s: it answers, %.1f s\n", name, r.Seconds)
			}
		}
	}
	if asJSON {
		if err := printJSON(c.OutOrStdout(), map[string]any{"items": results}); err != nil {
			return err
		}
	}
	if failed > 0 {
		return &exit{code: exitFailed, silent: true, err: fmt.Errorf("%d of %d models do not answer", failed, len(names))}
	}
	return nil
}

func modelsUseCommand() *cobra.Command {
	var untested bool
	c := &cobra.Command{Use: "use MODEL", Short: "Let another model answer from now on", Args: exactArgs(1),
		Long: `Try a model and, when it answers, write it into mercury.yaml; comments stay. A
running Mercury takes it up by itself.`,
		RunE: func(c *cobra.Command, args []string) error {
			home, cfg, err := readConfig()
			if err != nil {
				return err
			}
			name, err := resolveModel(c.Context(), cfg, home, args[0])
			if err != nil {
				return err
			}
			src := config.Source{Home: home}
			if !untested {
				if err := daemon.TryModel(c.Context(), src, name); err != nil {
					return fmt.Errorf("%w\nNothing was changed; --untested writes it all the same", err)
				}
			}
			if _, err := config.Set(src, "model", name); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s answers from now on%s.\n", name, instead(cfg.Model, name))
			return nil
		}}
	c.Flags().BoolVar(&untested, "untested", false, "write it without trying it")
	return c
}

func instead(before, now string) string {
	if before == "" || before == now {
		return ""
	}
	return ", instead of " + before
}
