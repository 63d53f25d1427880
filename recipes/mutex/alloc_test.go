package mutex_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// frugal is a server for one client. It takes no memory of the heap for an answer, so that a test counts what the client takes.
type frugal struct {
	in    *bufio.Reader
	frame [1 << 10]byte
	reply [1 << 10]byte
	zxid  uint64
	made  int
	name  []byte // of the newest node
}

var noStat [68]byte

// serveFrugally returns the address of such a server.
func serveFrugally(t testing.TB) string {
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
		f := &frugal{in: bufio.NewReader(c)}
		for {
			request, err := f.next()
			if err != nil {
				return
			}
			if _, err = c.Write(f.answer(request)); err != nil {
				return
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

// answer knows what a client asks that is alone in its queue and does not hold for long.
func (f *frugal) answer(request []byte) []byte {
	f.zxid++
	b := append(f.reply[:0], 0, 0, 0, 0)
	if f.zxid == 1 { // it connects: the timeout that it asks for, an id and a password
		b = append(append(b, 0, 0, 0, 0), request[12:16]...)
		b = append(binary.BigEndian.AppendUint64(b, 1), request[24:44]...)
	} else {
		b = binary.BigEndian.AppendUint64(append(b, request[:4]...), f.zxid)
		b = append(b, 0, 0, 0, 0)
		switch op, body := binary.BigEndian.Uint32(request[4:]), request[8:]; op {
		case 1: // create: the path with a number
			length := binary.BigEndian.Uint32(body)
			b = binary.BigEndian.AppendUint32(b, length+10)
			b = append(append(b, body[4:4+length]...), "0000000000"...)
			for i, n := len(b)-1, f.made; n > 0; i, n = i-1, n/10 {
				b[i] += byte(n % 10)
			}
			f.made++
			f.name = append(f.name[:0], b[bytes.LastIndexByte(b, '/')+1:]...)
		case 4: // getData: none
			b = append(append(b, 0, 0, 0, 0), noStat[:]...)
		case 9: // sync
			b = append(b, 0, 0, 0, 1, '/')
		case 12: // getChildren2
			b = binary.BigEndian.AppendUint32(append(b, 0, 0, 0, 1), uint32(len(f.name)))
			b = append(append(b, f.name...), noStat[:]...)
		}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// TestAllocations: what a section costs a client that is alone, and what its two requests cost without a lock.
func TestAllocations(t *testing.T) {
	if bubble.Race {
		t.Skip("the race detector allocates too")
	}
	ctx := t.Context()
	c, err := conn.Dial(ctx, serveFrugally(t), bubble.Silent)
	require.NoError(t, err)
	defer func() { _ = c.Close() }() // never fails
	m, err := mutex.New(c, "/app/lock")
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		f             func(context.Context) error
		bytes, allocs uint64
	}{
		"lock and release": {func(ctx context.Context) error {
			h, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			return h.Release(ctx)
		}, 2800, 46},
		"create and delete": {func(ctx context.Context) error {
			path, err := c.Create(ctx, "/app/lock/_c_01234567-89ab-4cde-8f01-23456789abcd-lock-", nil, zk.FlagEphemeralSequential)
			if err != nil {
				return err
			}
			return c.Delete(ctx, path, -1)
		}, 1060, 16},
	} {
		bytes, allocs := allocated(t, tt.f)
		require.LessOrEqual(t, bytes, tt.bytes, name)
		require.LessOrEqual(t, allocs, tt.allocs, name)
		t.Logf("%s: %d bytes in %d allocations", name, bytes, allocs)
	}
}

// allocated returns what one of many runs of f allocates.
func allocated(t *testing.T, f func(context.Context) error) (bytes, allocs uint64) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // so that no watch is set before the release
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const warm, runs = 100, 1000
	var before, after runtime.MemStats
	for i := range warm + runs {
		if i == warm {
			runtime.ReadMemStats(&before)
		}
		require.NoError(t, f(ctx))
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs, (after.Mallocs - before.Mallocs) / runs
}
