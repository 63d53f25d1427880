package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
)

func newDoctor(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [PATH]",
		Short: "Check each server, and the queue at a path on each of them",
		Example: `  zkr doctor
  zkr doctor /jobs/nightly`,
		Long: `doctor asks each server for its version, role and limits, and opens a session on it. It compares the
clock of the ensemble with that of this machine, by means of an ephemeral node that exists at the root
for a moment. With a PATH it compares the contenders there on all servers: a contender that some
servers lack is a ghost. It also reports who may delete the contenders, since they can take the lock
away from its holder.

What a server reports depends on its 4lw.commands.whitelist, which by default only allows srvr. conf
reports the exact limits, and dump reports which sessions are alive.

Exit status: 0 if all is well, 1 if there are findings, 69 if no server grants a session within
--connect-timeout, which defaults to 5 s here.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("want one PATH at most, got %s", words(args))
			}
			return validPaths(args...)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, done := a.signals.Context(cmd.Context())
			defer done()
			if !cmd.Flags().Changed("connect-timeout") {
				a.connect.within = duration(serverPatience)
			}
			client, err := a.dialAny(ctx)
			if code, _ := exit.Status(err); code == exit.Unreachable { // the answers of the servers may explain why
				if broken := a.doctor(ctx, nil, args); broken != nil {
					return broken
				}
				return err
			}
			if err != nil {
				return err
			}
			defer client.Close()
			return a.doctor(ctx, client, args)
		},
	}
	return cmd
}

// examination is what doctor finds out about one server.
type examination struct {
	Server    string  `json:"server"`
	Version   string  `json:"version,omitempty"`
	Mode      string  `json:"mode,omitempty"`
	Zxid      string  `json:"zxid,omitempty"`
	Limits    string  `json:"limits,omitempty"` // on the session timeout
	RoundTrip float64 `json:"round_trip_seconds,omitempty"`
	TickTime  string  `json:"tick_time_ms,omitempty"`
	Error     string  `json:"error,omitempty"`

	found map[string]int64 // czxids of contenders by path
}

// diagnosis is the output of doctor.
type diagnosis struct {
	Servers  []*examination `json:"servers"`
	Clock    string         `json:"clock"`
	Findings []string       `json:"findings"`
	Access   []string       `json:"access,omitempty"` // who may delete contenders
	// Unknown is what the servers did not report, so that findings may be missing.
	Unknown string `json:"unknown,omitempty"`
}

// doctor examines the ensemble and prints the result. Without a client, it prints what the servers report without a
// session.
func (a *app) doctor(ctx context.Context, client *conn.Client, paths []string) error {
	addresses, chroot, err := a.servers(ctx)
	if err != nil {
		return exit.With(exit.Unreachable, err)
	}
	d := diagnosis{Findings: []string{}}
	var asking sync.WaitGroup
	for _, server := range addresses {
		e := &examination{Server: server}
		d.Servers = append(d.Servers, e)
		asking.Go(func() { a.examine(ctx, e, chroot, paths) })
	}
	asking.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.judgeServers()
	if client == nil {
		d.Clock = "not compared: no session"
		return a.printDiagnosis(d)
	}
	d.judgeTimeout(client.Status().Timeout)
	d.compareClocks(ctx, client)
	var unread error // does not make what the servers report less useful
	if len(paths) > 0 {
		unread = a.judgeQueue(ctx, client, &d, paths[0], chroot)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := cmp.Or(a.printDiagnosis(d), unread); err != nil {
		return err
	}
	if len(d.Findings) > 0 {
		return exit.With(1, nil)
	}
	return nil
}

// examine queries one server.
func (a *app) examine(ctx context.Context, e *examination, chroot string, paths []string) {
	role, err := a.word(ctx, e.Server, "srvr")
	switch {
	case errors.Is(err, errForbidden):
		e.Mode = "unknown"
	case err != nil:
		e.Error = err.Error()
		return
	}
	if strings.Contains(role, notServing) {
		e.Mode, e.Error = "not serving", noMajority
		return
	}
	e.Version, _, _ = strings.Cut(field(role, "Zookeeper version"), "-")
	e.Zxid = field(role, "Zxid")
	if mode := field(role, "Mode"); mode != "" {
		e.Mode = mode
	}
	client, err := a.dialOne(ctx, e.Server, chroot, conn.WithSessionTimeout(time.Hour)) // the server grants its maximum
	if err != nil {
		e.Error = err.Error()
		return
	}
	defer client.Close()
	e.Limits = fmt.Sprintf("up to %v", client.Status().Timeout)
	if conf, err := a.word(ctx, e.Server, "conf"); err == nil {
		e.TickTime = setting(conf, "tickTime")
		e.Limits = fmt.Sprintf("%s to %s ms, tick %s ms", setting(conf, "minSessionTimeout"),
			setting(conf, "maxSessionTimeout"), e.TickTime)
	}
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	start := time.Now()
	if err := client.Sync(ctx, "/"); err != nil {
		e.Error = fmt.Sprintf("no answer to a sync: %v", err)
		return
	}
	e.RoundTrip = time.Since(start).Seconds()
	for _, path := range paths {
		if e.found, err = contendersAt(ctx, client, path); err != nil {
			e.Error = err.Error()
		}
	}
}

// setting returns the value of the line name=value in an answer.
func setting(conf, name string) string {
	for line := range strings.Lines(conf) {
		if value, is := strings.CutPrefix(line, name+"="); is {
			return strings.TrimSpace(value)
		}
	}
	return "?"
}

func contendersAt(ctx context.Context, client *conn.Client, path string) (map[string]int64, error) {
	queue, err := (&survey.Reader{Client: client}).Path(ctx, path)
	if err != nil {
		return nil, err
	}
	found := map[string]int64{}
	for _, c := range queue.Contenders() {
		found[c.Node] = c.Token
	}
	return found, nil
}

func (d *diagnosis) find(format string, args ...any) {
	d.Findings = append(d.Findings, fmt.Sprintf(format, args...))
}

func (d *diagnosis) judgeServers() {
	versions, limits := map[string]bool{}, map[string]bool{}
	leaders, told, down := 0, 0, 0
	for _, e := range d.Servers {
		if e.Error != "" {
			d.find("%s: %s", e.Server, e.Error)
			down++
			continue
		}
		versions[e.Version], limits[e.Limits] = true, true
		if e.Mode != "unknown" {
			told++
		}
		if leads(e.Mode) {
			leaders++
		}
		if e.Mode == "read-only" {
			d.find("%s: it is read-only: it cannot reach a majority of the servers", e.Server)
		}
		if old(e.Version) {
			d.find("%s: version %s does not support containers, so empty parents of locks remain: upgrade to 3.5.3 or later",
				e.Server, e.Version)
		}
	}
	if leaders == 0 && told > 0 && told+down == len(d.Servers) {
		d.find("none of the servers is the leader: check that the connect string is complete")
	}
	if leaders > 1 {
		d.find("%d servers report that they lead: the connect string mixes several ensembles, or the leader has just changed",
			leaders)
	}
	if delete(versions, ""); len(versions) > 1 {
		d.find("the servers have different versions: %s", strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
	}
	if len(limits) > 1 {
		d.find("the servers have different session timeout limits: %s",
			strings.Join(slices.Sorted(maps.Keys(limits)), "; "))
	}
}

// judgeTimeout reports a session timeout with which a server that has lost the leadership may extend a deadline; see
// package conn. A single server cannot lose it.
func (d *diagnosis) judgeTimeout(timeout time.Duration) {
	tick, err := strconv.Atoi(d.tickTime())
	ensemble := slices.ContainsFunc(d.Servers, func(e *examination) bool { return e.Mode == "follower" })
	least := 6 * time.Duration(tick) * time.Millisecond
	if err == nil && ensemble && timeout < least {
		d.find("the session timeout of %v is below six ticks of %d ms, so a lock may be believed for too long after a change "+
			"of leader: request at least %v with --session-timeout", timeout, tick, least)
	}
}

// old reports whether a version is known to predate containers.
func old(version string) bool {
	var major, minor, patch int
	if n, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n < 3 || err != nil {
		return false
	}
	return slices.Compare([]int{major, minor, patch}, []int{3, 5, 3}) < 0
}

// compareClocks compares the leader's clock with the local one.
func (d *diagnosis) compareClocks(ctx context.Context, client *conn.Client) {
	clock, err := survey.CompareClocks(ctx, client)
	if err != nil {
		d.Clock = fmt.Sprintf("not compared: %v", err)
		return
	}
	d.Clock = fmt.Sprintf("the leader's is %v ours, to within %v", clock, clock.Exact)
	if clock.Certain() != 0 {
		d.find("the leader's clock is %v ours: tables, --stuck and the page allow for that, times in -o json do not; locks "+
			"do not depend on it", clock)
	}
}

// judgeQueue reports problems of a queue: contenders that only some servers have, and contenders of dead sessions.
func (a *app) judgeQueue(ctx context.Context, client *conn.Client, d *diagnosis, path, chroot string) error {
	queue, err := (&survey.Reader{Client: client}).Path(ctx, path)
	if err != nil {
		return err
	}
	for _, f := range queue.Findings {
		if f.Verdict != survey.Held && f.Verdict != survey.Free {
			d.find("%s: %s", path, f.Words)
		}
	}
	a.judgeAccess(ctx, client, d, path, queue)
	a.compareServers(ctx, d, chroot)
	known := a.sessions(ctx)
	if !known.complete {
		d.Unknown = "sessions: unknown, so contenders of dead sessions cannot be found: " +
			"allow srvr and dump in 4lw.commands.whitelist on the leader"
	} else {
		for _, c := range queue.Contenders() {
			owner := c.Stat.EphemeralOwner
			if owner == 0 || known.known[owner] {
				continue
			}
			switch remains, err := isThere(ctx, client, c); { // its session may have ended since the queue was read
			case err != nil:
				return err
			case remains:
				d.find("ghost: the leader does not know session %s of %s", c.Session, c.Node)
			}
		}
	}
	return nil
}

// compareServers finds contenders that differ between servers. Since a difference may stem from a contender that joined
// or left in the meantime, compareServers queries all servers again before it reports one.
func (a *app) compareServers(ctx context.Context, d *diagnosis, chroot string) {
	nodes := map[string]*survey.Contender{}
	for _, e := range d.Servers {
		for node, czxid := range e.found {
			nodes[node] = &survey.Contender{Node: node, Token: czxid}
		}
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		differs := slices.ContainsFunc(d.Servers, func(e *examination) bool {
			return e.Error == "" && e.found[node] != nodes[node].Token
		})
		if !differs {
			continue
		}
		with, without := a.serversWith(ctx, d, chroot, nodes[node])
		if len(with) > 0 && len(without) > 0 {
			d.find("ghost: %s exists on %s, but not on %s: "+
				"restart those that differ from the leader with an empty data directory, one at a time",
				node, strings.Join(with, ", "), strings.Join(without, ", "))
		}
	}
}

// serversWith asks the reachable servers whether they have the contender.
func (a *app) serversWith(
	ctx context.Context, d *diagnosis, chroot string, c *survey.Contender,
) (with, without []string) {
	for _, e := range d.Servers {
		if e.Error != "" {
			continue
		}
		switch there, err := a.onServer(ctx, e.Server, chroot, c); {
		case err != nil:
		case there:
			with = append(with, e.Server)
		default:
			without = append(without, e.Server)
		}
	}
	return with, without
}

// tickTime returns the tick time of the servers in milliseconds, or "" if one did not report it or they differ.
func (d *diagnosis) tickTime() string {
	tick := d.Servers[0].TickTime
	if tick == "?" || slices.ContainsFunc(d.Servers, func(e *examination) bool { return e.TickTime != tick }) {
		return ""
	}
	return tick
}

func (a *app) printDiagnosis(d diagnosis) error {
	t := table{header: []string{"SERVER", "VERSION", "MODE", "ZXID", "ROUND TRIP", "SESSION TIMEOUT"}, json: d}
	for _, e := range d.Servers {
		row := []string{e.Server, orDash(e.Version), orDash(e.Mode), orDash(e.Zxid), "-", orDash(e.Limits)}
		if e.RoundTrip > 0 {
			row[4] = time.Duration(e.RoundTrip * float64(time.Second)).Round(10 * time.Microsecond).String()
		}
		t.rows = append(t.rows, row)
	}
	if err := a.print(t); err != nil || a.output.format != "table" {
		return err
	}
	lines := slices.Concat([]string{"clock: " + d.Clock}, d.Access, d.Findings)
	if tick := d.tickTime(); tick != "" && a.connect.tick == 0 {
		lines = append([]string{"flag: --tick-time " + tick + "ms lets locks survive longer pauses and outages"}, lines...)
	}
	switch {
	case d.Unknown != "":
		lines = append(lines, d.Unknown)
	case len(d.Findings) == 0:
		lines = append(lines, "all is well")
	}
	_, err := fmt.Fprintln(a.out, plainLines(strings.Join(lines, "\n")))
	return err
}
