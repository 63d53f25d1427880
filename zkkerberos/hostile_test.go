package zkkerberos

import (
	"bytes"
	"context"
	"encoding/binary"
	"log/slog"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/sasl"
)

// answer returns what a server sends for a token with the xid.
type answer func(xid uint32) []byte

func says(token []byte) answer {
	return func(xid uint32) []byte { return bubble.Token(xid, token) }
}

// always has answers that are wrong at each step, by the client's error for them.
var always = map[string]answer{
	"no answer to a SASL token": func(xid uint32) []byte { return bubble.Token(xid+1, []byte("more")) },
	"malformed reply": func(xid uint32) []byte {
		return bubble.Frame(bubble.Token(xid, []byte("more"))[4:22])
	},
	"a frame of 2147483647 bytes": func(uint32) []byte {
		return append(binary.BigEndian.AppendUint32(nil, math.MaxInt32), make([]byte, 1<<21)...)
	},
	"a frame of -1 bytes":    func(uint32) []byte { return bytes.Repeat([]byte{0xff}, 1<<21) },
	"a frame of 65556 bytes": says(make([]byte, 1<<16)),
	"did not answer":         func(uint32) []byte { return nil },
	"EOF":                    func(uint32) []byte { return []byte{} },
	"(-115)":                 func(xid uint32) []byte { return bubble.Refusal(xid, -115) },
	"(-124)":                 func(xid uint32) []byte { return bubble.Refusal(xid, -124) },
}

// Against a server that is hostile at any step, the client gives up in time, reads little more than the longest token,
// makes no request, and sends no key.
func TestHostileServer(t *testing.T) {
	t.Parallel()
	key := fakeTicket().key
	other := types.EncryptionKey{KeyType: key.KeyType, KeyValue: bytes.Repeat([]byte{8}, 32)}
	honest := says(offer(t, key, 1, 1, 1, 0, 0))
	for want, a := range always {
		meet(t, want, a)
		meet(t, want, honest, a)
	}
	for want, token := range map[string][]byte{
		sasl.ErrUnproven.Error():                      nil, // or the server admits everyone
		"malformed offer of security layers":          []byte("garbage"),
		"wrong Token ID":                              bytes.Repeat([]byte{'x'}, 60_000),
		"the server expects DIGEST-MD5":               []byte(`realm="zk-sasl-md5",nonce="x",algorithm=md5-sess`),
		"did not prove that it has the key":           offer(t, other, 1, 1, 1, 0, 0),
		"does not allow connections without":          offer(t, key, 1, 4, 1, 0, 0),
		"offer of security layers with the flags 0x3": offer(t, key, 3, 1, 1, 0, 0),
	} {
		meet(t, want, says(token))
	}
	meet(t, "continues after the last Kerberos token", honest, honest) // which would never end
	meet(t, "continues after the last Kerberos token", honest, says([]byte("more")))
}

// meet connects a client to a server that answers the tokens of each connection in this order, and then hangs up.
func meet(t *testing.T, want string, answers ...answer) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &Mechanism{alice, "zookeeper/_HOST", newTickets(func(principal) (*ticket, error) {
			return fakeTicket(), nil
		}, slog.New(slog.DiscardHandler))}
		defer m.Close() //nolint:errcheck // it returns nil
		server := &bubble.Hostile{Answer: func(n int, xid uint32) []byte {
			if n >= len(answers) {
				return []byte{}
			}
			return answers[n](xid)
		}}
		var log bubble.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := conn.Dial(ctx, "zk1:2181", conn.WithDialer(server.Dial), conn.WithSASL(m),
			conn.WithAuth("digest", "alice:hunter2"),
			conn.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
		require.ErrorContains(t, err, want)
		require.LessOrEqual(t, server.Taken(), 1<<17)
		tokens := 0
		for _, frame := range server.Seen() {
			require.NotContains(t, string(frame), string(fakeTicket().key.KeyValue))
			if len(frame) < 45 || binary.BigEndian.Uint32(frame[4:]) != 102 { // the connect request has no opcode
				tokens = 0
				require.LessOrEqual(t, len(frame), 45, "a request")
				continue
			}
			tokens++
			require.LessOrEqual(t, tokens, len(answers), "%s: tokens on one connection", want)
		}
		require.NotContains(t, log.String()+err.Error(), "hunter2")
		require.NotContains(t, log.String()+err.Error(), string(fakeTicket().key.KeyValue))
	})
}
