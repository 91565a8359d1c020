package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/permission"
)

func permissionsCommand() *cobra.Command {
	return group("permissions", "See what Mercury may do, give or take rights, and ask what it would decide",
		showRightsCommand(), allowCommand(), revokeCommand(), decisionsCommand(), checkCommand())
}

func checkCommand() *cobra.Command {
	var jsonl bool
	var dir, mode string
	var scopes []string
	c := &cobra.Command{
		Use:   "check [COMMAND]",
		Short: "Say what would be decided, touching nothing",
		Long: `Say what would be decided for the owner, without grants and without a tainted
text, and touch nothing.

With --jsonl each line of standard input is an object and each line printed its
verdict, {"id","verdict","rule","why"}:
  {"id","cmd"}                        auto, approve or blocked
  {"id","op":"read|write|delete","path"}  allow, ask or deny
  {"id","url","dns","redirects"}      allow, approve or deny; with dns no lookup is made
  {"id","screen":"text"}              show or suppress, with what is shown`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o, err := checkOptions(dir, mode, scopes)
			if err != nil {
				return err
			}
			checker := permission.NewChecker(o)
			if !jsonl {
				if len(args) != 1 {
					return usage("what should be checked? mercury permissions check COMMAND, or --jsonl with objects on standard input")
				}
				line, err := json.Marshal(map[string]string{"id": "command", "cmd": args[0]})
				if err != nil {
					return err
				}
				a, err := checker.Check(c.Context(), line)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s\nrule %s\n%s\n", a.Verdict, a.Rule, a.Why)
				return err
			}
			in := bufio.NewScanner(c.InOrStdin())
			in.Buffer(nil, 16<<20)
			out := json.NewEncoder(c.OutOrStdout())
			out.SetEscapeHTML(false)
			for n := 1; in.Scan(); n++ {
				if len(in.Bytes()) == 0 {
					continue
				}
				a, err := checker.Check(c.Context(), in.Bytes())
				if err != nil {
					return usage("line %d: %w", n, err)
				}
				if err := out.Encode(a); err != nil {
					return err
				}
			}
			return in.Err()
		},
	}
	f := c.Flags()
	f.BoolVar(&jsonl, "jsonl", false, "read JSON objects, a line each")
	f.StringVar(&dir, "cwd", "", "working directory (default the workspace)")
	f.StringArrayVar(&scopes, "scope", nil, "folder to judge by instead of the configured ones: PATH, or PATH:rw; may be repeated")
	f.StringVar(&mode, "mode", permission.ModeAsk, "ask, guided or allow-all")
	return c
}

func checkOptions(dir, mode string, scopes []string) (permission.CheckOptions, error) {
	home, err := config.FindHome(os.Getenv)
	if err != nil {
		return permission.CheckOptions{}, err
	}
	user, err := os.UserHomeDir()
	if err != nil {
		user = ""
	}
	o := permission.CheckOptions{Dir: dir, Mode: mode, Files: permission.Files{Home: home.Dir(), User: user},
		Resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}}
	if dir != "" {
		if o.Dir, err = filepath.Abs(dir); err != nil {
			return o, usage("working directory %s: %w", dir, err)
		}
	}
	for _, s := range scopes {
		scope := permission.ParseScope(s)
		if scope.Path, err = filepath.Abs(scope.Path); err != nil {
			return o, usage("scope %s: %w", s, err)
		}
		o.Scopes = append(o.Scopes, scope)
	}
	if dir != "" && len(scopes) > 0 {
		return o, nil
	}
	c, err := config.Load(config.Source{Home: home})
	if err != nil {
		return o, err
	}
	workspace := config.ExpandPath(c.Workspace)
	if dir == "" {
		o.Dir = workspace
	}
	if len(scopes) == 0 {
		for _, s := range c.Permissions.Scopes {
			o.Scopes = append(o.Scopes, mercury.Scope{Path: config.ExpandPath(s.Path), Read: s.Read, Write: s.Write})
		}
		if len(o.Scopes) == 0 {
			o.Scopes = []mercury.Scope{{Path: workspace, Read: true, Write: true}}
		}
	}
	return o, nil
}
