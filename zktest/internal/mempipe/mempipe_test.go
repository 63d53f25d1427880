package mempipe

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func pipe(t *testing.T) (a, b *Conn) {
	t.Helper()
	a, b = New(&net.TCPAddr{Port: 1}, &net.TCPAddr{Port: 2})
	t.Cleanup(func() {
		_ = a.Close()
		_ = b.Close()
	})
	return a, b
}

func TestConn_WriteDoesNotWaitForTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t)
		n, err := a.Write(make([]byte, streamSize))
		require.NoError(t, err)
		require.Equal(t, streamSize, n)
		require.NoError(t, a.SetWriteDeadline(time.Now().Add(time.Second)))
		start := time.Now()
		n, err = a.Write([]byte("more"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Zero(t, n)
		require.Equal(t, time.Second, time.Since(start))
		require.NoError(t, a.SetWriteDeadline(time.Time{}))
		time.AfterFunc(time.Second, func() { _, _ = io.CopyN(io.Discard, b, 4) })
		_, err = a.Write([]byte("more"))
		require.NoError(t, err)
	})
}

func TestConn_BytesArriveInOrderWhateverTheSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t)
		const total = 5 * streamSize
		var wg sync.WaitGroup
		wg.Go(func() {
			p := make([]byte, 0, 1000)
			for i := 0; i < total; {
				p = p[:0]
				for len(p) < 1000 && i < total {
					p = append(p, byte(i*7))
					i++
				}
				_, _ = a.Write(p)
			}
			_ = a.Close()
		})
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Len(t, got, total)
		for i, c := range got {
			if c != byte(i*7) {
				t.Fatalf("byte %d is %d", i, c)
			}
		}
		wg.Wait()
	})
}

func TestConn_Close_LetsThePeerReadTheRestAndWriteNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pipe(t)
		_, err := a.Write([]byte("bye"))
		require.NoError(t, err)
		require.NoError(t, a.Close())
		_, err = a.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = a.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, "bye", string(got))
		_, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
	})
}

func TestConn_Deadline_EndsAReadThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := pipe(t)
		start := time.Now()
		time.AfterFunc(time.Second, func() { _ = a.SetDeadline(time.Now()) })
		_, err := a.Read(make([]byte, 1))
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		require.True(t, timeout.Timeout())
		require.Equal(t, time.Second, time.Since(start))
	})
}
