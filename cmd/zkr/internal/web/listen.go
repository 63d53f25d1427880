package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// CheckAddress rejects a string that is not an address to listen on.
func CheckAddress(address string) error {
	if path, is := strings.CutPrefix(address, "unix:"); is {
		if path == "" {
			return errors.New("no socket path")
		}
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err
}

// Listen serves on the addresses until ctx ends or one of them fails. It replaces sockets left behind by killed
// processes.
func (s *Site) Listen(ctx context.Context, addresses []string) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var serving sync.WaitGroup
	defer serving.Wait()
	for _, address := range addresses {
		network := "tcp"
		if path, is := strings.CutPrefix(address, "unix:"); is {
			network, address = "unix", path
			removeStale(ctx, path)
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
		if err != nil {
			fail(err)
			break
		}
		serving.Go(func() { fail(s.serveAt(ctx, l)) })
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// removeStale removes a socket that refuses connections: the process that created it is gone, and no other process
// could listen there.
func removeStale(ctx context.Context, path string) {
	if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSocket == 0 {
		return
	}
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close() // only probing
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path) // if this fails, Listen reports it
	}
}

// serveAt serves on one address until ctx ends.
func (s *Site) serveAt(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.guests.answering(s.ours(l.Addr(), s.known(l.Addr(), s.mux))),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second,
		WriteTimeout: 90 * time.Second, // deleting a contender takes at most a minute; streams have separate limits
		ConnState:    s.guests.admit, ConnContext: withGuest, MaxHeaderBytes: 16 << 10,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // scanners that do not speak TLS, and the like
		BaseContext: func(net.Listener) context.Context { return ctx },   // streams end with it
	}
	s.log.Info("listening", "address", l.Addr().String())
	if at, tcp := l.Addr().(*net.TCPAddr); tcp && s.tls != nil {
		l = tls.NewListener(l, s.tls)
	} else if tcp && s.login != nil && !at.IP.IsLoopback() {
		s.log.Warn("the token and the answers cross the network unencrypted: pass --http-cert and --http-key",
			"address", at.String())
	}
	var stopping sync.WaitGroup
	defer stopping.Wait()
	stopping.Add(1) // the function may run before AfterFunc returns
	stopped := context.AfterFunc(ctx, func() {
		defer stopping.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(last) != nil {
			_ = server.Close() // cut off what has not ended by now
		}
	})
	err := server.Serve(l)
	if stopped() { // the listener failed first
		stopping.Done()
	}
	if errors.Is(err, http.ErrServerClosed) {
		return context.Cause(ctx)
	}
	return err
}

// CheckHost rejects what cannot be the host name of a request.
func CheckHost(name string) error {
	if name == "" || strings.ContainsAny(name, ":/ ") {
		return errors.New("want a name without a port")
	}
	return nil
}

// AllowHosts sets the host names that requests may use. Listeners that are not on the loopback then answer only these
// names, and IP addresses.
func (s *Site) AllowHosts(names []string) { s.hosts = names }

// ours makes a listener answer only requests that name it. Otherwise a web page of another site could have its own name
// resolved to our address, and read the answers in the browser of an operator. A name that is an IP address is not
// resolved.
func (s *Site) ours(address net.Addr, next http.Handler) http.Handler {
	at, tcp := address.(*net.TCPAddr)
	if !tcp || !at.IP.IsLoopback() && len(s.hosts) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		known := ip != nil && (ip.IsLoopback() || !at.IP.IsLoopback())
		if !known && !slices.ContainsFunc(slices.Concat(s.hosts, []string{"localhost"}),
			func(name string) bool { return strings.EqualFold(name, host) }) {
			Reply(w, http.StatusForbidden,
				Failure("Host "+r.Host+": want localhost, 127.0.0.1, or a name that --allow-host allows"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
