// Package names is a name server in the process of a test.
package names

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// Server answers queries for IPv4 addresses and SRV records, over stream connections, as with TCP. It knows only the
// names that were set.
type Server struct {
	mu        sync.Mutex
	addresses map[string][]netip.Addr // by name, with the trailing dot
	services  map[string][]net.SRV
	distort   func(answer []byte) []byte
}

// Use makes this process resolve names with the returned server until the test ends. A test that uses it in a bubble
// calls it outside: what package net keeps must not belong to a bubble.
func Use(t *testing.T) *Server {
	t.Helper()
	s := &Server{addresses: map[string][]netip.Addr{}, services: map[string][]net.SRV{}}
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	resolveBy(func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() { _ = s.serve(far) }()
		return near, nil
	})
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "nobody.example.com."); err == nil {
		t.Fatal("the name server knows a name that it was not told")
	}
	return s
}

// Listen makes the names available to other processes, which call UseAt with the address, until the test ends.
func (s *Server) Listen(t *testing.T) (address string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = s.serve(c) }()
		}
	}()
	return l.Addr().String()
}

// UseAt makes this process resolve names with the server at an address.
func UseAt(address string) {
	resolveBy(func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", address) })
}

// resolveBy sends all queries of this process over connections to one name server.
func resolveBy(dial func(ctx context.Context) (net.Conn, error)) {
	net.DefaultResolver = &net.Resolver{
		PreferGo: true,
		Dial:     func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
}

// Set replaces the addresses of a name. Without any, the name exists but has no address.
func (s *Server) Set(name string, addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses[name+"."] = nil
	for _, address := range addresses {
		s.addresses[name+"."] = append(s.addresses[name+"."], netip.MustParseAddr(address))
	}
}

// SetServices replaces the SRV records of a name. Without any, the name does not exist.
func (s *Server) SetServices(name string, records ...net.SRV) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.services, name+".")
	if len(records) > 0 {
		s.services[name+"."] = records
	}
}

// Distort changes each answer before it is sent; nil sends answers unchanged.
func (s *Server) Distort(f func(answer []byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.distort = f
}

func (s *Server) serve(c net.Conn) error {
	defer func() { _ = c.Close() }()
	for {
		size := make([]byte, 2)
		if _, err := io.ReadFull(c, size); err != nil {
			return err
		}
		question := make([]byte, binary.BigEndian.Uint16(size))
		if _, err := io.ReadFull(c, question); err != nil {
			return err
		}
		answer := s.answer(question)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return err
		}
	}
}

// Types of records, and the code for a name that does not exist.
const (
	typeA    = 1
	typeSRV  = 33
	notFound = 3
)

// answer returns the message of RFC 1035 that answers a query.
func (s *Server) answer(question []byte) []byte {
	const header = 12
	name, end := "", header
	for question[end] != 0 {
		size := int(question[end])
		name += string(question[end+1:end+1+size]) + "."
		end += size + 1
	}
	kind := binary.BigEndian.Uint16(question[end+1:])
	end += 5
	s.mu.Lock()
	addresses, known := s.addresses[name]
	services, isService := s.services[name]
	distort := s.distort
	s.mu.Unlock()
	var records [][]byte
	if kind == typeA {
		for _, address := range addresses {
			records = append(records, address.AsSlice())
		}
	}
	if kind == typeSRV {
		for _, service := range services {
			records = append(records, binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0}, service.Port))
			records[len(records)-1] = append(records[len(records)-1], encoded(service.Target)...)
		}
	}
	var status byte
	if !known && !isService {
		status = notFound
	}
	answer := append([]byte{question[0], question[1], 0x81, 0x80 | status, 0, 1}, byte(len(records)>>8),
		byte(len(records)), 0, 0, 0, 0)
	answer = append(answer, question[header:end]...)
	for _, record := range records {
		answer = append(answer, 0xc0, header, 0, byte(kind), 0, 1, 0, 0, 0, 0) // of the requested name, for 0 s
		answer = append(binary.BigEndian.AppendUint16(answer, uint16(len(record))), record...)
	}
	if distort != nil {
		return distort(answer)
	}
	return answer
}

// encoded returns a name as encoded in a message.
func encoded(name string) (labels []byte) {
	for label := range strings.SplitSeq(strings.Trim(name, "."), ".") {
		if label != "" {
			labels = append(append(labels, byte(len(label))), label...)
		}
	}
	return append(labels, 0)
}
