package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/tui"
)

func dbCommand() *cobra.Command {
	return group("db", "Take the database somewhere else", dbMove())
}

func dbMove() *cobra.Command {
	var to string
	var asJSON bool
	c := &cobra.Command{Use: "move --to postgres://USER:PASSWORD@HOST/NAME | --to sqlite",
		Short: "Move everything between SQLite in the home and PostgreSQL",
		Long: `Move everything between SQLite in the home and PostgreSQL. Stop Mercury first. Each
table is read back and compared, then mercury.yaml names the new place, and the
old database is kept under another name. A move that is broken off changes
nothing; the same command goes on.

The address is kept in .env. With --to - it is read from standard input, where
no list of processes shows its password.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			if to == "-" {
				var line string
				if _, err := fmt.Fscanln(c.InOrStdin(), &line); err != nil {
					return usage("no address came from standard input")
				}
				to = line
			}
			switch {
			case to == "sqlite":
				to = ""
			case !strings.HasPrefix(to, "postgres://") && !strings.HasPrefix(to, "postgresql://"):
				return usage("--to wants sqlite, or an address such as postgres://user:password@host:5432/name")
			}
			moved, err := daemon.MoveDatabase(c.Context(), home, to)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), moved)
			}
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "TABLE\tROWS\tSHA-256, the same on both sides")
			for _, s := range moved.Tables {
				fmt.Fprintf(t, "%s\t%d\t%s…\n", s.Table, s.Rows, s.SHA256[:16])
			}
			if err := t.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "mercury.yaml names the new database. The old one is kept: %s\n", tui.Safe(moved.Old))
			return nil
		}}
	c.Flags().StringVar(&to, "to", "", "sqlite, a postgres:// address, or - for one from standard input")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = c.MarkFlagRequired("to")
	return c
}
