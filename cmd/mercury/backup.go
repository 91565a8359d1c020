package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mercury-agent/mercury/internal/api"
	"github.com/mercury-agent/mercury/internal/api/client"
	"github.com/mercury-agent/mercury/internal/backup"
	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/tui"
)

func backupCommand() *cobra.Command {
	c := group("backup", "Copy this home, and bring a copy back",
		backupCreate(), backupList(), backupVerify(), backupRestore(), backupResume())
	c.Long = `Copy this home, and bring a copy back.

A backup is one file in the home's folder backups: the database, mercury.yaml,
soul, skills, bots, and what is too large for the database. Mercury makes one a
day by itself and keeps seven (backup.every, backup.keep). Secrets are in it only
when asked for, encrypted. Copy the file to another machine or disk: a backup
beside the original dies with it.

A home that was restored sends nothing and goes on with nothing until
` + "`mercury backup resume`" + ` shows what that would be.`
	return c
}

// passphraseVariable is where scripts put the passphrase of a backup's secrets.
const passphraseVariable = "MERCURY_BACKUP_PASSPHRASE"

// passphrase asks for a passphrase at the terminal, twice for a new one, or
// takes it from the environment.
func passphrase(c *cobra.Command, fresh bool) (string, error) {
	if p := os.Getenv(passphraseVariable); p != "" {
		return p, nil
	}
	if !isTerminal(c.InOrStdin()) {
		return "", usage("a passphrase is needed and nobody is there to ask; set %s", passphraseVariable)
	}
	ask := func(prompt string) (string, error) {
		fmt.Fprint(c.ErrOrStderr(), prompt)
		b, err := term.ReadPassword(int(os.Stdin.Fd()))
		fmt.Fprintln(c.ErrOrStderr())
		return string(b), err
	}
	p, err := ask("Passphrase for the secrets: ")
	if err != nil || !fresh {
		return p, err
	}
	again, err := ask("The same again: ")
	if err == nil && again != p {
		err = errors.New("the two passphrases differ; nothing was written")
	}
	return p, err
}

func backupCreate() *cobra.Command {
	var withSecrets, asJSON bool
	c := &cobra.Command{Use: "create", Short: "Make a backup, while Mercury works or without it", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var secrets []byte
			if withSecrets {
				home, err := config.FindHome(os.Getenv)
				if err != nil {
					return err
				}
				p, err := passphrase(c, true)
				if err != nil {
					return err
				}
				if secrets, err = backup.SealSecrets(home.Dir(), p); err != nil {
					return err
				}
			}
			made, err := query(c.Context(), func(r *client.Client) (api.Backup, error) { return r.CreateBackup(c.Context(), secrets) })
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), made)
			}
			out := c.OutOrStdout()
			fmt.Fprintf(out, "%s  %s, checked\n", made.Path, size(made.Bytes))
			if made.Secrets {
				fmt.Fprintln(out, "It holds the secrets, encrypted; without the passphrase nobody opens them, you neither.")
			} else {
				fmt.Fprintln(out, "Keys and tokens are not in it; --with-secrets adds them, encrypted.")
			}
			for _, what := range made.LeftOut {
				fmt.Fprintln(out, "left out:", tui.Safe(what))
			}
			return nil
		}}
	c.Flags().BoolVar(&withSecrets, "with-secrets", false, "add .env, tokens and keys, encrypted with a passphrase ("+passphraseVariable+" or asked for)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}

func backupList() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "list", Short: "Backups of this home, newest first", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			home, err := config.FindHome(os.Getenv)
			if err != nil {
				return err
			}
			// Files say it all: what a broken home has is listed too.
			found, err := backup.List(home.Dir())
			if err != nil {
				return err
			}
			if asJSON {
				items := make([]api.Backup, len(found))
				for i, b := range found {
					items[i] = api.Backup{Name: b.Name, Path: b.Path, Kind: b.Kind, CreatedAt: b.CreatedAt, Bytes: b.Bytes}
				}
				return printJSON(c.OutOrStdout(), client.Page[api.Backup]{Items: items})
			}
			if len(found) == 0 {
				fmt.Fprintln(c.OutOrStdout(), "none")
				return nil
			}
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "BACKUP\tMADE\tKIND\tSIZE")
			for _, b := range found {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", tui.Safe(b.Name), ago(b.CreatedAt), b.Kind, size(b.Bytes))
			}
			return t.Flush()
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// oneBackup wants at most one argument, which names a backup.
func oneBackup(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usage("usage: %s", c.UseLine())
	}
	return nil
}

func findBackup(args []string) (string, error) {
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		return "", err
	}
	return backup.Find(home.Dir(), strings.Join(args, ""))
}

func backupVerify() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "verify [BACKUP]", Short: "Read a backup to its last byte and say whether it is whole; default the newest", Args: oneBackup,
		RunE: func(c *cobra.Command, args []string) error {
			path, err := findBackup(args)
			if err != nil {
				return err
			}
			m, err := backup.Verify(c.Context(), path)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), m)
			}
			var rows int64
			for _, t := range m.Tables {
				rows += t.Rows
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is whole: made %s by Mercury %s, %s, %s in %s (schema %d)\n",
				path, ago(m.CreatedAt), tui.Safe(m.Version), mercury.Count(len(m.Entries), "file", "files"), mercury.Count(rows, "row", "rows"),
				mercury.Count(len(m.Tables), "table", "tables"), m.Schema)
			return nil
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "print the manifest as JSON")
	return c
}

func backupRestore() *cobra.Command {
	var to string
	var withSecrets bool
	c := &cobra.Command{Use: "restore [BACKUP]", Short: "Bring a backup back into an empty home, or beside it with --to", Args: oneBackup,
		Long: `Bring a backup back, by default the newest one of this home. It is checked before
anything is written. The home must be empty and nothing may run in it; --to
restores into another folder, which MERCURY_HOME then names. Nothing that was
pending is sent until ` + "`mercury backup resume`" + `.

A home that used PostgreSQL comes back on SQLite, so that it never meets the
original database; ` + "`mercury db move`" + ` takes it to another one.`,
		RunE: func(c *cobra.Command, args []string) error {
			path, err := findBackup(args)
			if err != nil {
				return err
			}
			home, err := config.FindHome(os.Getenv)
			if err == nil && to != "" {
				home, err = config.HomeAt(to)
			}
			if err != nil {
				return err
			}
			o := backup.RestoreOptions{Prepare: onSQLite}
			if withSecrets {
				o.Passphrase = func() (string, error) { return passphrase(c, false) }
			}
			m, err := backup.Restore(c.Context(), path, home.Dir(), o)
			if err != nil {
				return err
			}
			tellRestored(c.OutOrStdout(), home, m, withSecrets)
			return nil
		}}
	c.Flags().StringVar(&to, "to", "", "folder to restore into; default the home")
	c.Flags().BoolVar(&withSecrets, "with-secrets", false, "bring the encrypted secrets back too")
	return c
}

// onSQLite takes the address of the original's database out of a restored
// configuration.
func onSQLite(dir string, m backup.Manifest) error {
	home, err := config.HomeAt(dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(home.Config()); m.Engine != "postgres" || err != nil {
		return nil
	}
	_, err = config.Set(config.Source{Home: home}, "database.url", "")
	return err
}

func tellRestored(w io.Writer, home config.Home, m backup.Manifest, withSecrets bool) {
	fmt.Fprintf(w, "%s is as it was on %s.\n", home.Dir(), ago(m.CreatedAt))
	if m.Engine == "postgres" {
		fmt.Fprintln(w, "It used PostgreSQL and is on SQLite now; `mercury db move --to postgres://…` takes it to another database.")
	}
	switch {
	case m.Secrets && !withSecrets:
		fmt.Fprintln(w, "The backup holds its secrets: --with-secrets brings them back. Without them set keys anew in its .env.")
	case !m.Secrets:
		fmt.Fprintln(w, "Keys and tokens were not in the backup: set them anew in its .env.")
	}
	for _, what := range m.LeftOut {
		if !withSecrets {
			fmt.Fprintln(w, "left out:", tui.Safe(what))
		}
	}
	env := ""
	if !home.Usual() && os.Getenv("MERCURY_HOME") != home.Dir() {
		env = "MERCURY_HOME=" + home.Dir() + " "
	}
	fmt.Fprintf(w, "Next: %smercury backup resume   shows what it would send, and lets it work\n", env)
}

func backupResume() *cobra.Command {
	var yes, discard, asJSON bool
	c := &cobra.Command{Use: "resume", Short: "Show what a restored home would send and go on with, and let it",
		Long: `Show what a restored home would send and go on with. The original may have done
so since the backup was made: then --discard ends it instead. Until one of the
two is chosen, messages, runs and schedules of the backup are held, and channels
stay closed.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return with(c.Context(), func(r *client.Client) error {
				held, err := r.HeldBack(c.Context())
				if err != nil {
					var none *client.Error
					if errors.As(err, &none) && none.Status == 404 {
						return &mercury.Error{Kind: mercury.Conflict, Err: err, Help: "Only a home that was restored from a backup is held back."}
					}
					return err
				}
				out := c.OutOrStdout()
				if asJSON && !yes && !discard {
					return printJSON(out, held)
				}
				if !asJSON {
					printHeld(out, held)
				}
				if !yes && !discard {
					if !isTerminal(c.InOrStdin()) {
						fmt.Fprintln(out, "Nothing was changed. --yes lets all of it go on, --discard ends it.")
						return &exit{code: exitApproval, silent: true, err: errors.New("a decision is needed")}
					}
					fmt.Fprint(out, "Let all of it go on? [y]es, [d]iscard it, anything else leaves it held: ")
					line, err := nextLine(c.Context(), tui.ReadLines(c.InOrStdin()))
					if err != nil && !errors.Is(err, io.EOF) {
						return err
					}
					switch strings.ToLower(strings.TrimSpace(line)) {
					case "y", "yes":
					case "d", "discard":
						discard = true
					default:
						fmt.Fprintln(out, "It stays held.")
						return nil
					}
				}
				done, err := r.ResumeRestored(c.Context(), discard)
				if err != nil {
					return err
				}
				if asJSON {
					return printJSON(out, done)
				}
				verb := "go on"
				if discard {
					verb = "were ended"
				}
				fmt.Fprintf(out, "This home works again: %s and %s %s.\n", mercury.Count(len(done.Deliveries), "message", "messages"),
					mercury.Count(len(done.Runs), "run", "runs"), verb)
				return nil
			})
		}}
	c.Flags().BoolVar(&yes, "yes", false, "let all of it go on, without a question")
	c.Flags().BoolVar(&discard, "discard", false, "end all of it instead, without a question")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("yes", "discard")
	return c
}

func printHeld(w io.Writer, h api.HeldBack) {
	fmt.Fprintf(w, "Restored %s", ago(h.Restored))
	if h.Made != "" {
		fmt.Fprintf(w, " from a copy of %s", tui.Safe(h.Made))
	}
	fmt.Fprintln(w, ". Held since then:")
	for _, d := range h.Deliveries {
		fmt.Fprintf(w, "  would be sent   %s  %s\n", tui.Safe(d.Address), oneLine(d.Text, 80))
	}
	for _, r := range h.Runs {
		fmt.Fprintf(w, "  would go on     %s  %s run %s, %s\n", tui.Safe(r.ConversationID), r.Kind, r.ID, r.State)
	}
	for _, line := range h.Waiting {
		fmt.Fprintf(w, "  would start     %s\n", tui.Safe(line))
	}
	if len(h.Deliveries)+len(h.Runs)+len(h.Waiting) == 0 {
		fmt.Fprintln(w, "  nothing: it had nothing in hand. Channels are closed until you go on.")
	}
}
