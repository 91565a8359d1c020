package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/soul"
	"github.com/mercury-agent/mercury/internal/tui"
)

func soulCommand() *cobra.Command {
	return group("soul", "Who Mercury is: show, edit and compare its files", soulShowCommand(), soulEditCommand(), soulDiffCommand())
}

// soulFiles are the soul of the home, written if there is none yet.
func soulFiles() (*soul.Files, error) {
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		return nil, err
	}
	if err := home.Create(); err != nil {
		return nil, fmt.Errorf("make the home: %w", err)
	}
	files := soul.New(soul.Options{Dir: home.Soul()})
	return files, files.Seed()
}

// partArg reads the name of a part, soul by default.
func partArg(args []string) string {
	if len(args) == 0 {
		return soul.Soul
	}
	return strings.TrimSuffix(args[0], ".md")
}

func soulShowCommand() *cobra.Command {
	c := &cobra.Command{Use: "show [PART]", Short: "What the soul says: soul, persona, taste and heartbeat, or one of them",
		Args: cobra.MaximumNArgs(1), ValidArgs: soul.Parts}
	asJSON := jsonFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		files, err := soulFiles()
		if err != nil {
			return err
		}
		parts := soul.Parts
		if len(args) > 0 {
			parts = []string{partArg(args)}
		}
		all := map[string]string{}
		for _, part := range parts {
			path, err := files.Path(part)
			if err != nil {
				return usage("%w", err)
			}
			text, note := files.Text(part)
			all[part] = text
			if *asJSON {
				continue
			}
			fmt.Fprintf(c.OutOrStdout(), "# %s\n\n%s\n\n", tui.Safe(path), tui.Safe(text))
			if note != "" {
				fmt.Fprintln(c.ErrOrStderr(), "note: "+tui.Safe(note))
			}
		}
		if *asJSON {
			return printJSON(c.OutOrStdout(), all)
		}
		return nil
	}
	return c
}

func soulEditCommand() *cobra.Command {
	return &cobra.Command{Use: "edit [PART]", Short: "Edit a part with $VISUAL or $EDITOR; it counts from the next turn on",
		Args: cobra.MaximumNArgs(1), ValidArgs: soul.Parts,
		RunE: func(c *cobra.Command, args []string) error {
			files, err := soulFiles()
			if err != nil {
				return err
			}
			path, err := files.Path(partArg(args))
			if err != nil {
				return usage("%w", err)
			}
			editor := os.Getenv("VISUAL")
			if editor == "" {
				editor = os.Getenv("EDITOR")
			}
			words := strings.Fields(editor)
			if len(words) == 0 {
				return &mercury.Error{Kind: mercury.Setup, Err: errors.New("no editor is set"), Help: "Set EDITOR, or edit " + path + " with any program."}
			}
			run := exec.CommandContext(c.Context(), words[0], append(words[1:], path)...)
			run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
			if err := run.Run(); err != nil {
				return fmt.Errorf("edit %s: %w", path, err)
			}
			if _, note := files.Text(partArg(args)); note != "" {
				fmt.Fprintln(c.ErrOrStderr(), "note: "+tui.Safe(note))
			}
			return nil
		}}
}

func soulDiffCommand() *cobra.Command {
	return &cobra.Command{Use: "diff [PART]", Short: "What differs from the soul Mercury begins with", Args: cobra.MaximumNArgs(1), ValidArgs: soul.Parts,
		RunE: func(c *cobra.Command, args []string) error {
			files, err := soulFiles()
			if err != nil {
				return err
			}
			parts := soul.Parts
			if len(args) > 0 {
				parts = []string{partArg(args)}
			}
			for _, part := range parts {
				path, err := files.Path(part)
				if err != nil {
					return usage("%w", err)
				}
				text, _ := files.Text(part)
				if text != "" {
					text += "\n"
				}
				if d := udiff.Unified("default/"+part+".md", path, soul.Default(part), text); d != "" {
					fmt.Fprint(c.OutOrStdout(), tui.Safe(d))
				}
			}
			return nil
		}}
}
