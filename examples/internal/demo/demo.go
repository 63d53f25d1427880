// Package demo has what the example programs share: flags, a connection or a server in the process, and a journal.
package demo

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Main runs a program until it is done or interrupted.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Parse parses args. Errors are one line.
func Parse(flags *flag.FlagSet, args []string) error {
	flags.SetOutput(io.Discard)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(os.Stderr)
		flags.PrintDefaults()
		return errors.New("see the flags above")
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

// Ensemble is where a program runs: on the servers it is told, or on one in its own process.
type Ensemble struct {
	servers        string
	sessionTimeout time.Duration
	connectTimeout time.Duration
	own            *zktest.Server
}

// Flags adds the flags of the ensemble.
func (e *Ensemble) Flags(flags *flag.FlagSet) {
	flags.StringVar(&e.servers, "servers", "", "ZooKeeper to use, host:port[,host:port...][/chroot]; none starts one in this process")
	flags.DurationVar(&e.sessionTimeout, "session-timeout", 10*time.Second, "how long a dead process is waited for")
	flags.DurationVar(&e.connectTimeout, "connect-timeout", 10*time.Second, "how long to try to reach a server at the start")
}

// Start starts a server unless there are others.
func (e *Ensemble) Start() (err error) {
	if e.servers == "" {
		e.own, err = zktest.Start(zktest.InMemory())
	}
	return err
}

// Close ends what Start has started.
func (e *Ensemble) Close() {
	if e.own != nil {
		e.own.Close()
	}
}

// Dial connects under a name.
func (e *Ensemble) Dial(ctx context.Context, id string) (*conn.Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.connectTimeout, fmt.Errorf("no session within %v", e.connectTimeout))
	defer cancel()
	opts := []conn.Option{conn.WithSessionTimeout(e.sessionTimeout), conn.WithIdentity(id)}
	servers := e.servers
	if e.own != nil {
		servers = e.own.Addr()
		opts = append(opts, conn.WithDialer(e.own.DialAs(id)))
	}
	return conn.Dial(ctx, servers, opts...)
}

// Journal writes one line per event in logfmt, at once.
type Journal struct {
	mu  sync.Mutex
	out io.Writer
}

// NewJournal returns a journal on out.
func NewJournal(out io.Writer) *Journal { return &Journal{out: out} }

// Event writes what happened to whom; pairs are names and values.
func (j *Journal) Event(id, event string, pairs ...any) {
	var line strings.Builder
	fmt.Fprintf(&line, "time=%s id=%s event=%s", time.Now().Format("2006-01-02T15:04:05.000Z07:00"), quote(id), event)
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&line, " %v=%s", pairs[i], quote(fmt.Sprint(pairs[i+1])))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := io.WriteString(j.out, line.String()+"\n"); err != nil {
		return // nobody reads any more, which is no reason to stop
	}
}

// quote quotes what would not be one logfmt value.
func quote(s string) string {
	if s == "" || strings.ContainsAny(s, " =\"\n\t") {
		return strconv.Quote(s)
	}
	return s
}
