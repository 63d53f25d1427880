package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// daemon is a server with its addresses, and the rules that commands have created.
type daemon struct {
	srv   *zktest.Server
	addrs string      // what clients connect to: the first door, or the fronts
	tls   *tls.Config // nil means plain TCP
	quit  chan struct{}
	end   func()      // closes quit
	last  atomic.Bool // the command quit was given; its answer is the last
	wg    sync.WaitGroup
	http  *http.Server
	url   string // of the HTTP endpoint; may be empty

	mu    sync.Mutex // guards what follows
	doors []*door    // the first one has no label, unless there are fronts
	rules []*rule
}

// door is an address of the server. Connections through it carry its label.
type door struct {
	label, addr string
	listener    net.Listener // nil while the door is shut
	done        chan struct{}
}

func start(c config, errs io.Writer) (*daemon, error) {
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	secure, err := c.tls()
	if err != nil {
		return nil, err
	}
	if secure != nil {
		options = append(options, zktest.WithTLS(secure))
	}
	report := func(err error) { say(errs, "violation: %v", err) }
	srv, err := zktest.Start(append(options, zktest.OnViolation(report))...)
	if err != nil {
		return nil, err
	}
	d := &daemon{srv: srv, tls: secure, addrs: srv.Addrs(), quit: make(chan struct{})}
	d.end = sync.OnceFunc(func() { close(d.quit) })
	if c.fronts == 1 {
		var x *door
		if x, err = d.listen("", c.addr); err == nil {
			d.addrs = x.addr
		}
	}
	if err == nil && c.http != "" {
		err = d.serveHTTP(c.http)
	}
	if err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// ready returns the line that announces where the server listens.
func (d *daemon) ready() string {
	line := "ready " + d.addrs
	if d.url != "" {
		line += " " + d.url
	}
	return line
}

func (d *daemon) close() {
	if d.http != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) //nolint:forbidigo // shutting down
		// Commands that take longer end with the process.
		_ = d.http.Shutdown(ctx)
		cancel()
	}
	d.srv.Close()
	d.wg.Wait()
}

// listen adds a door and opens it.
func (d *daemon) listen(label, addr string) (*door, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.ContainsFunc(d.doors, func(x *door) bool { return x.label == label }) {
		return nil, fmt.Errorf("label %s is taken", label)
	}
	x := &door{label: label, addr: addr}
	if err := d.open(x); err != nil {
		return nil, err
	}
	d.doors = append(d.doors, x)
	return x, nil
}

// listening reports whether the door is open, which ends when its listener fails. The caller holds mu.
func (x *door) listening() bool {
	if x.listener == nil {
		return false
	}
	select {
	case <-x.done:
		return false
	default:
		return true
	}
}

// open listens on the address unless the door is already open. The caller holds mu.
func (d *daemon) open(x *door) error {
	if x.listening() {
		return nil
	}
	l, err := net.Listen("tcp", x.addr)
	if err != nil {
		return err
	}
	x.addr = l.Addr().String() // the next time, use the same port
	if d.tls != nil {
		l = tls.NewListener(l, d.tls)
	}
	done := make(chan struct{})
	x.listener, x.done = l, done
	d.wg.Go(func() {
		defer close(done)
		_ = d.srv.ServeAs(x.label, l) // ends when the door is shut or the server is closed
	})
	return nil
}

// shut closes a door: it refuses new connections and ends the existing ones. The caller holds mu.
func (d *daemon) shut(x *door) {
	if x.listener != nil {
		_ = x.listener.Close() // Serve reports the error
		<-x.done               // from now on no connection can be accepted
		x.listener = nil
	}
	if x.label != "" {
		d.srv.Cut(zktest.Label(x.label))
	}
}

// setAll opens or shuts the whole server.
func (d *daemon) setAll(opened bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !opened {
		d.srv.Down()
	}
	var errs []error
	if fronts := d.srv.Fronts(); len(fronts) > 1 {
		for _, f := range fronts {
			errs = append(errs, setFront(f, opened))
		}
	}
	for _, x := range d.doors {
		errs = append(errs, d.setDoor(x, opened))
	}
	if opened {
		d.srv.Up()
	}
	return errors.Join(errs...)
}

func setFront(f *zktest.Front, opened bool) error {
	if opened {
		return f.Start()
	}
	f.Stop()
	return nil
}

// setDoor opens or shuts a door. The caller holds mu.
func (d *daemon) setDoor(x *door, opened bool) error {
	if opened {
		return d.open(x)
	}
	d.shut(x)
	return nil
}

// set opens or shuts what the word names: a front by its number, a label, or everything if the word is empty.
func (d *daemon) set(word string, opened bool) error {
	if word == "" {
		return d.setAll(opened)
	}
	if _, err := strconv.Atoi(word); err == nil {
		f, err := d.front(word)
		if err != nil {
			return err
		}
		return setFront(f, opened)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.doors, func(x *door) bool { return x.label == word })
	if i < 0 {
		return noLabel(word)
	}
	return d.setDoor(d.doors[i], opened)
}

// front returns a front by its number, counting from 1.
func (d *daemon) front(word string) (*zktest.Front, error) {
	fronts := d.srv.Fronts()
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 || n > len(fronts) || len(fronts) == 1 {
		return nil, fmt.Errorf("no front %s: with -fronts 3 there are 1, 2 and 3", word)
	}
	return fronts[n-1], nil
}

func noLabel(label string) error {
	return fmt.Errorf("no listener has the label %q: the command listen opens one", label)
}

// longestLine is the limit of a command in bytes: the data of a node may be a megabyte, plus escapes.
const longestLine = 8 << 20

// converse runs the commands read from in until it ends, and writes their answers to out.
func (d *daemon) converse(in io.Reader, out io.Writer) (failed bool) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		answer, err := d.answer(lines.Text())
		failed = failed || err != nil
		if _, err := out.Write(answer); err != nil {
			return true // the reader is gone
		}
		if d.last.Load() {
			d.end()
			return failed
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a command exceeds %d bytes, and no other command can follow it", longestLine)
		}
		_, _ = fmt.Fprintf(out, "error: %v\n", err) // the conversation ends either way
		return true
	}
	return failed
}

// answer runs the command in a line. The answer includes the error.
func (d *daemon) answer(line string) ([]byte, error) {
	var answer bytes.Buffer
	values := json.NewEncoder(&answer)
	values.SetEscapeHTML(false)
	err := d.do(line, func(v any) {
		if t, ok := v.(text); ok {
			fmt.Fprintln(&answer, t)
			return
		}
		_ = values.Encode(v) // a buffer accepts everything
	})
	if err != nil {
		fmt.Fprintf(&answer, "error: %s\n", oneLine(err.Error()))
	} else {
		fmt.Fprintln(&answer, "ok")
	}
	return answer.Bytes(), err
}

// oneLine joins lines, and escapes other characters that end a line or control a terminal: the word of a command, which
// an error repeats, may contain any.
func oneLine(text string) string {
	var line strings.Builder
	for _, r := range strings.ReplaceAll(text, "\n", "; ") {
		if unicode.IsPrint(r) {
			line.WriteRune(r)
		} else {
			line.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return line.String()
}

// ours serves requests whose Host names this machine: a name or address of the loopback, the name in the flag, or a
// listening address. If an attacker's name resolves to this machine, a browser sends that name instead.
func ours(handler http.Handler, listener net.Addr, flag string) http.Handler {
	listens, _, _ := net.SplitHostPort(listener.String()) // a TCP address always has a port
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostname(r.Host)
		ip := net.ParseIP(host)
		switch own := net.ParseIP(listens); {
		case strings.EqualFold(host, "localhost"), strings.EqualFold(host, hostname(flag)), ip.IsLoopback(),
			ip != nil && (own.IsUnspecified() || own.Equal(ip)):
			handler.ServeHTTP(w, r)
		default:
			http.Error(w, fmt.Sprintf("error: host %q is not this server: want localhost, its address, or the name in -http",
				r.Host), http.StatusForbidden)
		}
	})
}

func hostname(hostport string) string { return (&url.URL{Host: hostport}).Hostname() }

// serveHTTP runs the commands that are posted.
func (d *daemon) serveHTTP(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	d.url = "http://" + l.Addr().String() + "/"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		d.converse(strings.NewReader("help"), w)
	})
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		var answer bytes.Buffer
		failed := d.converse(r.Body, &answer)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if failed {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write(answer.Bytes()) // the client may be gone
	})
	d.http = &http.Server{
		Handler: http.NewCrossOriginProtection().Handler(ours(mux, l.Addr(), addr)),
		// A command may take as long as its argument specifies.
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute,
	}
	d.wg.Go(func() { _ = d.http.Serve(l) }) // ends with close
	return nil
}
