package parity

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// TestLongestRequest: the longest request is answered, and one that has a byte more ends its connection, by default and
// with jute.maxbuffer. Its header counts, its length does not.
func TestLongestRequest(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]struct {
		bytes     int
		zookeeper []zkserver.Option
		zktest    []zktest.Option
	}{
		"default": {bytes: 1<<20 - 1},
		"set": {
			2000,
			[]zkserver.Option{zkserver.WithProperty("jute.maxbuffer", "2000")},
			[]zktest.Option{zktest.WithMaxBuffer(2000)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for server, addr := range map[string]string{
				"zookeeper": zkserver.Start(t, limit.zookeeper...).Addr(),
				"zktest":    zktest.Run(t, limit.zktest...).Addr(),
			} {
				if answered, err := answers(addr, limit.bytes); !answered || err != nil {
					t.Errorf("%s: %d bytes: answered %v, %v", server, limit.bytes, answered, err)
				}
				if answered, err := answers(addr, limit.bytes+1); answered || err != nil {
					t.Errorf("%s: %d bytes: answered %v, %v", server, limit.bytes+1, answered, err)
				}
			}
		})
	}
}

// answers reports whether a server answers a request of this size. If it does not, it must end the connection.
func answers(addr string, size int) (bool, error) {
	w, err := dial(addr)
	if err != nil {
		return false, err
	}
	defer func() { _ = w.Close() }() // it may have ended
	var hello writer
	hello.int(0)
	hello.long(0)
	hello.int(10_000)
	hello.long(0)
	hello.buffer(make([]byte, 16))
	if _, err := w.Write(framed(hello)); err != nil {
		return false, err
	}
	if _, err := w.read(); err != nil {
		return false, err
	}
	var set writer
	set.int(1)
	set.int(int32(opSetData))
	set.string("/")
	set.buffer(make([]byte, size-len(set)-4-4))
	set.int(-1)
	_, err = w.Write(framed(set))
	if err == nil {
		_, err = w.read()
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return false, nil
	}
	return err == nil, err
}
