package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
	"github.com/zkrecipes/zkrecipes/conn"
)

// app is what all verbs share: the global flags, the standard streams and the signals.
type app struct {
	in       *os.File
	out, err *os.File

	connect connectFlags
	output  outputFlags
	log     *slog.Logger     // messages for people, on standard error
	signals *signals.Signals // caught from the start
}

func newApp(in, out, err *os.File) *app {
	return &app{in: in, out: out, err: err, log: slog.New(slog.DiscardHandler), signals: signals.Catch()}
}

// newRoot builds the command tree.
//
// Each verb lives in a file named after it, with a function newVerb(a *app) *cobra.Command that the list below calls.
// The function sets Use, Short, Example (which help shows first), Long, Args and RunE. Flags are local to the verb and
// are read into a struct next to the function. Every flag can also be set by ZKR_NAME in the environment, unless noEnv
// requires it on the command line. RunE
//
//   - gets a context that ends with SIGINT, SIGTERM and the like,
//   - dials with a.dial(ctx) and closes the client,
//   - prints results with a.print, which handles the formats of -o, and messages with a.log,
//   - returns an error: usagef for wrong arguments, exitWith for a specific code, any other error otherwise; exitCode
//     maps errors to codes.
func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "zkr",
		Short: "Run programs under locks in ZooKeeper, or as the leader, and show who holds what",
		Example: `  zkr lock --servers zk1,zk2,zk3 /jobs/nightly -- nightly --full
  zkr elect /app/leader -- serve
  zkr leader /app/leader`,
		Long: `zkr acquires a lock in ZooKeeper, runs a program, and releases the lock when the program and everything
that it has started have ended. If the lock is about to be lost, zkr stops the program before another
holder can get it.

Flags can also be set in the environment: --session-timeout by ZKR_SESSION_TIMEOUT. The command line
takes precedence; --try also overrides ZKR_WAIT. Flags that name a particular lock, or that delete
something, must be on the command line.

Exit status: the program's (128+n if signal n killed it), or
  64  wrong usage                        79  the lock was lost, and the program was stopped
  66  zkr held cannot tell              124  --max-run exceeded
  69  no server reached                 125  any other failure of zkr
  75  busy, see --busy-status           126  the program cannot be executed; 127 it was not found
  77  credentials or access refused
  128+n  signal n arrived before the program was started
--own-status maps the statuses of zkr to other numbers, so that none can be mistaken for the program's.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noVerb,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	a.connect.add(root.PersistentFlags())
	a.output.add(root.PersistentFlags())
	root.SetHelpTemplate(helpTemplate)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SuggestionsMinimumDistance = 2 // letters
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Usagef("%v: see zkr help%s", err, strings.TrimPrefix(cmd.CommandPath(), root.Name()))
	})
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) }
	root.AddCommand(
		newLock(a), newRLock(a), newWLock(a), newSem(a), newElect(a), newShard(a), newRegister(a),
		newLeader(a), newWait(a), newCheck(a), newHeld(a), newLimit(a), newInstances(a),
		newStatus(a), newRevoke(a), newBreak(a), newServe(a), newDoctor(a),
		newMan(a), newVersion(a),
	)
	a.completePaths(root)
	strictDefaults(root)
	return root
}

// packaged is the version of the package that contains zkr, set by the linker.
var packaged string

// release returns the version of the package or, without one, of the module from which zkr was built.
func release() string {
	module := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		module = cmp.Or(packaged, info.Main.Version, module)
	}
	return module
}

const platform = runtime.GOOS + "/" + runtime.GOARCH

func version() string { return fmt.Sprintf("%s (%s %s)", release(), runtime.Version(), platform) }

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  zkr version", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			line := "zkr version " + version()
			if a.output.format == "value" {
				line = release()
			}
			return a.print(table{
				rows: [][]string{{line}},
				json: map[string]string{"version": release(), "go": runtime.Version(), "platform": platform},
			})
		},
	}
}

// strictDefaults makes the verbs that cobra adds reject unknown arguments.
func strictDefaults(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, verb := range root.Commands() {
		switch verb.Name() {
		case "help":
			verb.Example = "  zkr help lock"
			verb.Args = func(_ *cobra.Command, args []string) error {
				_, rest, err := root.Find(args)
				return cmp.Or(err, noVerb(root, rest))
			}
		case "completion":
			verb.Example = "  zkr completion bash >/etc/bash_completion.d/zkr"
			verb.Args = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return exit.Usagef("unknown shell %q: want bash, zsh, fish or powershell", args[0])
				}
				return nil
			}
			verb.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

const helpTemplate = `{{.Short}}
{{if .HasExample}}
Examples:
{{.Example}}
{{end}}{{with .Long}}
{{. | trimTrailingWhitespaces}}
{{end}}
{{.UsageString}}`

// run executes the command line and returns the exit status.
func (a *app) run(args []string) int {
	root := a.newRoot()
	help := &faithful{Writer: a.out}
	root.SetOut(help)
	root.SetArgs(args)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), `{{if .HasExample}}

Examples:
{{.Example}}{{end}}`, ""))
	err := root.ExecuteContext(context.Background())
	if err == nil {
		err = help.err
	}
	code, message := exit.Status(err)
	if a.output.own == nil { // flag parsing stopped early
		a.output.own = ownStatus(args)
	}
	if a.output.log == "auto" { // as above
		a.output.log = cmp.Or(typedFlag(args, "log"), os.Getenv("ZKR_LOG"))
	}
	if own, mapped := a.output.own[code]; mapped && code != 0 && !exit.IsProgram(err) {
		code = own
	}
	if message != "" {
		a.sayLast(code, message)
	}
	return code
}

// faithful is a writer that remembers its first error. cobra only prints errors of writing help.
type faithful struct {
	io.Writer
	err error
}

func (f *faithful) Write(p []byte) (int, error) {
	if _, err := f.Writer.Write(p); f.err == nil {
		f.err = err
	}
	return len(p), nil
}

// sayLast prints the final message, as JSON if the log is JSON: such a log contains only JSON lines.
func (a *app) sayLast(code int, message string) {
	if a.output.log == "json" {
		if log, err := a.output.logger(a.err); err == nil {
			log.Error(message, "status", code)
			return
		}
	}
	// If this fails, there is nowhere left to report it.
	_, _ = fmt.Fprintf(a.err, "zkr: %s\n", plainLines(exit.AsFlags.Replace(message)))
}

// prepare applies the environment to the flags and sets up logging.
func (a *app) prepare(cmd *cobra.Command) error {
	if err := readEnv(cmd); err != nil {
		return exit.Usagef("%v", err)
	}
	_, a.output.service = cmd.Annotations[service]
	if _, looks := cmd.Annotations[looks]; looks && !cmd.Flags().Changed("connect-timeout") {
		a.connect.within = duration(10 * time.Second) // a person is waiting for the answer
	}
	log, err := a.output.logger(a.err)
	if err != nil {
		return err
	}
	a.log = log
	unknown, unread := unknownVariables(cmd.Root(), os.Environ())
	for _, name := range unknown {
		a.log.Warn("ignoring this variable: there is no flag of that name", "variable", name)
	}
	for _, name := range unread {
		a.log.Warn("ignoring this variable: its flag must be on the command line", "variable", name)
	}
	return nil
}

// exclusive are pairs of flags that contradict each other.
var exclusive = [][2]string{
	{"try", "wait"},
	{"busy-ok", "busy-status"},
	{"on-loss", "loss-grace"},
	{"once", "restart"},
	{"leader", "queue"},
	{"quiet", "verbose"},
}

// contradicted returns the flag that contradicts a given one, or nil. The default of a flag contradicts nothing.
func contradicted(flags *pflag.FlagSet, name string) *pflag.Flag {
	for _, pair := range exclusive {
		for i := range pair {
			other := flags.Lookup(pair[1-i])
			if pair[i] == name && other != nil && other.Changed && other.Value.String() != other.DefValue {
				return other
			}
		}
	}
	return nil
}

// readEnv sets flags from the environment, unless they or those that they contradict were given on the command line. It
// returns an error if two flags contradict each other.
func readEnv(cmd *cobra.Command) error {
	var errs []error
	typed := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { typed[f.Name] = true })
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := envName(f)
		value, set := os.LookupEnv(name)
		if name == "ZKR_ID" && os.Getenv("ZKR_DEPTH") != "" {
			return // an outer zkr has set its own name
		}
		other := contradicted(cmd.Flags(), f.Name)
		if name == "" || !set || f.Changed || other != nil && typed[other.Name] {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s=%s: %w", name, value, err))
		}
	})
	cmd.Flags().Visit(func(f *pflag.Flag) {
		other := contradicted(cmd.Flags(), f.Name)
		if other != nil && f.Name < other.Name && f.Value.String() != f.DefValue {
			errs = append(errs, fmt.Errorf("--%s and --%s: use only one of them", f.Name, other.Name))
		}
	})
	return errors.Join(errs...)
}

// service annotates long-running verbs.
const service = "service"

// looks annotates read-only verbs.
const looks = "looks"

const withoutEnv = "without-env"

// envName returns the variable that sets a flag, or "" if there is none.
func envName(f *pflag.Flag) string {
	if _, without := f.Annotations[withoutEnv]; without || f.Name == "help" || f.Name == "version" {
		return ""
	}
	return variable(f)
}

// variable returns the name of the variable that belongs to a flag, even if the flag is not read from it.
func variable(f *pflag.Flag) string {
	return "ZKR_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// noEnv excludes flags of the verb from the environment.
func noEnv(cmd *cobra.Command, flags ...string) {
	for _, name := range flags {
		f := cmd.Flags().Lookup(name)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[withoutEnv] = nil
	}
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef("unexpected argument %q", args[0])
	}
	return nil
}

// onePath validates the arguments of verbs that take one PATH.
func onePath(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.Usagef("want one PATH such as /app/lock; got %s", words(args))
	}
	return validPaths(args...)
}

// validPaths catches typos before any server is contacted: if none answered, a typo would look like an outage.
func validPaths(paths ...string) error {
	for _, path := range paths {
		if err := conn.ValidatePath(path); err != nil {
			return exit.With(exit.Usage, err)
		}
	}
	return nil
}

// words formats arguments for people.
func words(args []string) string {
	if len(args) == 0 {
		return "none"
	}
	return fmt.Sprintf("%q", args)
}

func noVerb(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		hint := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = fmt.Sprintf(" did you mean %s?", strings.Join(near, " or "))
		}
		return exit.Usagef("unknown verb %q:%s %s help lists them", args[0], hint, cmd.Name())
	}
	return nil
}
