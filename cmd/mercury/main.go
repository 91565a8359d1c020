// Command mercury is a personal agent that runs day and night.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mercury-agent/mercury/internal/config"
	"github.com/mercury-agent/mercury/internal/mercury"
	"github.com/mercury-agent/mercury/internal/sandbox"
	"github.com/mercury-agent/mercury/internal/store/homelock"
	"github.com/mercury-agent/mercury/internal/tui"
)

// version is set when the program is built.
var version = "dev"

// Exit codes. Scripts and service units rely on them.
const (
	exitFailed   = 1
	exitUsage    = 2
	exitSetup    = 3 // not configured
	exitApproval = 4 // needs an approval, or was denied
	exitWorking  = 5 // still working when the time ran out
	exitTaken    = 6 // another runtime owns this home
	exitFindings = 7 // doctor found something to do
	exitParked   = 8 // it crashed too often, and is not started again by itself
)

// exit is an error that names its exit code. A silent one has been told
// already.
type exit struct {
	code   int
	silent bool
	err    error
}

func (e *exit) Error() string { return e.err.Error() }
func (e *exit) Unwrap() error { return e.err }

// usage is a mistake in how a command was called.
func usage(format string, a ...any) error {
	return &exit{code: exitUsage, err: fmt.Errorf(format, a...)}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == sandbox.Subcommand {
		return sandbox.Main(args[1:])
	}
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var e *exit
	if !errors.As(err, &e) {
		e = &exit{code: codeOf(err), err: err}
	}
	if !e.silent && !(ctx.Err() != nil && errors.Is(err, context.Canceled)) {
		fmt.Fprintln(stderr, "mercury: "+tui.Safe(message(err)))
	}
	return e.code
}

// codeOf is the exit code of an error that names none.
func codeOf(err error) int {
	var held *homelock.HeldError
	switch {
	case errors.As(err, &held):
		return exitTaken
	case mercury.KindOf(err) == mercury.Setup:
		return exitSetup
	case mercury.KindOf(err) == mercury.Denied:
		return exitApproval
	}
	return exitFailed
}

// message is an error for the person at the terminal, with what to do next.
func message(err error) string {
	var problems config.Problems
	if errors.As(err, &problems) {
		lines := make([]string, len(problems))
		for i, p := range problems {
			lines[i] = p.String()
		}
		return "the configuration has mistakes\n" + strings.Join(lines, "\n")
	}
	text := err.Error()
	if help := mercury.HelpOf(err); help != "" && !strings.Contains(text, help) {
		text += "\n" + help
	}
	return text
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "mercury",
		Short: "A personal agent that runs day and night",
		Long: `Mercury is a personal agent that runs day and night. Without a command it opens
the conversation in this terminal, starting the runtime if none runs.

  mercury demo     see it work: no key, no account, under a minute
  mercury ask …    one question, one answer
  mercury start    run in the background; other commands and programs attach

Exit codes: 0 done, 1 failed, 2 usage, 3 not configured, 4 a decision is needed
or was no, 5 still working, 6 another Mercury owns this home, 7 the doctor found
something to do, 8 it crashed too often to be started again by itself.`,
		Args:          noArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          chat,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usage("%w\n%s --help shows how", err, c.CommandPath())
	})
	root.AddCommand(
		askCommand(), serveCommand(), upCommand(), startCommand(), stopCommand(), restartCommand(), logsCommand(), demoCommand(), setupCommand(), statusCommand(),
		conversationsCommand(), runsCommand(), deliveriesCommand(), questionsCommand(),
		undoCommand(), backgroundCommand(), schedulesCommand(), usageCommand(), memoryCommand(), soulCommand(), skillsCommand(), configCommand(), modelsCommand(), permissionsCommand(), mcpCommand(),
		importCommand(), exportCommand(), backupCommand(), dbCommand(), doctorCommand(), versionCommand(),
	)
	root.CompletionOptions.HiddenDefaultCmd = false
	return root
}

// helper is the path of this program, by which it starts fenced commands.
func helper() string {
	path, err := os.Executable()
	if err != nil {
		return "" // status says that there is no fence
	}
	return path
}

// noArgs is cobra.NoArgs with the exit code of a usage error and a suggestion.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !c.HasSubCommands() {
		return usage("%s takes no arguments, but %q was given\n%s --help shows how", c.CommandPath(), args[0], c.CommandPath())
	}
	text := fmt.Sprintf("there is no command %q", args[0])
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usage("%s\n%s --help lists what there is", text, c.CommandPath())
}

// exactArgs wants n arguments, named in the usage line.
func exactArgs(n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("usage: %s", c.UseLine())
		}
		return nil
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Print the version", Args: noArgs, RunE: func(c *cobra.Command, _ []string) error {
		_, err := fmt.Fprintln(c.OutOrStdout(), "mercury "+version)
		return err
	}}
}
