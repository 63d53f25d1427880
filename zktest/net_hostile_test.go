package zktest

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// TestHostileFrames_HurtTheirConnectionOnly: a request that no client sends gets an error, or its connection ends. The
// server survives, and allocates no more than the size of what has arrived.
func TestHostileFrames_HurtTheirConnectionOnly(t *testing.T) {
	length := func(n uint32, rest ...byte) []byte { return append(binary.BigEndian.AppendUint32(nil, n), rest...) }
	request := func(fill func(*proto.Encoder)) []byte {
		var e proto.Encoder
		start := e.Begin()
		fill(&e)
		e.End(start)
		return e.B
	}
	body := func(op Op, fill func(*proto.Encoder)) []byte {
		return request(func(e *proto.Encoder) { e.Int32(1); e.Int32(int32(op)); fill(e) })
	}
	for name, p := range map[string][]byte{
		"negative length":         length(0xffffffff),
		"length above the buffer": length(defaultMaxBuffer + 1),
		"largest length":          length(0x7fffffff, 1, 2, 3),
		"no header":               length(0),
		"half a header":           length(6, 0, 0, 0, 1, 0, 0),
		"negative string length":  body(OpGetData, func(e *proto.Encoder) { e.Int32(-2) }),
		"string out of the frame": body(OpGetData, func(e *proto.Encoder) { e.Int32(1 << 30) }),
		"negative count": body(OpCreate, func(e *proto.Encoder) {
			e.Str("/a")
			e.Bytes(nil)
			e.Int32(-7)
			e.Int32(0)
		}),
		"count out of the frame": body(OpCreate, func(e *proto.Encoder) {
			e.Str("/a")
			e.Bytes(nil)
			e.Int32(1 << 28)
		}),
		"count of paths":  body(OpSetWatches, func(e *proto.Encoder) { e.Int64(0); e.Int32(0x7fffffff) }),
		"truncated multi": body(OpMulti, func(e *proto.Encoder) { e.Int32(1) }),
		"endless multi":   body(OpMulti, func(e *proto.Encoder) { putPart(e, OpDelete, false) }),
		"unknown code":    body(12345, func(*proto.Encoder) {}),
		"garbage":         length(16, []byte("GET / HTTP/1.1\r\n")...),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *Server, r *raw) {
				other := attachRaw(t, s, "", 10*time.Second)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err := r.nc.Write(p)
				require.NoError(t, err)
				if name == "largest length" || name == "no header" {
					synctest.Wait()
				}
				if reply, err := r.recv(); err == nil {
					require.Negative(t, parseFrame(reply).code)
				}
				runtime.ReadMemStats(&after)
				require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
				require.Equal(t, CodeOK, other.do(OpPing, nil))
				require.Len(t, s.Sessions(), 2, "the session outlives its connection")
			})
		})
	}
}

func TestHandshake_Garbage_EndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		for _, p := range []string{"\x00\x00\x00\x04abcd", "\xff\xff\xff\xff", "GET / HTTP/1.1\r\n\r\n"} {
			r := dialRaw(t, s, "")
			_, err := r.nc.Write([]byte(p))
			require.NoError(t, err)
			r.closed()
		}
		require.Empty(t, s.Sessions())
	})
}

func TestFrame_OfTheGreatestLength_IsServed(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Server, r *raw) {
		overhead := 8 + 4 + len("/big") + 4 + 4 + 4 + 4 + len("world") + 4 + len("anyone") + 4 + 4
		create := func(n int) func(*proto.Encoder) {
			return func(e *proto.Encoder) {
				e.Str("/big")
				e.Bytes(make([]byte, n))
				putACLs(e, anyone)
				e.Int32(0)
			}
		}
		n := defaultMaxBuffer - overhead + 4 // the length itself does not count
		for n+overhead-4 > defaultMaxBuffer {
			n--
		}
		require.Equal(t, CodeOK, r.do(OpCreate, create(n-4)))
		f, _ := r.call(OpGetData, watchBody("/big", false))
		require.Len(t, f.body.Bytes(), n-4)
	})
}

func TestMaxBuffer_LongerRequest_EndsItsConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Server, r *raw) {
		r.make("/big", Persistent)
		require.Equal(t, CodeOK, r.do(OpSetData, setBody("/big", make([]byte, 2<<20-100), -1)))
		_, err := r.nc.Write(binary.BigEndian.AppendUint32(nil, 2<<20+1))
		require.NoError(t, err)
		r.closed()
	}, WithMaxBuffer(2<<20))
}

// FuzzConnection feeds bytes to a connection, before or after the handshake. The server must continue to serve others,
// keep its invariants, and close when asked to.
func FuzzConnection(f *testing.F) {
	frameOf := func(fill func(*proto.Encoder)) []byte {
		var e proto.Encoder
		start := e.Begin()
		fill(&e)
		e.End(start)
		return e.B
	}
	seed := func(op Op, fill func(*proto.Encoder)) {
		f.Add(true, frameOf(func(e *proto.Encoder) { e.Int32(1); e.Int32(int32(op)); fill(e) }))
	}
	f.Add(false, []byte("ruok"))
	f.Add(false, frameOf(func(e *proto.Encoder) { e.Int32(0); e.Int64(0); e.Int32(1); e.Int64(0); e.Bytes(nil) }))
	f.Add(true, []byte{0x7f, 0xff, 0xff, 0xff})
	seed(OpCreate, createBody("/a", EphemeralSequential))
	seed(OpCreateTTL, createTTLBody("/t", PersistentTTL, 5))
	seed(OpMulti, multiBody(part{OpCreate, createBody("/m", 0)}, part{OpDelete, versionBody("/m", -1)},
		part{OpCheck, versionBody("/", -1)}))
	seed(OpMultiRead, multiBody(part{OpGetData, watchBody("/", false)}, part{OpGetChildren, watchBody("/", true)}))
	seed(OpSetWatches2, func(e *proto.Encoder) {
		e.Int64(0)
		for range 5 {
			e.Strs([]string{"/", "/x"})
		}
	})
	seed(OpSetACL, func(e *proto.Encoder) { e.Str("/"); putACLs(e, anyone); e.Int32(-1) })
	seed(OpAuth, func(e *proto.Encoder) { e.Int32(0); e.Str("digest"); e.Bytes([]byte("u:p")) })
	seed(OpAddWatch, versionBody("/", 1))
	seed(OpRemoveWatches, versionBody("/", 3))
	seed(OpGetEphemerals, pathBody("/"))
	seed(OpCloseSession, func(*proto.Encoder) {})
	f.Fuzz(func(t *testing.T, attached bool, p []byte) {
		s, err := Start(InMemory(), WithExtendedTypes(), OnViolation(func(err error) {
			if !errors.Is(err, ErrMisuse) {
				t.Error(err)
			}
		}))
		require.NoError(t, err)
		defer s.Close()
		r := dialRaw(t, s, "")
		if attached {
			require.True(t, r.connect(0, time.Second, 0, nil))
		}
		_, _ = r.nc.Write(p) // the server may have closed it already
		_ = r.nc.Close()
		require.Equal(t, CodeOK, attachRaw(t, s, "", time.Second).do(OpPing, nil))
	})
}

// TestRequestsWithoutAnAnswer: a real server answers none of these requests.
func TestRequestsWithoutAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		release Release
		op      Op
		body    func(*proto.Encoder)
		closed  bool
		misuse  string
	}{
		"check outside a multi": {"3.8.0", OpCheck, versionBody("/", -1), false, "check of / outside of a multi"},
		"SASL without a token":  {Release39, OpSASL, func(e *proto.Encoder) { e.Bytes(nil) }, true, ""},
		"SASL without a body":   {Release39, OpSASL, nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *Server, r *raw) {
				if r.ask(c.op, c.body); c.closed {
					r.closed()
				} else {
					require.Equal(t, CodeOK, r.do(OpExists, watchBody("/", false)))
				}
				require.False(t, s.Exists("/a"))
				if c.misuse == "" {
					require.Empty(t, s.Violations())
				} else {
					require.Len(t, s.Violations(), 1)
					require.ErrorContains(t, s.Violations()[0], c.misuse)
				}
			}, WithRelease(c.release))
		})
	}
}

func TestCreateTTL_WithAnotherMode_IsMisuse(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		require.Equal(t, CodeBadArguments, r.do(OpCreateTTL, createTTLBody("/a", Ephemeral, 1)))
		require.False(t, s.Exists("/a"))
		require.Len(t, s.Violations(), 1)
		require.ErrorIs(t, s.Violations()[0], ErrMisuse)
		require.ErrorContains(t, s.Violations()[0], "want a mode with a time to live")
	})
}

// TestSetWatches_NullList: the lists are processed one by one until one of them is null.
func TestSetWatches_NullList(t *testing.T) {
	inBubble(t, func(t *testing.T, s *Server, r *raw) {
		f, events := r.call(OpSetWatches, func(e *proto.Encoder) {
			e.Int64(0)
			e.Strs([]string{"/gone", "/zookeeper"})
			e.Int32(-1)
			e.Int32(0)
		})
		require.Equal(t, CodeMarshallingError, f.code)
		require.Equal(t, []event{{NodeDeleted, "/gone"}}, events)
		require.Equal(t, []int64{r.session}, s.Watchers("/zookeeper"))
	})
}
