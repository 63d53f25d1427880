package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
)

func newMan(_ *app) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the manual pages",
		Example: `  zkr man /usr/local/share/man/man1`,
		Hidden:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usagef("want one DIRECTORY, got %q", args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writePages(cmd.Root(), args[0])
		},
	}
}

// writePages writes the page of a command and, recursively, those of its subcommands.
func writePages(cmd *cobra.Command, dir string) error {
	for _, verb := range cmd.Commands() {
		if verb.IsAvailableCommand() && !verb.IsAdditionalHelpTopicCommand() {
			if err := writePages(verb, dir); err != nil {
				return err
			}
		}
	}
	var page bytes.Buffer
	if err := doc.GenMan(cmd, &doc.GenManHeader{Title: "ZKR", Section: "1", Source: "zkrecipes"}, &page); err != nil {
		return err
	}
	text := page.String()
	if at := strings.Index(text, ".SH EXAMPLE"); at >= 0 {
		text = text[:at] + manSections(cmd) + text[at:]
	}
	return os.WriteFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"), []byte(text), 0o644)
}

// entry is a term and its meaning.
type entry struct{ term, meaning string }

// manSections returns the sections of a manual page that cobra does not write.
func manSections(cmd *cobra.Command) string {
	return section("EXIT STATUS", statuses(cmd)) + section("ENVIRONMENT", variables(cmd)) + section("FILES", files(cmd))
}

var inRoff = strings.NewReplacer(`\`, `\e`, "-", `\-`)

func section(title string, entries []entry) string {
	if len(entries) == 0 {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, ".SH %s\n", title)
	for _, e := range entries {
		fmt.Fprintf(&text, ".TP\n\\fB%s\\fP\n%s\n", inRoff.Replace(e.term), inRoff.Replace(e.meaning))
	}
	return text.String() + "\n"
}

// runsProgram reports whether a command runs a program, which the root command counts as; locks reports whether it does
// so under a lock.
func runsProgram(cmd *cobra.Command) bool {
	return cmd.Flags().Lookup("shell") != nil || !cmd.HasParent()
}
func locks(cmd *cobra.Command) bool { return runsProgram(cmd) && cmd.Name() != "register" }

// ownStatuses are the exit statuses of single verbs, in addition to those that all verbs share.
var ownStatuses = map[string][]entry{
	"held": {
		{"0", "The lock is proven at this moment."},
		{"66", "held cannot tell whether it is."},
		{"79", "The lock is lost or not proven."},
	},
	"check":  {{"0", "The holder is there."}, {"79", "It has gone."}},
	"status": {{"1", "With --stuck: a queue is shown."}},
	"wait":   {{"75", "--wait has elapsed."}},
	"leader": {{"1", "There is no candidate."}},
	"limit":  {{"1", "There is no such node to print."}},
	"revoke": {{"1", "There is no contender to ask."}},
	"break": {
		{"1", "There is no such contender, or the answer is no."},
		{"125", "--alive or --foreign is required, or any other failure of zkr."},
	},
	"doctor": {{"1", "There are findings."}},
}

func statuses(cmd *cobra.Command) []entry {
	all := slices.Clone(ownStatuses[cmd.Name()])
	switch {
	case cmd.Name() == "shard":
		all = append(all, entry{"0", "zkr has left, whatever the status of its programs."})
	case runsProgram(cmd):
		all = append(all,
			entry{"0-255", "The program's, or 128+n if signal n killed it, unless zkr exits with a status of its own."})
	case len(all) == 0 || all[0].term != "0":
		all = append([]entry{{"0", "Success."}}, all...)
	}
	unreached := "No server was reached within --connect-timeout."
	if cmd.Flags().Lookup("wait") != nil {
		unreached = "No server was reached within --connect-timeout, or none answered within --wait."
	}
	all = append(all, entry{"64", "Wrong usage."}, entry{"69", unreached},
		entry{"77", "The credentials were refused, or an ACL denies access."})
	if locks(cmd) && cmd.Name() != "shard" {
		all = append(all, entry{"75", "Another holder has the lock: see --try, --wait and --busy-status."},
			entry{"79", "The lock was lost, and the program was stopped."}, entry{"124", "--max-run was exceeded."})
	}
	if runsProgram(cmd) {
		all = append(all, entry{"126", "The program cannot be executed."}, entry{"127", "The program was not found."})
	}
	if !slices.ContainsFunc(all, func(e entry) bool { return e.term == "125" }) {
		all = append(all, entry{"125", "Any other failure of zkr."})
	}
	all = append(all, entry{"128+n", "Signal n arrived before there was a result."})
	slices.SortStableFunc(all, func(a, b entry) int { return a.number() - b.number() })
	return append(all, entry{"--own-status", "maps the statuses of zkr to other numbers."})
}

// number returns the number at the start of a status.
func (e entry) number() (n int) {
	_, _ = fmt.Sscan(e.term, &n) // each has one
	return n
}

// programVariables are the variables that zkr sets for the program.
var programVariables = []entry{
	{"ZKR_TOKEN", "In the program: the token, larger than all before. One line per path."},
	{"ZKR_PATH, ZKR_NODE", "In the program: the path of the lock, and the node of this holder. One line per path."},
	{"ZKR_KIND", "In the program: mutex, read, write, permit, leader or shard."},
	{"ZKR_ID, ZKR_SESSION", "In the program: the name of this holder, and its session."},
	{
		"ZKR_VALID_UNTIL",
		"In the program: until when the lock was proven when the program started. zkr held reports the current state.",
	},
	{"ZKR_STATE, ZKR_OUTER, ZKR_DEPTH", "In the program: for zkr held, and for a zkr that the program runs."},
	{"TMPDIR", "Where the directory of ZKR_STATE is created."},
}

func variables(cmd *cobra.Command) []entry {
	all := []entry{
		{
			"ZKR_...",
			"Sets the flag of that name: ZKR_SESSION_TIMEOUT sets --session-timeout. The command line takes precedence." +
				typed(cmd),
		},
		{"ZOOKEEPER_SERVERS", "The servers, if neither --servers nor ZKR_SERVERS is set."},
		{"KRB5_CONFIG, KRB5CCNAME", "With --kerberos: the configuration, and the cache of the ticket."},
	}
	switch {
	case locks(cmd):
		all = append(all, programVariables...)
		if cmd.Name() == "shard" {
			all = append(all, entry{"ZKR_SHARD", "In the program: the name of its shard."})
		}
	case cmd.Name() == "leader":
		all = append(all, entry{"ZKR_LEADER, ZKR_TOKEN", "In the command of --exec: the leader and its token, or 0."})
	case cmd.Name() == "held":
		all = append(all, entry{"ZKR_STATE", "The file to read, which zkr sets for its program."})
	case cmd.Name() == "check":
		all = append(all, entry{"ZKR_PATH, ZKR_TOKEN", "The defaults of --path and --token, which zkr sets for its program."})
	}
	return all
}

// typed names the flags of a verb that the environment cannot set.
func typed(cmd *cobra.Command) string {
	var names []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if envName(f) == "" && f.Name != "help" && f.Name != "version" {
			names = append(names, "--"+f.Name)
		}
	})
	if len(names) == 0 {
		return ""
	}
	return " These must be typed: " + strings.Join(names, ", ") + "."
}

func files(cmd *cobra.Command) []entry {
	all := []entry{
		{"--auth-file", "One line scheme:credential per credential; lines that start with # are ignored. " +
			"Only the user of zkr should be able to read it."},
		{
			"--tls-ca, --tls-cert, --tls-key, --kerberos-keytab",
			"These are read again for each connection, and may change while zkr runs.",
		},
		{"/etc/krb5.conf", "With --kerberos: the configuration, unless KRB5_CONFIG names another."},
	}
	if locks(cmd) {
		all = append(all,
			entry{"$TMPDIR/zkr-*/state", "Until when the lock is proven, for zkr held. zkr removes it when it ends."})
	}
	if cmd.Flags().Lookup("metrics-file") != nil {
		all = append(all,
			entry{
				"--metrics-file",
				"Metrics for the textfile collector of node_exporter; the next run keeps values that it does not update.",
			})
	}
	switch cmd.Name() {
	case "serve":
		all = append(all, entry{"--history", "The changes of holders that the page shows. Use one file per zkr serve."},
			entry{"--break-key-file", "The key of --allow-break, new at each start and readable only by its owner."},
			entry{
				"--http-token-file, --http-cert, --http-key, --http-client-ca",
				"These are read again whenever they are needed.",
			})
	case "elect":
		all = append(all, entry{"/usr/share/doc/zkr/examples/worker.service", "A systemd unit, included in the packages."})
	}
	return all
}
