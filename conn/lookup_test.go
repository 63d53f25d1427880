package conn_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Name servers that never answer hold Dial up until its context ends.
func TestDial_NameServersThatDoNotAnswer_AreWaitedFor(t *testing.T) {
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := net.DefaultResolver.LookupHost(dead, "zk1.example.org") // what package net keeps must not belong to a bubble
	require.Error(t, err)
	impatient := errors.New("impatient")
	for _, patience := range []time.Duration{time.Minute, 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), patience, impatient)
			defer cancel()
			began := time.Now()
			_, err := conn.Dial(ctx, "zk1.example.org,zk2.example.org")
			require.Equal(t, patience, time.Since(began))
			require.ErrorContains(t, err, "no server name resolves: lookup zk1.example.org")
			require.ErrorIs(t, err, impatient)
		})
	}
}

// nameServer answers questions for IPv4 addresses and SRV records, over connections as for TCP.
type nameServer struct {
	mu        sync.Mutex
	addresses map[string][]netip.Addr // by name, with the last dot
	services  map[string][]net.SRV
}

func (n *nameServer) serves(records ...net.SRV) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.services = map[string][]net.SRV{}
	if len(records) > 0 {
		n.services[srvName+"."] = records
	}
}

func (n *nameServer) set(name string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses[name+"."] = nil
	for _, address := range addresses {
		n.addresses[name+"."] = append(n.addresses[name+"."], netip.MustParseAddr(address))
	}
}

// use makes the names known to this process until the test ends.
func (n *nameServer) use(t *testing.T) {
	t.Helper()
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() { _ = n.serve(far) }()
		return near, nil
	}}
}

func (n *nameServer) serve(c net.Conn) error {
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
		answer := n.answer(question)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return err
		}
	}
}

// answer returns the message of RFC 1035 that answers a question.
func (n *nameServer) answer(question []byte) []byte {
	const header = 12
	name, end := "", header
	for question[end] != 0 {
		size := int(question[end])
		name += string(question[end+1:end+1+size]) + "."
		end += size + 1
	}
	kind := binary.BigEndian.Uint16(question[end+1:])
	end += 5
	n.mu.Lock()
	addresses, known := n.addresses[name]
	services, isService := n.services[name]
	n.mu.Unlock()
	var status byte
	if !known && !isService {
		status = 3 // no such name
	}
	if kind != 1 {
		addresses = nil
	}
	if kind != 33 {
		services = nil
	}
	count := byte(len(addresses) + len(services))
	answer := append([]byte{question[0], question[1], 0x81, 0x80 | status, 0, 1, 0, count, 0, 0, 0, 0}, question[header:end]...)
	for _, service := range services {
		record := binary.BigEndian.AppendUint16([]byte{0, 0, 0, 0}, service.Port)
		for label := range strings.SplitSeq(strings.Trim(service.Target, "."), ".") {
			record = append(append(record, byte(len(label))), label...)
		}
		if service.Target != "." {
			record = append(record, 0)
		}
		answer = append(answer, 0xc0, header, 0, 33, 0, 1, 0, 0, 0, 0, 0, byte(len(record)))
		answer = append(answer, record...)
	}
	for _, address := range addresses {
		answer = append(answer, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
		answer = append(answer, address.AsSlice()...)
	}
	return answer
}

// listenTwice starts a server, and listens on 127.0.0.1 at the same port. Another process may have that port there, so it is tried
// several times.
func listenTwice(t *testing.T, opts ...zktest.Option) (srv *zktest.Server, without net.Listener, port string) {
	t.Helper()
	for tries := 1; ; tries++ {
		srv, err := zktest.Start(opts...)
		if errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Skip("this system has 127.0.0.1 alone:", err)
		}
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(srv.Addr())
		require.NoError(t, err)
		without, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			return srv, without, port
		}
		srv.Close()
		require.Less(t, tries, 10, err)
	}
}

// The first address accepts and hangs up, as a server without a leader does. The client goes on to the second, and TLS verifies the
// name.
func TestDial_NameWithSeveralAddresses_EachIsTried(t *testing.T) {
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close() // its certificate is for example.com
	for name, secured := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			opts := []zktest.Option{zktest.WithListener("127.0.0.2:0")}
			var with []conn.Option
			if secured {
				opts = append(opts, zktest.WithTLS(certificate.TLS))
				roots := x509.NewCertPool()
				roots.AddCert(certificate.Certificate())
				with = append(with, conn.WithTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}))
			}
			srv, without, port := listenTwice(t, opts...)
			defer srv.Close()
			defer func() { _ = without.Close() }()
			go func() {
				for {
					c, err := without.Accept()
					if err != nil {
						return
					}
					_ = c.Close()
				}
			}()
			names := &nameServer{addresses: map[string][]netip.Addr{}}
			names.set("example.com", "127.0.0.1", "127.0.0.2")
			names.use(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			for range 5 { // the order is random
				c, err := conn.Dial(ctx, "example.com:"+port, with...)
				require.NoError(t, err)
				require.Equal(t, "example.com:"+port+" (127.0.0.2)", c.Status().Server)
				require.NoError(t, c.Close())
			}
		})
	}
}
