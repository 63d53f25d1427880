package main

import (
	"bufio"
	"context"
	"crypto/sha1" //nolint:gosec // ZooKeeper's
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/sasl"
	"github.com/zkrecipes/zkrecipes/zkkerberos"
)

// connectFlags are the flags that select the ensemble and how to connect to it.
type connectFlags struct {
	servers, authFile, acl         string
	tlsCA, tlsCert, tlsKey, tlsFor string
	keytab, principal, server      string // Kerberos
	session, within, tick          duration
	rebalance                      duration
	requireChroot, kerberos        bool
	tracking                       bool
}

func (c *connectFlags) add(flags *pflag.FlagSet) {
	c.session, c.within = duration(15*time.Second), duration(30*time.Second)
	flags.StringVar(&c.servers, "servers", "",
		"`host:port,host:port/chroot` of the ensemble, or dns-srv://name/chroot for SRV records (also ZOOKEEPER_SERVERS)")
	flags.BoolVar(&c.tracking, "ensemble-tracking", false,
		"follow the configuration of the ensemble, to find servers that reconfig has added since zkr started")
	flags.Var(&c.rebalance, "rebalance",
		"rebalance connections within this time after servers were restarted or replaced, such as 10m; 0 means never")
	flags.StringVar(&c.authFile, "auth-file", "",
		"`file` with a line scheme:credential for each credential, such as digest:user:password, "+
			"or sasl:user:password for DIGEST-MD5")
	flags.StringVar(&c.acl, "acl", "",
		"ACL (`list`) of nodes that zkr creates: scheme:id:permissions,... such as auth::cdrwa")
	flags.StringVar(&c.tlsCA, "tls-ca", "",
		"connect over TLS to servers whose certificate is signed by an authority in this PEM `file`")
	flags.StringVar(&c.tlsCert, "tls-cert", "",
		"PEM `file` with the client certificate; TLS files may change while zkr runs")
	flags.StringVar(&c.tlsKey, "tls-key", "", "PEM `file` with the key of the client certificate")
	flags.StringVar(&c.tlsFor, "tls-server-name", "",
		"`name` that the servers' certificates must contain; default: the name in --servers")
	flags.BoolVar(&c.kerberos, "kerberos", false,
		"authenticate with Kerberos, using a ticket of kinit (see KRB5CCNAME) or --kerberos-keytab")
	flags.StringVar(&c.keytab, "kerberos-keytab", "", "`file` with the key of the principal; it may change while zkr runs")
	flags.StringVar(&c.principal, "kerberos-principal", "", "`name@REALM` in the keytab; default: the only one there")
	flags.StringVar(&c.server, "kerberos-server", "",
		"`principal` of the servers; default: zookeeper/_HOST, with the host as in --servers")
	flags.BoolVar(&c.requireChroot, "require-chroot", false,
		"exit with 125 if the chroot of --servers does not exist, instead of warning")
	flags.Var(&c.session, "session-timeout", "session timeout to request; servers grant 2 to 20 of their ticks")
	flags.Var(&c.within, "connect-timeout",
		"give up if no server grants a session within this time; 0 means never; "+
			"check, instances, leader and status wait 10s by default, and doctor 5s")
	flags.Var(&c.tick, "tick-time",
		"tickTime of the servers, with which zkr distinguishes a slow server from a lost lock more precisely")
}

// connected runs f with a client, which it closes afterwards, and with a context that ends with the first signal.
func (a *app) connected(
	cmd *cobra.Command, f func(ctx context.Context, client *conn.Client) error, more ...conn.Option,
) error {
	ctx, done := a.signals.Context(cmd.Context())
	defer done()
	client, err := a.dial(ctx, more...)
	if err != nil {
		return err
	}
	defer client.Close()
	return f(ctx, client)
}

// dial connects. If no server grants a session, it asks each of them for the reason.
func (a *app) dial(ctx context.Context, more ...conn.Option) (*conn.Client, error) {
	client, err := a.dialAny(ctx, more...)
	if code, _ := exit.Status(err); code == exit.Unreachable && ctx.Err() == nil {
		err = exit.With(code, fmt.Errorf("%w; see zkr doctor%s", err, a.servesNot(ctx)))
	}
	return client, err
}

// dialAny connects. The client logs to the log of zkr, and more verbosely after a second, so that users see why the
// connection fails.
func (a *app) dialAny(ctx context.Context, more ...conn.Option) (*conn.Client, error) {
	servers := a.connectString()
	if servers == "" {
		return nil, exit.Usagef("no servers: pass --servers host:port,..., or set ZKR_SERVERS")
	}
	options, err := a.connect.options()
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	least := new(slog.LevelVar)
	least.Set(a.output.libraryLevel())
	if mode := openTo(a.connect.authFile); mode != 0 {
		a.log.Warn("every user of this machine can read --auth-file: restrict it, for example with chmod 600",
			"file", a.connect.authFile, "mode", mode)
	}
	options = append(options, conn.WithLogger(slog.New(&louder{a.log.Handler(), least})))
	if a.connect.tracking {
		options = append(options, conn.WithEnsembleTracking())
	}
	if a.connect.rebalance > 0 {
		options = append(options, conn.WithRebalance(time.Duration(a.connect.rebalance)))
	}
	if limit := time.Duration(a.connect.within); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("no session within --connect-timeout, %v", limit))
		defer cancel()
	}
	isLouder := make(chan struct{})
	slow := time.AfterFunc(time.Second, func() {
		least.Set(min(least.Level(), slog.LevelInfo))
		close(isLouder)
	})
	client, err := open(ctx, servers, append(options, more...))
	if !slow.Stop() {
		<-isLouder // otherwise the log could become verbose later
	}
	least.Set(a.output.libraryLevel())
	if err != nil {
		return nil, dialFailure(ctx, err)
	}
	if err := a.lookAtChroot(ctx, client); err != nil {
		_ = client.Close() // always returns nil
		if ctx.Err() != nil {
			return nil, dialFailure(ctx, err)
		}
		return nil, err
	}
	return client, nil
}

// open is like conn.Dial but also waits for names that do not resolve yet, bounded by --connect-timeout.
func open(ctx context.Context, servers string, options []conn.Option) (*conn.Client, error) {
	client, err := conn.New(servers, options...)
	if err != nil {
		return nil, err
	}
	if _, err := client.Session(ctx); err != nil {
		_ = client.Close() // always returns nil
		return nil, fmt.Errorf("connect to %s: %w", servers, err)
	}
	return client, nil
}

// lookAtChroot warns if the chroot does not exist, or fails if --require-chroot is set. A typo in the chroot creates a
// second tree in which all locks are free.
func (a *app) lookAtChroot(ctx context.Context, client *conn.Client) error {
	chroot := a.chroot()
	if chroot == "/" {
		return nil
	}
	exists, _, err := client.Exists(ctx, "/")
	switch {
	case a.connect.requireChroot && err != nil:
		return err
	case err != nil:
		return nil //nolint:nilerr // the verb's next request meets the error as well
	case exists:
	case a.connect.requireChroot:
		return fmt.Errorf(
			"--require-chroot: the chroot %s does not exist: check --servers; if it is correct, "+
				"create this node once as a persistent node, since servers remove empty containers", chroot)
	default:
		a.log.Warn(
			"the chroot of --servers does not exist: check it, since programs with another chroot do not share these locks; "+
				"if it is correct, create this node once", "chroot", chroot)
	}
	return nil
}

// dialFailure maps an error of open to an exit status. An error other than the end of ctx means that the arguments were
// invalid and nothing was sent.
func dialFailure(ctx context.Context, err error) error {
	var stop *exit.Stopped
	switch code, _ := exit.Status(err); {
	case errors.As(err, &stop), code == exit.NoAccess:
		return err
	case ctx.Err() != nil:
		return exit.With(exit.Unreachable, err)
	default:
		return exit.With(exit.Usage, err)
	}
}

func (c *connectFlags) options() ([]conn.Option, error) {
	options := []conn.Option{conn.WithSessionTimeout(time.Duration(c.session))}
	if c.tick > 0 {
		options = append(options, conn.WithTickTime(time.Duration(c.tick)))
	}
	if c.authFile != "" {
		auth, err := readAuth(c.authFile)
		if err != nil {
			return nil, fmt.Errorf("--auth-file: %w", err)
		}
		options = append(options, auth...)
	}
	if c.acl != "" {
		acl, err := parseACL(c.acl)
		if err != nil {
			return nil, fmt.Errorf("--acl: %w", err)
		}
		options = append(options, conn.WithACL(acl))
	}
	who, err := c.ticket()
	if err != nil {
		return nil, err
	}
	if who != nil {
		options = append(options, conn.WithSASL(who))
	}
	config, err := c.tls()
	if err != nil {
		return nil, err
	}
	if config != nil {
		options = append(options, conn.WithTLSFunc(c.tls)) // the files may be replaced while zkr runs
	}
	return options, nil
}

// ticket returns the Kerberos mechanism, or nil if Kerberos is not enabled. The mechanism needs no Close, since it
// lasts as long as the process.
func (c *connectFlags) ticket() (*zkkerberos.Mechanism, error) {
	if !c.kerberos {
		if c.keytab != "" || c.principal != "" || c.server != "" {
			return nil, errors.New("--kerberos-keytab, --kerberos-principal and --kerberos-server need --kerberos")
		}
		return nil, nil //nolint:nilnil // Kerberos is optional
	}
	var options []zkkerberos.Option
	if c.server != "" {
		options = append(options, zkkerberos.WithServer(c.server))
	}
	switch {
	case c.keytab != "":
		return zkkerberos.Keytab(c.keytab, c.principal, options...)
	case c.principal != "":
		return nil, errors.New("--kerberos-principal needs --kerberos-keytab: a ticket of kinit has its own principal")
	default:
		return zkkerberos.Cache("", options...)
	}
}

// openTo returns the mode of a file that every user can read, and 0 for any other file. It always returns 0 on Windows,
// which uses ACLs instead.
func openTo(name string) fs.FileMode {
	info, err := os.Stat(name)
	if err != nil || info.Mode()&0o004 == 0 || runtime.GOOS == "windows" {
		return 0
	}
	return info.Mode()
}

func readAuth(name string) ([]conn.Option, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read-only
	var options []conn.Option
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		scheme, credential, ok := strings.Cut(text, ":")
		if !ok {
			return nil, fmt.Errorf("%s:%d: want scheme:credential", name, n) // the line itself is a secret
		}
		if user, password, _ := strings.Cut(credential, ":"); scheme == "digest" && (user == "" || password == "") {
			return nil, fmt.Errorf("%s:%d: want digest:user:password", name, n)
		}
		if scheme != "sasl" {
			options = append(options, conn.WithAuth(scheme, credential))
			continue
		}
		user, password, _ := strings.Cut(credential, ":") // servers do not accept addauth for this scheme
		mechanism, err := sasl.Digest(user, password)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: want sasl:user:password: %w", name, n, err)
		}
		options = append(options, conn.WithSASL(mechanism))
	}
	return options, lines.Err()
}

// parseACL parses the ACL syntax of zkCli's setAcl. The id may contain colons.
func parseACL(text string) ([]zk.ACL, error) {
	var list []zk.ACL
	for entry := range strings.SplitSeq(text, ",") {
		scheme, rest, _ := strings.Cut(entry, ":")
		last := strings.LastIndexByte(rest, ':')
		if last < 0 {
			return nil, fmt.Errorf("%q: want scheme:id:permissions", entry)
		}
		if scheme == "digest" && !digested(rest[:last]) {
			return nil,
				errors.New("digest: want digest:user:hash:permissions, with the SHA-1 hash of user:password in base64; " +
					"for the user of --auth-file, write auth::permissions") // the entry may contain a password
		}
		perms := int32(0)
		for _, letter := range rest[last+1:] {
			bit := strings.IndexRune("rwcda", letter)
			if bit < 0 {
				return nil, fmt.Errorf("%q: permissions are the letters cdrwa, not %q", entry, letter)
			}
			perms |= 1 << bit
		}
		if perms == 0 {
			return nil, fmt.Errorf("%q: no permissions: want one or more of the letters cdrwa", entry)
		}
		list = append(list, zk.ACL{Scheme: scheme, ID: rest[:last], Perms: perms})
	}
	return list, nil
}

// digested reports whether the id of a digest entry is one that a user can have. A node with any other id would lock
// out zkr too.
func digested(id string) bool {
	user, hash, _ := strings.Cut(id, ":")
	sum, err := base64.StdEncoding.DecodeString(hash)
	return err == nil && user != "" && len(sum) == sha1.Size
}

// tls returns the TLS configuration, or nil for plain TCP.
func (c *connectFlags) tls() (*tls.Config, error) {
	if c.tlsCA == "" {
		if c.tlsCert != "" || c.tlsKey != "" || c.tlsFor != "" {
			return nil, errors.New("--tls-cert, --tls-key and --tls-server-name need --tls-ca")
		}
		return nil, nil //nolint:nilnil // nil means plain TCP
	}
	pem, err := os.ReadFile(c.tlsCA)
	if err != nil {
		return nil, fmt.Errorf("--tls-ca: %w", err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: c.tlsFor}
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("--tls-ca %s: it contains no PEM certificate", c.tlsCA)
	}
	if (c.tlsCert == "") != (c.tlsKey == "") {
		return nil, errors.New("--tls-cert and --tls-key: use both or neither")
	}
	if c.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(c.tlsCert, c.tlsKey)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
