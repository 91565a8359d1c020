package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
)

func configCommand() *cobra.Command {
	load := func() (*config.Config, error) {
		home, err := config.FindHome(os.Getenv)
		if err != nil {
			return nil, err
		}
		return config.Load(config.Source{Home: home})
	}
	var asJSON bool
	explain := &cobra.Command{Use: "explain KEY", Short: "Show a value, where it comes from and what it means", Args: exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cfg, err := load()
			if err != nil {
				return err
			}
			e, err := cfg.Explain(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), e)
			}
			w := c.OutOrStdout()
			fmt.Fprintf(w, "%s = %s\nfrom %s\n", e.Key, e.Value, e.Origin)
			if e.Written != "" {
				fmt.Fprintf(w, "written as %s\n", e.Written)
			}
			if e.Missing != "" {
				fmt.Fprintf(w, "! the variable %s is not set\n", e.Missing)
			}
			fmt.Fprintln(w, e.Description)
			return nil
		}}
	explain.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return group("config", "Read, change and check the configuration",
		&cobra.Command{Use: "get KEY", Short: "Print the value of a key", Args: exactArgs(1), RunE: func(c *cobra.Command, args []string) error {
			cfg, err := load()
			if err != nil {
				return err
			}
			v, err := cfg.Get(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), v)
			return err
		}},
		&cobra.Command{Use: "set KEY VALUE", Short: "Change a key; comments stay, and the whole is checked before it is written", Args: exactArgs(2),
			RunE: func(c *cobra.Command, args []string) error {
				home, err := config.FindHome(os.Getenv)
				if err != nil {
					return err
				}
				if err := home.Create(); err != nil {
					return err
				}
				cfg, err := config.Set(config.Source{Home: home}, args[0], args[1])
				if err != nil {
					return err
				}
				v, err := cfg.Get(args[0])
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s = %s\n%s\n", args[0], v, daemon.Follows(args[0]))
				return err
			}},
		explain,
		&cobra.Command{Use: "check", Short: "Check the whole configuration", Args: noArgs, RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := load()
			if err != nil {
				return err
			}
			for _, w := range cfg.Warnings {
				fmt.Fprintln(c.ErrOrStderr(), "warning: "+w)
			}
			if err := cfg.Configured(); err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), "the configuration is good")
			return err
		}},
		&cobra.Command{Use: "schema", Short: "Print the JSON Schema of mercury.yaml, for editors", Args: noArgs, RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(config.Schema())
			return err
		}},
	)
}
