// Command console schedules cron jobs for a cluster on nothing but PostgreSQL, and serves the web console in which
// operators watch it and retry a failed Run.
//
// This package is the one place that reads the environment, opens pools, puts the parts together and exits. Each
// command has a file; server.go owns the gates that serve and dev pass through before they admit anything.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// version is set by the linker.
var version = "dev"

// Exit codes: a failure while doing what was asked, and a request that could not be understood or accepted.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, env{args: os.Args[1:], getenv: os.Getenv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr})
	stop()
	os.Exit(code)
}

// env is what the operating system gives the process.
type env struct {
	args   []string
	getenv func(string) string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

// cli is every command and option, and the source of --help and docs/configuration.md.
type cli struct {
	Dev      devCmd      `cmd:"" help:"Run everything on this machine: PostgreSQL, scheduler, executor, console and a sample project."`
	Serve    serveCmd    `cmd:"" help:"Run one replica: the scheduler, its probes and its metrics."`
	Migrate  migrateCmd  `cmd:"" help:"Prepare the database: roles, schema, migrations."`
	Check    checkCmd    `cmd:"" help:"Pass every start-up gate of every role, one line each, with the remedy."`
	Apply    applyCmd    `cmd:"" help:"Publish a manifest of projects, tasks and triggers."`
	Grant    grantCmd    `cmd:"" help:"Give a user a role in a project."`
	Revoke   revokeCmd   `cmd:"" help:"Take a user's role in a project away."`
	Bindings bindingsCmd `cmd:"" help:"List who has which role in which project."`
	User     userCmd     `cmd:"" help:"Disable or enable a user, or sign everybody out."`
	Audit    auditCmd    `cmd:"" help:"Print what was allowed and denied, newest first."`
	Next     nextCmd     `cmd:"" help:"Print the next occurrences of a cron expression, as UTC instants."`
	Config   configCmd   `cmd:"" help:"Print every command, option and variable as Markdown."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

// usageError is wrong usage or input: exit 2, and nothing was done.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// run parses the arguments, runs the command and returns the exit code. It returns when everything it started has ended.
func run(ctx context.Context, e env) int {
	var c cli
	exited := false
	parser, err := newParser(&c, e, func(int) { exited = true })
	if err != nil {
		fmt.Fprintln(e.stderr, "console:", err)
		return exitFailure
	}
	command, err := parser.Parse(e.args)
	if exited { // --help was printed
		return 0
	}
	if err != nil {
		fmt.Fprintf(e.stderr, "console: %v (try --help)\n", err)
		return exitUsage
	}
	command.BindTo(ctx, (*context.Context)(nil))
	return exitCode(e.stderr, command.Run(e))
}

func newParser(c *cli, e env, exit func(int)) (*kong.Kong, error) {
	return kong.New(c, kong.Name("console"), kong.Description("A cron scheduler and console for a cluster, on nothing but PostgreSQL."),
		kong.Writers(e.stdout, e.stderr), kong.Exit(exit), kong.DefaultEnvars("CONSOLE"),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}))
}

func exitCode(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "console:", explainConnect(err))
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailure
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(e env) error {
	_, err := fmt.Fprintln(e.stdout, version)
	return err
}
