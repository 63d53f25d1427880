package session_test

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/internal/testkit/trial"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/zktest"
)

const large = 150 // larger than any reply without data

// spoils changes the first large reply in place.
func spoils(change func(frame []byte)) trial.Pipe {
	var once sync.Once
	return trial.Pipe{OnRead: func(frame []byte) {
		if len(frame) > large {
			once.Do(func() { change(frame) })
		}
	}}
}

// withData creates a node whose data make a large reply.
func withData(t *testing.T, srv *zktest.Server, size int) []byte {
	t.Helper()
	data := make([]byte, size)
	for i := range data {
		data[i] = 'x'
	}
	_, err := srv.Create("/a", data, zktest.Persistent)
	require.NoError(t, err)
	return data
}

// A server that sends garbage is abandoned, and the call continues on another connection.
func TestFrames_ThatAreNone_EndTheConnection(t *testing.T) {
	for name, change := range map[string]func(frame []byte){
		"shorter than a header": func(frame []byte) {
			clear(frame)
			binary.BigEndian.PutUint32(frame, 3)
			binary.BigEndian.PutUint32(frame[7:], uint32(len(frame)-11)) // the rest would pass for a frame
		},
		"of a negative length": func(frame []byte) { frame[0] |= 0x80 },
		"an event that is none": func(frame []byte) {
			binary.BigEndian.PutUint32(frame[4:], 1<<32-1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			trial.Run(t, func(t *testing.T, srv *zktest.Server) {
				want := withData(t, srv, 200)
				c := trial.Dial(t, srv, trial.Through(srv, spoils(change)))
				l := trial.States(t, c)
				data, _, err := c.Get(trial.Within(t, trial.Timeout), "/a")
				require.NoError(t, err)
				require.Equal(t, want, data)
				require.Contains(t, l.Values(), zkrecipes.Suspended)
			})
		})
	}
}

// torn is a connection that ends in the middle of a large reply.
type torn struct {
	net.Conn
	keeps int // bytes of the reply
	whole *atomic.Bool
}

func (c torn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > large && !c.whole.Swap(true) {
		_ = c.Close()
		return c.keeps, err
	}
	return n, err
}

func TestReply_TornOff_IsNoAnswer(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		want := withData(t, srv, 200)
		var whole atomic.Bool
		c := trial.Dial(t, srv, conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := srv.DialAs(trial.Label)(ctx, network, address)
			return torn{raw, 200, &whole}, err
		}))
		data, stat, err := c.Get(trial.Within(t, trial.Timeout), "/a")
		require.NoError(t, err)
		require.True(t, whole.Load())
		require.Equal(t, want, data)
		require.EqualValues(t, len(want), stat.DataLength)
	})
}

// A frame above the limit that answers no request may be an event. Its watch fires, since every watch does on a new
// connection.
func TestMaxReplySize_FrameWithoutARequest_EndsTheConnection(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		withData(t, srv, 5000)
		c := trial.Dial(t, srv, conn.WithMaxReplySize(4<<10), trial.Through(srv, spoils(func(frame []byte) {
			binary.BigEndian.PutUint32(frame[4:], 1<<32-1)
		})))
		l := trial.States(t, c)
		_, _, err := c.Get(trial.Within(t, trial.Timeout), "/a")
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
		require.Contains(t, l.Values(), zkrecipes.Suspended)
	})
}

// A connection that ends in the header of a reply above the limit does not reveal which request the reply answers.
func TestMaxReplySize_TornOff_IsNoAnswer(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		withData(t, srv, 5000)
		var whole atomic.Bool
		c := trial.Dial(t, srv, conn.WithMaxReplySize(4<<10),
			conn.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				raw, err := srv.DialAs(trial.Label)(ctx, network, address)
				return torn{raw, 10, &whole}, err
			}))
		_, _, err := c.Get(trial.Within(t, trial.Timeout), "/a")
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge, "the second time")
		require.NotErrorIs(t, c.Status().LastError, zkrecipes.ErrTooLarge)
	})
}

func TestMaxReplySize_ReplyOfThatSize_IsTaken(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		const beside = 16 + 4 + 68 // the header, the length of the data, the Stat
		withData(t, srv, 4<<10-beside)
		c := trial.Dial(t, srv, conn.WithMaxReplySize(4<<10))
		_, _, err := c.Get(t.Context(), "/a")
		require.NoError(t, err)
		require.NoError(t, srv.Set("/a", make([]byte, 4<<10-beside+1)))
		_, _, err = c.Get(t.Context(), "/a")
		require.ErrorIs(t, err, zkrecipes.ErrTooLarge)
	})
}

func TestPing_AnsweredWithoutOne_IsSkipped(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		withData(t, srv, 200)
		c := trial.Dial(t, srv,
			trial.Through(srv, spoils(func(frame []byte) { binary.BigEndian.PutUint32(frame[4:], 1<<32-2) })))
		_, _, err := c.Get(trial.Within(t, time.Second), "/a")
		require.ErrorIs(t, err, trial.ErrTooLong, "what was asked is not answered")
		_, _, err = c.Get(trial.Within(t, time.Second), "/a")
		require.NoError(t, err)
	})
}

// Requests are sent only after each credential is answered.
func TestCredential_AnotherAnswer_EndsTheConnection(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		connects := trial.Requests(srv, zktest.OpConnect)
		var once sync.Once
		trial.Dial(t, srv, conn.WithAuth("digest", "a:b"), trial.Through(srv, trial.Pipe{OnRead: func(frame []byte) {
			if len(frame) == 20 && int32(binary.BigEndian.Uint32(frame[4:])) == -4 {
				once.Do(func() { binary.BigEndian.PutUint32(frame[4:], 1) })
			}
		}}))
		require.Len(t, connects.All(), 2)
	})
}

// hangsUp is a connection to a server that resets it immediately.
type hangsUp struct{ net.Conn }

func (hangsUp) Read([]byte) (int, error) { return 0, syscall.ECONNRESET }

type hangsUpTLS struct{ hangsUp }

func (c hangsUpTLS) NetConn() net.Conn { return c.Conn }

func TestDial_ServerResets_SaysWhatThatMayMean(t *testing.T) {
	trial.Run(t, func(t *testing.T, _ *zktest.Server) {
		said := func(wrap func(net.Conn) net.Conn) string {
			_, err := conn.Dial(soon(t), "h1:2181", conn.WithDialer(func(context.Context, string, string) (net.Conn, error) {
				return wrap(trial.Silent()), nil
			}))
			require.ErrorIs(t, err, syscall.ECONNRESET)
			require.ErrorContains(t, err, "the server closed the connection without an answer")
			return err.Error()
		}
		require.Contains(t, said(func(c net.Conn) net.Conn { return hangsUp{c} }), "is this a TLS port?")
		require.NotContains(t, said(func(c net.Conn) net.Conn { return hangsUpTLS{hangsUp{c}} }), "is this a TLS port?")
	})
}

// A garbled answer to a sync proves nothing, but does not justify giving up.
func TestProve_AnswerGarbled_AsksAgain(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		var garble atomic.Bool
		s := trial.Live(t, trial.Dial(t, srv, trial.Through(srv, garbles(&garble))))
		time.Sleep(time.Minute)
		garble.Store(true)
		time.AfterFunc(time.Second, func() { garble.Store(false) })
		require.NoError(t, s.Prove(trial.Within(t, trial.Timeout)))
	})
}

func TestMulti_AccessListOfARequest_IsKept(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		_, err := trial.Dial(t, srv).Multi(t.Context(), zkrecipes.OpCreate("/a", nil, 0, zk.WorldACL(zk.PermRead)...),
			zkrecipes.OpCreate("/b", nil, 0))
		require.NoError(t, err)
		a, _ := srv.Node("/a")
		b, _ := srv.Node("/b")
		require.EqualValues(t, zk.PermRead, a.ACL[0].Perms)
		require.EqualValues(t, zk.PermAll, b.ACL[0].Perms)
	})
}

// The server answers that the node does not exist, and then answers the check for its creation with an unreadable
// reply.
func TestFollow_GarbledExists_IsAnError(t *testing.T) {
	trial.Run(t, func(t *testing.T, srv *zktest.Server) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		missing, garbled := 0, 0
		c := trial.Dial(t, srv, trial.Through(srv, trial.Pipe{OnRead: func(frame []byte) {
			if len(frame) != 20 || int32(binary.BigEndian.Uint32(frame[16:])) != -101 {
				return
			}
			if missing++; missing%2 == 0 { // the exists that follows each get
				// According to the header it exists, but it lacks a Stat.
				binary.BigEndian.PutUint32(frame[16:], 0)
				if garbled++; garbled == 100 {
					cancel()
				}
			}
		}}))
		for _, err := range c.Watch(ctx, "/a") {
			require.Error(t, err)
			break
		}
		require.Equal(t, 1, garbled, "it was told, and not asked for again and again")
	})
}
