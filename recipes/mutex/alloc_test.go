package mutex_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"
	"net"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// frugal is a server for one client. It allocates nothing on the heap for an answer, so a test counts only what the
// client allocates.
type frugal struct {
	in    *bufio.Reader
	frame [1 << 10]byte
	reply [1 << 10]byte
	zxid  uint64
	made  int
	name  []byte // of the newest node
	czxid uint64 // of the newest node

	busy    bool // another contender is ahead of each new one, and leaves once its watch and that on the own node are set
	watches int  // that the waiter has set
}

// ahead is the name of that contender, up to its sequence number.
const ahead = "_c_01234567-89ab-4cde-8f01-23456789abcd-lock-"

var noStat [68]byte

// serveFrugally starts such a server, and returns its address.
func serveFrugally(t testing.TB, busy bool) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() }) // the test is over
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }() // the client has hung up
		f := &frugal{in: bufio.NewReader(c), busy: busy}
		for {
			request, err := f.next()
			if err != nil {
				return
			}
			if _, err = c.Write(f.answer(request)); err != nil {
				return
			}
			if f.watches == 2 {
				f.watches = 0
				_, _ = c.Write(f.event()) // the next request fails too
			}
		}
	}()
	return listener.Addr().String()
}

// next reads a request.
func (f *frugal) next() ([]byte, error) {
	if _, err := io.ReadFull(f.in, f.frame[:4]); err != nil {
		return nil, err
	}
	request := f.frame[:binary.BigEndian.Uint32(f.frame[:])]
	_, err := io.ReadFull(f.in, request)
	return request, err
}

// answer answers the requests of a client that is alone in its queue and does not hold for long.
func (f *frugal) answer(request []byte) []byte {
	f.zxid++
	b := append(f.reply[:0], 0, 0, 0, 0)
	if f.zxid == 1 { // connect: the timeout that it asks for, an id and a password
		b = append(append(b, 0, 0, 0, 0), request[12:16]...)
		b = append(binary.BigEndian.AppendUint64(b, 1), request[24:44]...)
	} else {
		b = binary.BigEndian.AppendUint64(append(b, request[:4]...), f.zxid)
		b = append(b, 0, 0, 0, 0)
		switch op, body := binary.BigEndian.Uint32(request[4:]), request[8:]; op {
		case 1: // create: the path with a number
			length := binary.BigEndian.Uint32(body)
			b = binary.BigEndian.AppendUint32(b, length+10)
			b = append(b, body[4:4+length]...)
			if f.busy {
				f.made++
			}
			b = appendNumber(b, f.made)
			f.made++
			f.name = append(f.name[:0], b[bytes.LastIndexByte(b, '/')+1:]...)
			f.czxid = f.zxid
		case 4: // getData: no data
			b = append(append(b, 0, 0, 0, 0), noStat[:]...)
			binary.BigEndian.PutUint64(b[len(b)-len(noStat):], f.czxid)
			if f.busy {
				f.watches++
			}
		case 9: // sync
			b = append(b, 0, 0, 0, 1, '/')
		case 12: // getChildren2
			if b = append(b, 0, 0, 0, 1); f.busy {
				b[len(b)-1] = 2
				b = append(binary.BigEndian.AppendUint32(b, uint32(len(ahead)+10)), ahead...)
				b = appendNumber(b, f.made-2)
			}
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(f.name))), f.name...)
			b = append(b, noStat[:]...)
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// event reports that the contender ahead has left.
func (f *frugal) event() []byte {
	b := append(f.reply[:0], 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0)
	b = append(b, 0, 0, 0, 2, 0, 0, 0, 3) // deleted, connected
	b = append(binary.BigEndian.AppendUint32(b, uint32(len("/app/lock/"+ahead)+10)), "/app/lock/"+ahead...)
	b = appendNumber(b, f.made-2)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// appendNumber appends a sequence number.
func appendNumber(b []byte, n int) []byte {
	b = append(b, "0000000000"...)
	for i := len(b) - 1; n > 0; i, n = i-1, n/10 {
		b[i] += byte(n % 10)
	}
	return b
}

// counted is a connection whose writes are counted.
type counted struct {
	net.Conn
	writes *atomic.Int64
}

// NetConn reveals that there is a socket underneath, as a tls.Conn does.
func (c counted) NetConn() net.Conn { return c.Conn }

func (c counted) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

// cost is what one of many runs allocates on the heap, and what else a client does for it.
type cost struct {
	bytes, allocs, writes, goroutines uint64
}

// TestCost measures a section of a client that is alone, and of one that waits for another client, which leaves. For
// comparison it also measures two requests without a lock.
func TestCost(t *testing.T) {
	if bubble.Race {
		t.Skip("the race detector allocates too")
	}
	section := func(_ *conn.Client, m *mutex.Mutex) func(context.Context) error {
		return func(ctx context.Context) error {
			h, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			return h.Release(ctx)
		}
	}
	for name, tt := range map[string]struct {
		busy bool
		f    func(*conn.Client, *mutex.Mutex) func(context.Context) error
		most cost
	}{
		"lock and release":                 {false, section, cost{1600, 23, 2, 1}},
		"lock, wait for an event, release": {true, section, cost{4000, 54, 3, 0}},
		"create and delete": {false, func(c *conn.Client, _ *mutex.Mutex) func(context.Context) error {
			return func(ctx context.Context) error {
				path, err := c.Create(ctx, "/app/lock/"+ahead, nil, zk.FlagEphemeralSequential)
				if err != nil {
					return err
				}
				return c.Delete(ctx, path, -1)
			}
		}, cost{620, 9, 2, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var writes atomic.Int64
			c, err := conn.Dial(t.Context(), serveFrugally(t, tt.busy), bubble.Silent, conn.WithDialer(
				func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, address)
					return counted{c, &writes}, err
				}))
			require.NoError(t, err)
			defer func() { _ = c.Close() }() // never fails
			m, err := mutex.New(c, "/app/lock")
			require.NoError(t, err)
			got := costOf(t, &writes, tt.f(c, m))
			t.Logf("%d bytes in %d allocations, %d writes, %d goroutines", got.bytes, got.allocs, got.writes, got.goroutines)
			require.LessOrEqual(t, got.bytes, tt.most.bytes, "bytes")
			require.LessOrEqual(t, got.allocs, tt.most.allocs, "allocations")
			require.LessOrEqual(t, got.writes, tt.most.writes, "writes")
			require.LessOrEqual(t, got.goroutines, tt.most.goroutines, "goroutines")
		})
	}
}

// costOf returns the lowest cost of many runs of f.
func costOf(t *testing.T, writes *atomic.Int64, f func(context.Context) error) cost {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that no watch is set before the release
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	now := func() cost {
		started := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
		metrics.Read(started)
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		now := cost{mem.TotalAlloc, mem.Mallocs, uint64(writes.Load()), 0}
		if started[0].Value.Kind() == metrics.KindUint64 { // since Go 1.26
			now.goroutines = started[0].Value.Uint64()
		}
		return now
	}
	least := cost{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}
	for range 5 { // on a busy machine, other goroutines run in between
		const warm, runs = 100, 200
		var before cost
		for i := range warm + runs {
			if i == warm {
				before = now()
			}
			require.NoError(t, f(ctx))
		}
		after := now()
		least.bytes = min(least.bytes, (after.bytes-before.bytes)/runs)
		least.allocs = min(least.allocs, (after.allocs-before.allocs)/runs)
		least.writes = min(least.writes, (after.writes-before.writes)/runs)
		least.goroutines = min(least.goroutines, (after.goroutines-before.goroutines)/runs)
	}
	return least
}
