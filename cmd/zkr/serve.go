package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/exit"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/web"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zkprom"
)

type serveFlags struct {
	addresses, hosts         []string
	elect, observe, id, root string
	history, tokenFile       string
	keyFile                  string
	encrypted                web.Certificates
	layout                   layoutFlags
	stuck                    duration
	allowBreak               bool
}

func newServe(a *app) *cobra.Command {
	flags := serveFlags{stuck: duration(10 * time.Minute)}
	cmd := &cobra.Command{
		Annotations: map[string]string{service: ""},
		Use:         "serve [flags]",
		Short:       "Serve over HTTP which candidate leads, and show all locks in a browser",
		Example: `  zkr serve --elect /app/leader --id "$POD_NAME"
  zkr serve --observe /app/leader
  zkr serve --elect /app/leader --http :4040 --http unix:/run/zkr/socket
  zkr serve --ui-root /jobs   # then open http://127.0.0.1:4040/ui/`,
		Long: `serve answers HTTP requests. It only reads, except that --elect makes it a candidate, and --allow-break
allows the page to delete contenders. It is a sidecar for programs in any language: the default address
is on the loopback, and reading needs no password unless --http-token-file requires one.

  /         {"name": "..."} of the leader; 503 if it is not known
  /leader   leader, token, since, asOf; 404 if there is no candidate, 503 if the servers do not answer
  /self     200 only while this candidate leads and its deadline lies ahead; else 503
  /events   server-sent events, one for each change of the leader; the id of an event is the token
  /healthz  200 while zkr runs                   /readyz   200 while the servers answer
  /metrics  for Prometheus                       /ui/      all locks and elections below --ui-root, live
  /resign   POST on a unix socket: this candidate resigns, and stands again at the end of the queue

With --allow-break, serve generates a key when it starts, and writes it to --break-key-file or shows it
in the terminal. The page asks for the key, shows the contender, and asks for confirmation before it
deletes the contender, as zkr break does.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), flags) },
	}
	cmd.Flags().StringSliceVar(&flags.addresses, "http", []string{"127.0.0.1:4040"},
		"one or more `address`es to listen on; unix:/path for a socket")
	cmd.Flags().StringSliceVar(&flags.hosts, "allow-host", nil,
		"one or more host `name`s that requests may use for this zkr; "+
			"addresses other than loopback then reject all other names")
	cmd.Flags().StringVar(&flags.tokenFile, "http-token-file", "",
		"`file` with the token that requests to TCP ports need, as a bearer token or password; "+
			"/healthz and /readyz answer everyone")
	cmd.Flags().StringVar(&flags.encrypted.Cert, "http-cert", "",
		"serve TLS on TCP ports, with the certificate in this PEM `file`; it may change")
	cmd.Flags().StringVar(&flags.encrypted.Key, "http-key", "", "PEM `file` with the key of --http-cert")
	cmd.Flags().StringVar(&flags.encrypted.ClientCA, "http-client-ca", "",
		"answer only clients whose certificate is signed by an authority in this PEM `file`")
	cmd.Flags().StringVar(&flags.elect, "elect", "", "be a candidate in the election at this `path`")
	cmd.Flags().StringVar(&flags.observe, "observe", "", "report which candidate leads at this `path`, without being one")
	cmd.Flags().StringVar(&flags.id, "id", "", "`name` of this candidate; default: host/process")
	cmd.Flags().StringVar(&flags.root, "ui-root", "/", "`path` of the subtree that the page shows; empty for no page")
	cmd.Flags().Var(&flags.stuck, "stuck", "wait of the first waiter after which the page marks a queue")
	cmd.Flags().StringVar(&flags.history, "history", "", "`file` in which to keep the changes that the page shows")
	cmd.Flags().BoolVar(&flags.allowBreak, "allow-break", false, "allow a browser that has the key to delete contenders")
	cmd.Flags().StringVar(&flags.keyFile, "break-key-file", "",
		"`file` for the key of --allow-break, readable only by its owner; "+
			"default: show the key in the terminal")
	noEnv(cmd, "allow-break")
	flags.layout.add(cmd)
	return cmd
}

// check rejects flags that cannot be combined.
func (f *serveFlags) check() error {
	if f.elect != "" && f.observe != "" {
		return exit.Usagef("--elect and --observe: use only one of them")
	}
	if f.allowBreak && f.root == "" {
		return exit.Usagef("--allow-break needs the page: want a path for --ui-root")
	}
	if f.keyFile != "" && !f.allowBreak {
		return exit.Usagef("--break-key-file needs --allow-break")
	}
	if f.history != "" && f.root == "" {
		return exit.Usagef("--history needs the page: want a path for --ui-root")
	}
	for _, path := range []string{f.elect, f.observe, f.root} {
		if path != "" && validPaths(path) != nil {
			return validPaths(path)
		}
	}
	if len(f.addresses) == 0 {
		return exit.Usagef("--http: want an address to listen at")
	}
	if err := checkAddresses("http", f.addresses); err != nil {
		return err
	}
	for _, name := range f.hosts {
		if err := web.CheckHost(name); err != nil {
			return exit.Usagef("--allow-host %s: %v", name, err)
		}
	}
	if (f.encrypted.Cert == "") != (f.encrypted.Key == "") {
		return exit.Usagef("--http-cert and --http-key: use both or neither")
	}
	if f.encrypted.ClientCA != "" && f.encrypted.Cert == "" {
		return exit.Usagef("--http-client-ca needs --http-cert")
	}
	_, err := f.layout.check()
	return err
}

// secure sets who may use the site, and whether it is encrypted.
func (f *serveFlags) secure(site *web.Site) error {
	if f.tokenFile != "" {
		if err := site.RequireToken(f.tokenFile); err != nil {
			return exit.Usagef("--http-token-file: %v", err)
		}
	}
	if f.encrypted.Cert != "" {
		if err := site.Encrypt(f.encrypted); err != nil {
			return exit.Usagef("%v", err)
		}
	}
	return nil
}

func (a *app) serve(parent context.Context, flags serveFlags) error {
	if err := flags.check(); err != nil {
		return err
	}
	if flags.allowBreak && flags.keyFile == "" && !isTerminal(a.err) {
		return exit.Usagef(
			"--allow-break: standard error is not a terminal, and the key must not end up in a log: pass --break-key-file")
	}
	ctx, done := a.signals.Context(parent)
	defer done()
	metrics, err := zkprom.New()
	if err != nil {
		return err
	}
	options := []conn.Option{conn.WithTracer(metrics.Tracer())}
	if flags.id != "" {
		options = append(options, conn.WithIdentity(flags.id))
	}
	client, err := a.dial(ctx, options...)
	if err != nil {
		return err
	}
	defer client.Close()
	site := a.newSite(client, metrics)
	site.AllowHosts(flags.hosts)
	if err := flags.secure(site); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer fail(nil)
	if flags.root != "" {
		if err := a.showQueues(client, flags, site); err != nil {
			return err
		}
		running.Go(func() { site.Follow(ctx) })
	}
	if path := flags.elect + flags.observe; path != "" {
		e, err := flags.layout.election(client, path)
		if err != nil {
			return err
		}
		site.TellLeader(e)
		if flags.elect != "" {
			site.TakeResignations()
			running.Go(func() { fail(site.Stand(ctx, e, path)) })
		}
	} else if flags.root != "" {
		site.Handle("GET /{$}", http.RedirectHandler("/ui/", http.StatusFound))
	}
	return site.Listen(ctx, flags.addresses)
}

// showQueues adds the page to the site.
func (a *app) showQueues(client *conn.Client, flags serveFlags, site *web.Site) error {
	live, err := survey.Follow(client, flags.root)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	b, err := a.newBreaker(client, flags.root, flags.allowBreak, flags.keyFile)
	if err != nil {
		return err
	}
	return site.ShowQueues(web.Queues{
		Live: live, Root: flags.root, Stuck: time.Duration(flags.stuck), Break: b, MayBreak: b.allowed(),
		Status: client.Status, History: flags.history,
		Explain: func(err error) string { return exit.AsFlags.Replace(err.Error()) },
		Shards: func(ctx context.Context, path string) (web.Shards, error) {
			v, err := readShards(ctx, client, path, live.Ahead())
			return web.Shards{View: v, Verdict: v.Verdict, Words: v.Words, StandsFor: v.tells}, err
		},
	})
}
