package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
)

type statusFlags struct {
	recursive, watch bool
	stuck, interval  duration
	sent             *atomic.Int64 // requests of the client
	ahead            time.Duration // how far the servers' clock is ahead of the local one
}

func newStatus(a *app) *cobra.Command {
	flags := statusFlags{interval: duration(time.Second), sent: new(atomic.Int64)}
	counts := &zkrecipes.Tracer{Request: func(context.Context, zkrecipes.Request) { flags.sent.Add(1) }}
	cmd := &cobra.Command{
		Annotations: map[string]string{looks: ""},
		Use:         "status [flags] PATH...",
		Short:       "Show who holds a lock or a shard, who waits, and what blocks them",
		Example: `  zkr status /jobs/nightly
  zkr status -r /
  zkr status -r --stuck 10m / || alert
  zkr status --watch -r /jobs
  zkr status /app/partitions
  zkr status -o value -r /   # path, tab, verdict
  zkr status -o json -r / | jq '.queues[] | select(.verdict != "held")'`,
		Long: `status shows the contenders at PATH, or with -r one line for each queue at and below PATH that has
contenders. It recognizes mutexes, read-write locks, semaphores and elections, including those in the
layouts of Curator and kazoo.

If PATH has shards of recipes/shard, status shows the owner of each shard and the members, or with -r
one line for all of them. The lock of a shard only has a line of its own if there is a problem with it.
A shard is
  owned      its member has its lock           moving    a member other than the planned one has it, and will stop
  waiting    no member has its lock, and the planned one is about to acquire it
  away       it waits for its member, which is restarting
  nobody     there is no member for it
The verdict is that of the shard in the worst state, from "nobody" down to "owned", or "no plan".

Ages count from when a contender joined the queue: a holder may have waited for part of that time. To
allow for a difference between the clocks of the servers and of this machine, status creates an
ephemeral node /zkr-clock-... and deletes it, if zkr may; with -o json and -o value it does so only if
--stuck is given, so that a script that polls only reads. Verdicts are
  held          a contender holds it          free   there is no contender
  stuck behind  see --stuck                   ghost  a contender that does not leave when its process ends
  foreign node  of no recipe that zkr knows   mixed  recipes that do not exclude each other share the path
  revoke asked  the holder was asked to release it
  exhausted     the sequence numbers have run out

With -r, nodes that ACLs make unreadable are left out, and standard error reports them. With --stuck
the exit status is 1 if there is a queue to show. With -o value, a single PATH prints its verdict;
several, or -r, print path, tab and verdict for each queue.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("want a PATH")
			}
			return validPaths(args...)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.connected(cmd, func(ctx context.Context, client *conn.Client) error {
				return a.status(ctx, client, args, flags)
			}, conn.WithTracer(counts))
		},
	}
	cmd.Flags().BoolVarP(&flags.recursive, "recursive", "r", false, "also show the queues below PATH, one line each")
	cmd.Flags().BoolVar(&flags.watch, "watch", false, "keep running and refresh the view")
	cmd.Flags().Var(&flags.interval, "interval", "pause between two views with --watch")
	cmd.Flags().Var(&flags.stuck, "stuck", "only show queues whose first waiter has waited this long")
	return cmd
}

// snapshot is what -o json prints.
type snapshot struct {
	AsOf     time.Time       `json:"as_of"`
	Requests int64           `json:"requests"`
	Queues   []*survey.Queue `json:"queues"`
	Shards   []shardsView    `json:"shards,omitempty"`
	// Forbidden are the nodes that -r left out because the client may not read them.
	Forbidden []string `json:"forbidden,omitempty"`
}

// longestPause bounds the pause between two views with --watch, unless --interval is longer.
const longestPause = 5 * time.Minute

// tellOutages reports each loss of the connection, after which the last view may be old, until ctx ends.
func (a *app) tellOutages(ctx context.Context, client *conn.Client) {
	connected := true
	for state := range client.States(ctx) {
		if connected && state != zkrecipes.Connected {
			a.log.Warn("no connection: the last view may be old")
		}
		connected = state == zkrecipes.Connected
	}
}

func (a *app) status(ctx context.Context, client *conn.Client, paths []string, flags statusFlags) error {
	if flags.watch {
		watching, stop := context.WithCancel(ctx)
		var telling sync.WaitGroup
		defer telling.Wait()
		defer stop()
		telling.Go(func() { a.tellOutages(watching, client) })
	}
	ages := flags.stuck > 0 || a.output.format == "table"
	var compared time.Time
	for {
		if ages && time.Since(compared) > 10*time.Minute {
			compared = time.Now()
			if clock, err := survey.CompareClocks(ctx, client); err == nil {
				flags.ahead = clock.Certain()
			}
		}
		before := flags.sent.Load()
		view, err := look(ctx, client, paths, flags)
		if err != nil {
			return err
		}
		view.Requests = flags.sent.Load() - before
		if err := a.printStatus(view, flags, len(paths) > 1); err != nil {
			return err
		}
		if !flags.watch {
			if len(view.Queues)+len(view.Shards) == 0 {
				return a.tellNothing(paths, flags)
			}
			if flags.stuck > 0 && len(view.Queues) > 0 {
				return exit.With(1, nil)
			}
			return nil
		}
		// Reading a large subtree takes at most a tenth of the time, so that the servers stay available to others. An outage
		// in the middle of it does not count beyond the longest pause.
		pause := time.NewTimer(max(time.Duration(flags.interval), min(9*time.Since(view.AsOf), longestPause)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
}

// tellNothing reports that there is nothing to show. With --stuck that is good news, and is only logged.
func (a *app) tellNothing(paths []string, flags statusFlags) error {
	where := "at " + strings.Join(paths, ", ")
	if flags.recursive {
		where = "at or below " + strings.Join(paths, ", ")
	}
	switch {
	case flags.stuck > 0:
		a.log.Info("no queue " + where + " is stuck")
	case a.output.format == "table":
		_, err := fmt.Fprintln(a.out, survey.Plain("no contenders "+where))
		return err
	}
	return nil
}

// look reads the queues at or below paths.
func look(ctx context.Context, client *conn.Client, paths []string, flags statusFlags) (snapshot, error) {
	reader := &survey.Reader{Client: client, Stuck: time.Duration(flags.stuck), SkipForbidden: true, Ahead: flags.ahead}
	view := snapshot{Queues: []*survey.Queue{}}
	for _, path := range paths {
		if flags.recursive {
			queues, err := reader.Below(ctx, path)
			if err != nil {
				return view, err
			}
			view.Queues = append(view.Queues, queues...)
			continue
		}
		queue, err := reader.Path(ctx, path)
		if err != nil {
			return view, err
		}
		view.Queues = append(view.Queues, queue)
	}
	view.AsOf, view.Forbidden = reader.AsOf(), reader.Forbidden()
	if flags.stuck > 0 {
		view.Queues = slices.DeleteFunc(view.Queues, func(q *survey.Queue) bool { return !q.Has(survey.Stuck) })
		return view, nil
	}
	for _, path := range reader.Shards() {
		switch shards, err := readShards(ctx, client, path, flags.ahead); {
		case flags.recursive && errors.Is(err, zk.ErrNoAuth):
			view.Forbidden = append(view.Forbidden, path)
		case err != nil:
			return view, err
		default:
			view.Shards = append(view.Shards, shards)
			view.Queues = slices.DeleteFunc(view.Queues, shards.tells)
		}
	}
	return view, nil
}

func (a *app) printStatus(view snapshot, flags statusFlags, several bool) error {
	if n := len(view.Forbidden); n > 0 {
		a.log.Warn("not shown: the ACL does not grant read, see --auth-file", "nodes", view.Forbidden[:min(n, 5)],
			"of", n)
	}
	if a.output.format != "table" {
		t := table{json: view}
		row := func(path, verdict string) {
			if several || flags.recursive {
				t.values, t.rows = 2, append(t.rows, []string{path, verdict})
			} else {
				t.rows = append(t.rows, []string{verdict})
			}
		}
		for _, q := range view.Queues {
			row(q.Path, q.Verdict)
		}
		for _, s := range view.Shards {
			row(s.Path, s.Verdict)
		}
		return a.print(t)
	}
	var text bytes.Buffer
	if flags.watch {
		if isTerminal(a.out) {
			text.WriteString("\x1b[H\x1b[2J\x1b[3J") // home the cursor and clear the screen
		}
		fmt.Fprintf(&text, "%s: %d queues\n\n", view.AsOf.UTC().Format(time.RFC3339), len(view.Queues)+len(view.Shards))
	}
	if flags.recursive {
		var lines bytes.Buffer
		view.writeLines(&lines)
		text.WriteString(plainLines(lines.String()))
		_, err := a.out.Write(text.Bytes())
		return err
	}
	var parts []string
	for _, q := range view.Queues {
		var queue bytes.Buffer
		writeQueue(&queue, q, view.AsOf)
		parts = append(parts, plainLines(queue.String()))
	}
	for _, s := range view.Shards {
		var shards bytes.Buffer
		s.write(&shards, view.AsOf)
		parts = append(parts, plainLines(shards.String()))
	}
	text.WriteString(strings.Join(parts, "\n"))
	_, err := a.out.Write(text.Bytes())
	return err
}

// writeLines writes a line for each queue: its holder, its waiters and other findings.
func (v *snapshot) writeLines(w io.Writer) {
	if len(v.Queues)+len(v.Shards) == 0 {
		return
	}
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	// Errors are ignored here and below, because w is a buffer.
	_, _ = fmt.Fprintln(columns, "PATH\tKIND\tVERDICT\tHOLDER\tAGE\tWAITING\tLONGEST\tFINDINGS")
	for _, q := range v.Queues {
		holder, age, longest := "-", "-", "-"
		if len(q.Holders) > 0 {
			holder, age = q.Holders[0].Name(), survey.Round(v.AsOf.Sub(q.Holders[0].Since)).String()
			if others := len(q.Holders) - 1; others > 0 {
				holder = fmt.Sprintf("%s and %d more", holder, others)
			}
		}
		if len(q.Waiters) > 0 {
			longest = survey.Round(v.AsOf.Sub(q.Waiters[0].Since)).String()
		}
		var said []string
		for _, f := range q.Findings {
			// The other columns show those.
			if f.Verdict != survey.Held && f.Verdict != survey.Free && f.Verdict != survey.Stuck {
				said = append(said, f.Words)
			}
		}
		if more := len(said) - 1; more > 0 {
			said = append(said[:1], fmt.Sprintf("and %d more", more))
		}
		_, _ = fmt.Fprintln(columns, strings.Join([]string{
			q.Path, kindOf(q), q.Verdict, holder, age, strconv.Itoa(len(q.Waiters)), longest, orDash(strings.Join(said, ", ")),
		}, "\t"))
	}
	for _, s := range v.Shards {
		_, _ = fmt.Fprintln(columns, strings.Join([]string{s.Path, "shards", s.Verdict, "-", "-", "-", "-", s.Words}, "\t"))
	}
	_ = columns.Flush()
}

// kindOf returns the kind of a queue, and its layout unless that is Curator's.
func kindOf(q *survey.Queue) string {
	if q.Layout != "" && q.Layout != "curator" {
		return q.Kind + " of " + q.Layout
	}
	return q.Kind
}

// writeQueue writes a queue for people: the findings, then a line for each contender.
func writeQueue(w io.Writer, q *survey.Queue, now time.Time) {
	_, _ = fmt.Fprintln(w, headline(q))
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(q.Contenders()) > 0 {
		_, _ = fmt.Fprintln(columns, "  PLACE\tMODE\tID\tHOST\tPROCESS\tAGE\tSINCE\tTOKEN\tSESSION")
	}
	for _, c := range q.Contenders() {
		_, _ = fmt.Fprintln(columns, "  "+strings.Join(contenderRow(c, now), "\t"))
	}
	_ = columns.Flush() // into a buffer
}

// headline summarizes the findings of a queue.
func headline(q *survey.Queue) string {
	what := ""
	if q.Kind != "unknown" {
		what = " (" + kindOf(q) + ")"
	}
	waiting := ""
	if n := len(q.Waiters); n > 0 {
		waiting = fmt.Sprintf(", %d waiting", n)
	}
	said := make([]string, 0, len(q.Findings))
	for _, f := range q.Findings {
		said = append(said, f.Words)
	}
	// There may be many ghosts, each with a finding: the first five are enough.
	if more := len(said) - 5; more > 0 {
		said = append(said[:5], fmt.Sprintf("and %d more findings, see -o json", more))
	}
	return fmt.Sprintf("%s%s: %s%s", q.Path, what, strings.Join(said, "; "), waiting)
}

// contenderRow returns the row of a contender: its place, its mode and so on.
func contenderRow(c *survey.Contender, now time.Time) []string {
	place := "holds"
	switch {
	case c.Mode == "foreign":
		place = "?"
	case c.Place > 0:
		place = strconv.Itoa(c.Place)
	}
	id := c.Name()
	if !c.Asked.IsZero() {
		id = orDash(c.ID)
	}
	return []string{
		place, c.Mode, id, orDash(c.Host), processOf(c), survey.Round(now.Sub(c.Since)).String(),
		c.Since.UTC().Format(time.RFC3339), strconv.FormatInt(c.Token, 10), orDash(c.Session),
	}
}

func processOf(c *survey.Contender) string {
	if c.Process == 0 {
		return "-"
	}
	return strconv.Itoa(c.Process)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
