package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/daemon"
	"github.com/mercury-agent/mercury/internal/doctor"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/skill"
	"github.com/mercury-agent/mercury/internal/tui"
)

func skillsCommand() *cobra.Command {
	return group("skills", "What Mercury has learned to do: list, show, install, approve and remove skills",
		skillsListCommand(), skillsShowCommand(), skillsInstallCommand(), skillsApproveCommand(), skillsRemoveCommand(), skillsRestoreCommand())
}

// library is the library of the home; a running Mercury looks at the same
// folders.
func library() (*skill.Library, error) {
	home, cfg, _, err := loadLoose()
	if err != nil {
		return nil, err
	}
	if err := home.Create(); err != nil {
		return nil, fmt.Errorf("make the home: %w", err)
	}
	return daemon.Skills(home, cfg), nil
}

// loadLoose reads the configuration as far as it can be read.
func loadLoose() (config.Home, *config.Config, error, error) {
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		return home, nil, nil, err
	}
	cfg, problem, err := config.LoadOrLastGood(config.Source{Home: home})
	return home, cfg, problem, err
}

func skillsListCommand() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "Skills, where they come from and whether they can be used", Args: noArgs}
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		l, err := library()
		if err != nil {
			return err
		}
		all, err := l.List()
		if err != nil {
			return err
		}
		for i := range all {
			all[i].Body = ""
		}
		if *asJSON {
			return printJSON(c.OutOrStdout(), map[string]any{"items": all, "next": ""})
		}
		t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "SKILL\tFROM\tSTATE\tFOR")
		for _, e := range all {
			about := e.Description
			if e.State != skill.Ready {
				about = e.Why
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", oneLine(e.Name, 40), e.Origin, e.State, oneLine(about, 80))
		}
		return t.Flush()
	}
	return c
}

func skillsShowCommand() *cobra.Command {
	c := &cobra.Command{Use: "show NAME", Short: "All that a skill says", Args: exactArgs(1), ValidArgsFunction: skillNames}
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		l, err := library()
		if err != nil {
			return err
		}
		all, err := l.List()
		if err != nil {
			return err
		}
		for _, e := range all {
			if e.Name != args[0] {
				continue
			}
			if *asJSON {
				return printJSON(c.OutOrStdout(), e)
			}
			printSkill(c.OutOrStdout(), e)
			return nil
		}
		_, _, err = l.Find(args[0])
		return err
	}
	return c
}

func printSkill(w io.Writer, e skill.Entry) {
	fmt.Fprintf(w, "%s (%s, %s)\n%s\n", tui.Safe(e.Name), e.Origin, e.State, tui.Safe(e.Description))
	for _, line := range [][2]string{{"cannot be used", e.Why}, {"folder", e.Folder}, {"installed from", e.Source}, {"licence", e.License}, {"needs", e.Compatibility},
		{"only these tools", strings.Join(e.AllowedTools, ", ")}, {"files", strings.Join(e.Files, ", ")}, {"hash", e.Hash}} {
		if line[1] != "" {
			fmt.Fprintf(w, "%s: %s\n", line[0], tui.Safe(line[1]))
		}
	}
	for _, s := range e.Warnings {
		fmt.Fprintf(w, "· %s\n", tui.Safe(s))
	}
	if e.Body != "" {
		fmt.Fprintf(w, "\n%s\n", tui.Safe(e.Body))
	}
}

func skillNames(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	l, err := library()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, _ := l.List()
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func skillsInstallCommand() *cobra.Command {
	var yes, anyway bool
	c := &cobra.Command{Use: "install SOURCE", Short: "Look at a skill and, after a yes, install it", Args: exactArgs(1),
		Long: `Read a skill from a folder, a SKILL.md, an archive (.zip, .tar.gz), an https
address of one, or a git repository (https://host/owner/name.git, with #folder for
one inside it; - reads a SKILL.md from standard input). Nothing of it is run. What was
found in it is shown; after a yes it is put into the home and pinned: changed files
are not used until you approve them.

One that looks hostile is refused; --anyway installs it all the same.`,
		RunE: func(c *cobra.Command, args []string) error {
			l, err := library()
			if err != nil {
				return err
			}
			var b skill.Bundle
			source := args[0]
			if source == "-" {
				text, readErr := io.ReadAll(io.LimitReader(c.InOrStdin(), 1<<20))
				if readErr != nil {
					return readErr
				}
				b, err = skill.FromText(string(text))
				source = "standard input"
			} else {
				b, err = skill.Read(c.Context(), source, download)
			}
			if err != nil {
				return err
			}
			found := skill.Scan(b)
			out := c.OutOrStdout()
			fmt.Fprintf(out, "%s\n\n%s\n\n", tui.Safe(skill.Summary(b, source, found)), tui.Safe(string(b.Files[skill.FileName].Text)))
			if skill.Severe(found) && !anyway {
				return l.Admit(b, source, "owner", false)
			}
			if !yes {
				if args[0] == "-" || !isTerminal(c.InOrStdin()) {
					return usage("nothing was installed: there is nobody to ask; add --yes once you have read the above")
				}
				fmt.Fprint(out, "Install it? [y/N] ")
				answer, err := bufio.NewReader(c.InOrStdin()).ReadString('\n')
				if err != nil && answer == "" || strings.ToLower(strings.TrimSpace(answer)) != "y" {
					fmt.Fprintln(out, "nothing was installed")
					return nil
				}
			}
			if err := l.Admit(b, source, "owner", anyway); err != nil {
				return err
			}
			fmt.Fprintf(out, "installed %s; /skill %s uses it\n", b.Name, b.Name)
			return nil
		}}
	c.Flags().BoolVar(&yes, "yes", false, "install without asking")
	c.Flags().BoolVar(&anyway, "anyway", false, "install it though it looks hostile")
	return c
}

// download fetches an archive or a SKILL.md for its owner.
func download(ctx context.Context, address string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	c := http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != "https" || len(via) > 5 {
			return errors.New("it leads away from https, or in circles")
		}
		return nil
	}}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &mercury.Error{Kind: mercury.NotFound, Err: fmt.Errorf("%s answers %s", req.URL.Host, resp.Status)}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if int64(len(b)) > limit {
		return nil, &mercury.Error{Kind: mercury.Invalid, Err: fmt.Errorf("it is larger than %d MB", limit>>20)}
	}
	return b, err
}

func skillsApproveCommand() *cobra.Command {
	return &cobra.Command{Use: "approve NAME", Short: "Let a skill that was changed be used as it is now", Args: exactArgs(1), ValidArgsFunction: skillNames,
		RunE: func(c *cobra.Command, args []string) error {
			return changeSkill(c, args[0], "may be used as it is now", (*skill.Library).Approve)
		}}
}

func skillsRemoveCommand() *cobra.Command {
	return &cobra.Command{Use: "remove NAME", Short: "Remove a skill of yours; its last state is kept", Args: exactArgs(1), ValidArgsFunction: skillNames,
		RunE: func(c *cobra.Command, args []string) error {
			return changeSkill(c, args[0], "is removed; mercury skills restore brings it back", (*skill.Library).Remove)
		}}
}

func skillsRestoreCommand() *cobra.Command {
	return &cobra.Command{Use: "restore NAME", Short: "Bring back what was last replaced or removed", Args: exactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return changeSkill(c, args[0], "is back", (*skill.Library).Restore)
		}}
}

func changeSkill(c *cobra.Command, name, done string, change func(*skill.Library, string) error) error {
	l, err := library()
	if err != nil {
		return err
	}
	if err := change(l, name); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s %s\n", name, done)
	return nil
}

// checkSkills is the doctor's look at skills.
func checkSkills(home config.Home) doctor.Check {
	return func(context.Context) []doctor.Finding {
		cfg, _, err := config.LoadOrLastGood(config.Source{Home: home})
		if err != nil {
			return nil // said by the check of the configuration
		}
		all, err := daemon.Skills(home, cfg).List()
		if err != nil {
			return []doctor.Finding{{Area: "skills", Level: doctor.Fault, Text: err.Error(), Fix: mercury.HelpOf(err)}}
		}
		ready := 0
		var found []doctor.Finding
		for _, e := range all {
			if e.State == skill.Ready {
				ready++
				continue
			}
			fix := "Mend " + filepath.Join(e.Folder, skill.FileName) + "."
			if e.State == skill.Changed {
				fix = fmt.Sprintf("Look at it; then `mercury skills approve %s`.", e.Name)
			}
			found = append(found, doctor.Finding{Area: "skills", Level: doctor.Warning, Text: fmt.Sprintf("%s cannot be used: %s", e.Name, e.Why), Fix: fix})
		}
		if len(found) == 0 {
			found = append(found, doctor.Finding{Area: "skills", Level: doctor.Fine, Text: mercury.Count(ready, "skill", "skills") + " can be used"})
		}
		return found
	}
}
