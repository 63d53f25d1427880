// Package resource provides what the locks protect in these tests: sets behind a socket. Client processes read and
// write them under their lock. The server sees all accesses in one order, whatever the clients believe.
package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// Fenced marks the names of sets that reject tokens below the highest token they have seen.
const Fenced = "fenced"

// Request is one line of a client: a read, or the addition of an element.
type Request struct {
	Set     string          `json:"set"`
	Client  string          `json:"client"`
	Token   zkrecipes.Token `json:"token"`
	Element string          `json:"element,omitempty"` // none for a read
	Base    int             `json:"base,omitempty"`
}

// Reply is the answer to a Request.
type Reply struct {
	Version int    `json:"version"`
	Stale   bool   `json:"stale,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Server keeps the sets.
type Server struct {
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	sets  map[string]*check.Set
	conns map[net.Conn]bool
}

// Serve starts a server on a Unix socket at path.
func Serve(path string) (*Server, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, sets: map[string]*check.Set{}, conns: map[net.Conn]bool{}}
	s.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			s.running.Go(func() { Answer(c, s.execute) })
		}
	})
	return s, nil
}

// Set returns the set with that name, which determines whether it is fenced.
func (s *Server) Set(name string) *check.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.sets[name]
	if set == nil {
		set = &check.Set{}
		if strings.HasSuffix(name, Fenced) {
			gate := fence.New(fence.NewMemory())
			set.OnRead = func(token zkrecipes.Token) error { return gate.Admit(context.Background(), "set", token) }
			set.OnAdd = set.OnRead
		}
		s.sets[name] = set
	}
	return set
}

// Close closes the server and all connections.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Answer answers the requests on a connection until the client is gone.
func Answer(c net.Conn, execute func(Request) Reply) {
	defer func() { _ = c.Close() }() // the client may have gone first
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var q Request
		if in.Decode(&q) != nil || out.Encode(execute(q)) != nil {
			return // the client is gone
		}
	}
}

func (s *Server) execute(q Request) (a Reply) {
	var err error
	if q.Element == "" {
		a.Version, err = s.Set(q.Set).Read(q.Token)
	} else {
		err = s.Set(q.Set).Add(q.Client, q.Token, q.Base, q.Element)
	}
	if a.Stale = errors.Is(err, fence.ErrStale); !a.Stale && err != nil {
		a.Error = err.Error()
	}
	return a
}

// Client is the connection of one process. It must not be used concurrently.
type Client struct {
	name string
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

// Dial connects to the server at path.
func Dial(path, name string) (*Client, error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return &Client{name, c, json.NewDecoder(c), json.NewEncoder(c)}, nil
}

// Read returns the version of the set, or fence.ErrStale.
func (c *Client) Read(set string, token zkrecipes.Token) (version int, err error) {
	return c.ask(Request{Set: set, Client: c.name, Token: token})
}

// Add writes the content of version base plus element.
func (c *Client) Add(set string, token zkrecipes.Token, base int, element string) error {
	_, err := c.ask(Request{Set: set, Client: c.name, Token: token, Base: base, Element: element})
	return err
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

func (c *Client) ask(q Request) (int, error) {
	if err := c.out.Encode(q); err != nil {
		return 0, fmt.Errorf("resource %s: %w", q.Set, err)
	}
	var a Reply
	if err := c.in.Decode(&a); err != nil {
		return 0, fmt.Errorf("resource %s: %w", q.Set, err)
	}
	switch {
	case a.Stale:
		return 0, fence.ErrStale
	case a.Error != "":
		return 0, fmt.Errorf("resource %s: %s", q.Set, a.Error)
	}
	return a.Version, nil
}
