// Command zktestd runs the ZooKeeper server of package zktest as a program, for tests that are not written in Go and
// for experiments by hand. It keeps everything in memory and breaks on command.
//
//	$ zktestd
//	ready 127.0.0.1:40017
//	drop-reply create path=^/locks/
//	{"rule":1}
//	ok
//	expire all
//	ok
//
// The first line announces where it listens. After that, each line of standard input is a command. Its answer is any
// number of lines of JSON, followed by "ok" or by "error: " and the reason. The command help, whose answer is text,
// lists the commands. With -http, commands can also be posted. The program ends with its standard input, on SIGTERM, or
// on an interrupt.
//
// Violations that the server finds are printed to standard error as they happen; the command violations lists them.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

const example = `zktestd is a ZooKeeper server for tests. It keeps everything in memory, and injects faults on command.

  $ zktestd
  ready 127.0.0.1:40017
  expire all
  ok

Each line of standard input is a command; "help" lists them. zktestd exits when its standard input ends.

`

type config struct {
	addr, http, release string
	cert, key, clientCA string
	super, sasl         string
	requiredAuth        string
	tick                time.Duration
	fronts, maxBuffer   int
	ttl, quotas, noACLs bool
	reconfig, detached  bool
}

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, signals))
}

// run runs the program and returns the exit status.
func run(args []string, in io.Reader, out, errs io.Writer, signals <-chan os.Signal) int {
	c, err := parse(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		say(errs, "%v", err)
		return 2
	}
	d, err := start(c, errs)
	if err != nil {
		say(errs, "%v", err)
		return 1
	}
	defer d.close()
	if _, err := fmt.Fprintln(out, d.ready()); err != nil {
		say(errs, "cannot report readiness: %v", err)
		return 1
	}
	ended := make(chan struct{})
	go func() { // nothing can interrupt a read of standard input, so after a signal this ends with the process
		d.converse(in, out)
		if !c.detached {
			close(ended)
		}
	}()
	select {
	case <-ended:
	case <-d.quit:
	case <-signals:
	}
	return 0
}

// say writes a message for people.
func say(errs io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(errs, "zktestd: "+format+"\n", args...) // there is nowhere else to report a failure
}

func parse(args []string, out io.Writer) (config, error) {
	c := config{}
	flags := flag.NewFlagSet("zktestd", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // a single clear line is better
	flags.StringVar(&c.addr, "addr", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	flags.StringVar(&c.http, "http", "", "`address` on which commands can be posted over HTTP; none by default")
	flags.BoolVar(&c.detached, "detached", false, "keep running when standard input ends")
	flags.DurationVar(&c.tick, "tick", 2*time.Second, "unit of session expiry: sessions get 2 to 20 ticks")
	flags.StringVar(&c.release, "release", string(zktest.Release39),
		"`release` of ZooKeeper to emulate: 3.8, 3.9 or a number such as 3.9.2")
	flags.BoolVar(&c.ttl, "ttl", false, "allow nodes with a time to live")
	flags.IntVar(&c.fronts, "fronts", 1, "`number` of addresses, which clients see as an ensemble")
	flags.IntVar(&c.maxBuffer, "max-buffer", 0, "longest request in `bytes`, as jute.maxbuffer; 0 is ZooKeeper's own")
	flags.BoolVar(&c.quotas, "quotas", false, "reject requests that exceed a hard limit below /zookeeper/quota")
	flags.BoolVar(&c.reconfig, "reconfig", false, "allow the operation reconfig, which needs -fronts")
	flags.StringVar(&c.sasl, "sasl", "", "`user:password` that may log in with SASL DIGEST-MD5")
	flags.StringVar(&c.super, "super", "", "`user:password` that may do everything")
	flags.StringVar(&c.requiredAuth, "require-auth", "",
		"`scheme` with which clients must authenticate: digest, sasl or x509; or several, separated by commas")
	flags.BoolVar(&c.noACLs, "no-acls", false, "allow all clients to do everything, like zookeeper.skipACL")
	flags.StringVar(&c.cert, "tls-cert", "", "PEM `file` with a certificate: all clients must speak TLS")
	flags.StringVar(&c.key, "tls-key", "", "PEM `file` with the key of the certificate")
	flags.StringVar(&c.clientCA, "tls-client-ca", "",
		"PEM `file` with authorities: all clients must present a certificate, whose subject is their id in the scheme x509")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, _ = io.WriteString(out, example) // there is nowhere else to report a failure
		flags.SetOutput(out)
		flags.PrintDefaults()
	case err != nil:
		err = fmt.Errorf("%w: zktestd -h lists the flags", err)
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q: commands go to standard input", flags.Arg(0))
	case c.fronts < 1 || c.fronts%2 == 0:
		err = fmt.Errorf("flag -fronts %d: want 1, 3, 5 or another odd number", c.fronts)
	case (c.cert == "") != (c.key == ""):
		err = errors.New("flags -tls-cert and -tls-key: use both or neither")
	case c.clientCA != "" && c.cert == "":
		err = errors.New("flag -tls-client-ca needs -tls-cert and -tls-key")
	case c.addr == "":
		err = errors.New("flag -addr is empty: want host:port")
	case !c.provides(c.requiredAuth):
		err = fmt.Errorf("flag -require-auth %s: want digest, sasl with -sasl, x509 with -tls-client-ca, or several of them",
			c.requiredAuth)
	default:
	}
	return c, err
}

// provides reports whether clients can authenticate in each of the schemes, which are separated by commas.
func (c config) provides(schemes string) bool {
	able := map[string]bool{"digest": true, "sasl": c.sasl != "", "x509": c.clientCA != ""}
	return schemes == "" || !slices.ContainsFunc(strings.Split(schemes, ","), func(s string) bool { return !able[s] })
}

// options returns the options of the server.
func (c config) options() ([]zktest.Option, error) {
	list := []zktest.Option{zktest.WithTickTime(c.tick), zktest.WithRelease(zktest.Release(c.release))}
	if c.fronts > 1 {
		list = append(list, zktest.WithFronts(c.fronts), zktest.WithListener(c.addr), zktest.WithReadOnlyMode())
	} else {
		list = append(list, zktest.InMemory()) // the doors listen: they have labels, and are shut individually
	}
	if c.ttl {
		list = append(list, zktest.WithExtendedTypes())
	}
	if c.maxBuffer != 0 {
		list = append(list, zktest.WithMaxBuffer(c.maxBuffer))
	}
	if c.quotas {
		list = append(list, zktest.WithQuotas())
	}
	if c.reconfig {
		list = append(list, zktest.WithReconfig())
	}
	if c.sasl != "" {
		user, password, ok := strings.Cut(c.sasl, ":")
		if !ok {
			return nil, fmt.Errorf("flag -sasl %s: want user:password", c.sasl)
		}
		list = append(list, zktest.WithSASLUsers(map[string]string{user: password}))
	}
	if c.clientCA != "" {
		list = append(list, zktest.WithX509())
	}
	if c.super != "" {
		list = append(list, zktest.WithSuperUser(c.super))
	}
	if c.requiredAuth != "" {
		list = append(list, zktest.WithRequiredAuth(strings.Split(c.requiredAuth, ",")...))
	}
	if c.noACLs {
		list = append(list, zktest.WithoutACLs())
	}
	return list, nil
}

// tls returns the configuration of the listeners, or nil for plain TCP.
func (c config) tls() (*tls.Config, error) {
	if c.cert == "" {
		return nil, nil //nolint:nilnil // nil means plain TCP
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if c.clientCA == "" {
		return config, nil
	}
	text, err := os.ReadFile(c.clientCA)
	if err != nil {
		return nil, err
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("flag -tls-client-ca %s: it contains no PEM certificate", c.clientCA)
	}
	return config, nil
}
