// Package demo has the code that the example programs share: flags, a connection to servers or to one in the process,
// and a journal.
package demo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Main runs a program until it is done or interrupted. A second interrupt kills it.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Host returns the name of this machine.
func Host() string {
	host, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return host
}

// Ensemble is the ensemble that a program uses: the servers given by flags, or one in its own process.
type Ensemble struct {
	servers        string
	auth, tls      string
	sessionTimeout time.Duration
	connectTimeout time.Duration
	own            *zktest.Server
	security       []conn.Option // from auth and tls
}

// needServers are the flags that do not apply to a server in the process.
var needServers = []string{"auth", "connect-timeout", "tls"}

// Flags adds the flags of the ensemble.
func (e *Ensemble) Flags(flags *flag.FlagSet) {
	flags.StringVar(&e.servers, "servers", "",
		"ZooKeeper to use, host:port[,host:port...][/chroot]; without it a server runs in this process")
	flags.DurationVar(&e.sessionTimeout, "session-timeout", 10*time.Second, "how long the servers wait for a dead process")
	flags.DurationVar(&e.connectTimeout, "connect-timeout", 10*time.Second,
		"how long to try to reach a server at the start (needs -servers)")
	flags.StringVar(&e.auth, "auth", "", "credential as scheme:credential, such as digest:user:password (needs -servers)")
	flags.StringVar(&e.tls, "tls", "",
		"connect over TLS, and trust the certificates in this PEM file, "+
			"or those of the operating system for \"system\" (needs -servers)")
}

// Parse parses args, and checks the flags of the ensemble. more names flags of the program that also need -servers.
// Errors are one line long. If args request help, Parse prints the flags to out and returns flag.ErrHelp.
func (e *Ensemble) Parse(flags *flag.FlagSet, args []string, out io.Writer, more ...string) error {
	flags.SetOutput(io.Discard)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(out)
		flags.PrintDefaults()
		return err
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return e.check(flags, more)
}

// check reports flags that contradict each other.
func (e *Ensemble) check(flags *flag.FlagSet, more []string) error {
	var given []string
	flags.Visit(func(f *flag.Flag) { given = append(given, f.Name) })
	if e.servers == "" {
		if slices.Contains(given, "servers") {
			return errors.New("flag -servers is empty: want host:port of a ZooKeeper, such as localhost:2181")
		}
		for _, name := range given {
			if slices.Contains(needServers, name) || slices.Contains(more, name) {
				return fmt.Errorf("flag -%s needs -servers", name)
			}
		}
	}
	e.security = nil
	if e.auth != "" {
		scheme, credential, ok := strings.Cut(e.auth, ":")
		if !ok || scheme == "" || credential == "" {
			return errors.New("flag -auth: want scheme:credential, such as digest:user:password") // the value is a secret
		}
		e.security = append(e.security, conn.WithAuth(scheme, credential))
	}
	if e.tls != "" {
		roots, err := trusted(e.tls)
		if err != nil {
			return fmt.Errorf("flag -tls: %w", err)
		}
		e.security = append(e.security, conn.WithTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}))
	}
	return nil
}

// trusted reads the certificates in a file. For "system" it returns nil, with which crypto/tls uses the system's.
func trusted(file string) (*x509.CertPool, error) {
	if file == "system" {
		return nil, nil //nolint:nilnil // documented above
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate in PEM form", file)
	}
	return pool, nil
}

// External reports whether the program uses servers outside its process.
func (e *Ensemble) External() bool { return e.servers != "" }

// Start starts a server in this process, unless the flags name others.
func (e *Ensemble) Start() (err error) {
	if !e.External() {
		e.own, err = zktest.Start(zktest.InMemory())
	}
	return err
}

// Close stops the server that Start has started.
func (e *Ensemble) Close() {
	if e.own != nil {
		e.own.Close()
	}
}

// Journal returns a journal on out, in a human-readable format for a server in this process, and in logfmt for others.
func (e *Ensemble) Journal(out io.Writer) *Journal {
	if e.External() {
		return NewJournal(out)
	}
	return NewStory(out)
}

// Dial connects under a name.
func (e *Ensemble) Dial(ctx context.Context, id string) (*conn.Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.connectTimeout, fmt.Errorf("no session within %v", e.connectTimeout))
	defer cancel()
	opts := append([]conn.Option{conn.WithSessionTimeout(e.sessionTimeout), conn.WithIdentity(id)}, e.security...)
	servers := e.servers
	if e.own != nil {
		servers = e.own.Addr()
		// The story has what the client would log.
		opts = append(opts, conn.WithDialer(e.own.DialAs(id)), conn.WithLogger(slog.New(slog.DiscardHandler)))
	}
	return conn.Dial(ctx, servers, opts...)
}
