package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/child"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/listing"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/signals"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/discovery"
)

// discoveryFlags select where services are and how instances are encoded.
type discoveryFlags struct{ base, codec string }

func (d *discoveryFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&d.base, "base", "/services", "`path` below which the services are")
	flags.StringVar(&d.codec, "codec", "curator", "how instances are written: curator, spring, dubbo or finagle")
}

func (d *discoveryFlags) check() (discovery.Codec, error) {
	codecs := map[string]func() discovery.Codec{
		"curator": discovery.Curator, "spring": discovery.Spring, "dubbo": discovery.Dubbo, "finagle": discovery.Finagle,
	}
	codec, known := codecs[d.codec]
	if !known {
		return nil, exit.Usagef("--codec %s: want curator, spring, dubbo or finagle", d.codec)
	}
	if err := conn.ValidatePath(d.base); err != nil {
		return nil, exit.Usagef("--base: %v", err)
	}
	return codec(), nil
}

func (d *discoveryFlags) open(c *conn.Client) (*discovery.Discovery, error) {
	codec, err := d.check()
	if err != nil {
		return nil, err
	}
	return discovery.New(c, d.base, discovery.WithCodec(codec))
}

// registerFlags are the flags that only register has.
type registerFlags struct {
	discovery     discoveryFlags
	port, tlsPort int
	address, id   string
	meta          []string
	check         checkFlags
	drain         duration
	signal        string
	stopTimeout   duration
	shell         string
}

func newRegister(a *app) *cobra.Command {
	f := registerFlags{drain: duration(time.Second)}
	cmd := &cobra.Command{
		Use:         "register [flags] SERVICE -- PROGRAM [ARGUMENT...]",
		Annotations: map[string]string{service: ""},
		Short:       "Run a program, and list it as an instance of a service while it serves",
		Example: `  zkr register --port 8080 orders -- orders-server
  zkr register --port 8080 --check /healthz --meta zone=a orders -- orders-server
  zkr register --port 8080 --codec spring --check 'exec:pg_isready -q' orders -- orders-server`,
		Long: `register starts the program, and lists it when its check passes for the first time. When the check has failed
--check-failures times in a row, the program is taken out, and it is listed again when the check passes.

When zkr is asked to stop by INT or TERM, it takes the program out, waits for --drain, and then passes the signal on as --signal. So
callers that follow the service have left before the program stops. A second signal ends the wait, a third one kills. Other
signals are passed on at once. What the program has started and left running is killed when it ends.

A check is one of
  tcp               the port takes a connection on this machine
  tcp://host:port   that port takes one
  /path             HTTP on the port of this machine answers with 200 to 399
  http://host/path  that URL does; also https
  exec:line         a line by the shell ends with status 0
  none              the program counts as serving from its start

The instance is an ephemeral node: it goes with the session if zkr is killed, which also kills the program. While no server
answers, the program goes on. If the id is taken, register waits for it: a program that was killed may be listed until its
session ends.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			before, program, err := split(cmd, args, f.shell)
			if err != nil {
				return err
			}
			if len(before) != 1 {
				return exit.Usagef("want one SERVICE, got %q", before)
			}
			return a.register(cmd, &f, before[0], program)
		},
	}
	flags := cmd.Flags()
	f.discovery.add(flags)
	flags.IntVar(&f.port, "port", 0, "`port` of the program, without TLS")
	flags.IntVar(&f.tlsPort, "tls-port", 0, "`port` of the program with TLS")
	flags.StringVar(&f.address, "address", "", "host name or IP `address` under which others reach the program; default the first of this machine")
	flags.StringVar(&f.id, "id", "", "`id` of the instance; default what the codec makes, mostly a random one")
	flags.StringArrayVar(&f.meta, "meta", nil, "`name=value` that others read; may be repeated")
	f.check.add(flags, "tcp", "how to see whether the program serves: tcp, tcp://host:port, /path, a URL, exec:line or none",
		"take the program out when so many checks in a row have failed")
	flags.Var(&f.drain, "drain", "time between taking the program out and --signal")
	flags.StringVar(&f.signal, "signal", "TERM", "`signal` that asks the program to stop")
	flags.Var(&f.stopTimeout, "stop-timeout", "after --signal, wait so long before SIGKILL; default without end")
	flags.StringVar(&f.shell, "shell", "", "run this `line` by the shell, in place of a command")
	noEnv(cmd, "shell")
	return cmd
}

// instance returns the instance that the flags describe.
func (f *registerFlags) instance(service string) (discovery.Instance, error) {
	i := discovery.Instance{Service: service, ID: f.id, Address: f.address, Port: f.port, TLSPort: f.tlsPort}
	if f.port == 0 && f.tlsPort == 0 {
		return i, exit.Usagef("want --port or --tls-port")
	}
	for _, pair := range f.meta {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return i, exit.Usagef("--meta %s: want name=value", pair)
		}
		if i.Metadata == nil {
			i.Metadata = map[string]string{}
		}
		i.Metadata[name] = value
	}
	return i, nil
}

// register validates everything it can before it starts the program.
func (a *app) register(cmd *cobra.Command, f *registerFlags, service string, program []string) error {
	i, err := f.instance(service)
	if err != nil {
		return err
	}
	soft, ok := signals.Named(f.signal)
	if !ok {
		return exit.Usagef("--signal %s: want a signal such as TERM or USR1", f.signal)
	}
	probe, err := f.check.probe(cmp.Or(f.port, f.tlsPort))
	if err != nil {
		return err
	}
	codec, err := f.discovery.check()
	if err != nil {
		return err
	}
	if _, err := codec.Encode(i); err != nil {
		return exit.With(exit.Usage, err)
	}
	path, err := find(program[0])
	if err != nil {
		return err
	}
	ctx, done := a.signals.Context(cmd.Context())
	defer done()
	client, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	d, err := f.discovery.open(client)
	if err != nil {
		return err
	}
	host, err := child.NewHost()
	if err != nil {
		return err
	}
	defer host.Close()
	done() // from now on signals go to the program
	var stop *exit.Stopped
	if errors.As(context.Cause(ctx), &stop) {
		return stop
	}
	c, err := a.startProgram(host, path, program)
	if err != nil {
		return err
	}
	status := (&listing.Program{
		Child: c, Arrived: a.signals.Arrived, Signal: soft, Drain: time.Duration(f.drain), StopTimeout: time.Duration(f.stopTimeout), Log: a.log,
		Listing: &listing.Listing{
			Probe:    *probe,
			Farewell: time.Duration(a.connect.session), Log: a.log,
			Register: func(ctx context.Context) (*discovery.Registration, error) {
				return d.Register(ctx, i, discovery.WithWait())
			},
		},
	}).Run(cmd.Context())
	if status.Code == 0 {
		return nil
	}
	return exit.Program(status.Code)
}

// startProgram starts the program in a new process group, so that the keys of the terminal only reach zkr, which
// deregisters the program first. The program therefore does not read from a terminal.
func (a *app) startProgram(host *child.Host, path string, program []string) (*child.Child, error) {
	in := a.in
	if isTerminal(in) {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		defer null.Close() //nolint:errcheck // the program has its own copy
		in = null
	}
	c, err := host.Start(child.Command{Path: path, Args: program, Env: os.Environ(), Files: []*os.File{in, a.out, a.err}})
	if err != nil {
		return nil, exit.OfStart(err)
	}
	return c, nil
}
