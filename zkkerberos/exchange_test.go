package zkkerberos

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/sasl"
)

var (
	alice = principal{"alice", "TEST.LOCAL"}
	zk1   = principal{"zookeeper/zk1", "TEST.LOCAL"}
)

// fakeTicket returns a ticket that is valid for an hour, with a known key. No server can read it.
func fakeTicket() *ticket {
	return &ticket{
		messages.Ticket{
			TktVNO: 5, Realm: zk1.realm, SName: zk1.parts(),
			EncPart: types.EncryptedData{EType: 18, KVNO: 1, Cipher: []byte("sealed")},
		},
		types.EncryptionKey{KeyType: etypeID.AES256_CTS_HMAC_SHA1_96, KeyValue: bytes.Repeat([]byte{7}, 32)},
		time.Now().Add(time.Hour),
	}
}

func begun() (e *exchange, refusals *int) {
	refusals = new(int)
	return &exchange{ticket: fakeTicket(), refused: func() { *refusals++ }}, refusals
}

// offer returns the offer of a server that has the key.
func offer(tb testing.TB, key types.EncryptionKey, flags byte, payload ...byte) []byte {
	tb.Helper()
	w := gssapi.WrapToken{Flags: flags, EC: 12, Payload: payload}
	require.NoError(tb, w.SetCheckSum(key, keyusage.GSSAPI_ACCEPTOR_SEAL))
	b, err := w.Marshal()
	require.NoError(tb, err)
	return b
}

// A Java server offers no security layer, and a size. RFC 4752 requires the size 0 in the answer.
func TestExchange_ServerOfJava(t *testing.T) {
	t.Parallel()
	e, _ := begun()
	token, done, err := e.Step(offer(t, e.key, 1, 1, 1, 0, 0))
	require.NoError(t, err)
	require.False(t, done)
	var choice gssapi.WrapToken
	require.NoError(t, choice.Unmarshal(token, false))
	ok, err := choice.Verify(e.key, keyusage.GSSAPI_INITIATOR_SEAL)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, []byte{1, 0, 0, 0}, choice.Payload)
	token, done, err = e.Step(nil)
	require.NoError(t, err)
	require.True(t, done)
	require.Nil(t, token)
}

func TestExchange_HostileServer(t *testing.T) {
	t.Parallel()
	good, _ := begun()
	other := types.EncryptionKey{KeyType: good.key.KeyType, KeyValue: bytes.Repeat([]byte{8}, 32)}
	bare := offer(t, good.key, 1, 1, 1, 0, 0)
	for says, answer := range map[string][]byte{
		"malformed offer of security layers":    []byte("\x05\x04"),
		"the server expects DIGEST-MD5":         []byte(`realm="zk-sasl-md5",nonce="x"`),
		"did not prove that it has the key":     offer(t, other, 1, 1, 1, 0, 0),
		"with the flags 0x3":                    offer(t, good.key, 3, 1, 1, 0, 0),
		"with the flags 0x5":                    offer(t, good.key, 5, 1, 1, 0, 0),
		"does not allow connections without":    offer(t, good.key, 1, 6, 1, 0, 0),
		"the offer 01 does not allow":           offer(t, good.key, 1, 1),
		"not expecting":                         nil,
		"the server did not prove":              bare[:len(bare)-1],
		"expected acceptor flag":                offer(t, good.key, 0, 1, 1, 0, 0),
		"inconsistent checksum length: 16 byte": {5, 4, 1, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
	} {
		e, _ := begun()
		_, done, err := e.Step(answer)
		require.False(t, done, says)
		if answer == nil {
			require.ErrorIs(t, err, sasl.ErrUnproven)
			continue
		}
		require.ErrorContains(t, err, says)
	}
	e, refusals := begun()
	_, _, err := e.Step(bare)
	require.NoError(t, err)
	_, done, err := e.Step(bare)
	require.False(t, done)
	require.ErrorContains(t, err, "continues after the last Kerberos token")
	e.Refused()
	require.Equal(t, 1, *refusals)
}

// The first token is the request of RFC 4121 for this principal, and no two are the same.
func TestTicket_Request(t *testing.T) {
	t.Parallel()
	ticket := fakeTicket()
	token, err := ticket.request(alice)
	require.NoError(t, err)
	again, err := ticket.request(alice)
	require.NoError(t, err)
	require.NotEqual(t, token, again)
	require.Equal(t, byte(0x60), token[0])
	_, body, found := bytes.Cut(token, header)
	require.True(t, found)
	var ap messages.APReq
	require.NoError(t, ap.Unmarshal(body))
	require.NoError(t, ap.DecryptAuthenticator(ticket.key))
	require.Equal(t, "alice", ap.Authenticator.CName.PrincipalNameString())
	require.Equal(t, "TEST.LOCAL", ap.Authenticator.CRealm)
	require.EqualValues(t, 0x8003, ap.Authenticator.Cksum.CksumType)
	require.Equal(t, append([]byte{16, 0, 0, 0}, append(make([]byte, 16), 0x30, 0, 0, 0)...),
		ap.Authenticator.Cksum.Checksum)
	ticket.key.KeyType = etypeID.RC4_HMAC
	_, err = ticket.request(alice)
	require.ErrorContains(t, err, "RC4")
}

// Whatever a server sends, the client does not panic and does not accept it as a proof.
func FuzzExchange(f *testing.F) {
	key := fakeTicket().key
	f.Add(offer(f, key, 1, 1, 1, 0, 0), []byte(nil))
	f.Add(offer(f, key, 1, 6), []byte("x"))
	f.Add([]byte("\x05\x04\x01\xff\x00\x00\x00\x00"), []byte(nil))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		e, _ := begun()
		token, done, err := e.Step(first)
		require.False(t, done)
		require.Equal(t, err == nil, token != nil)
		if err != nil {
			return
		}
		var sent gssapi.WrapToken // no other bytes have the checksum
		require.NoError(t, sent.Unmarshal(first, true))
		require.Equal(t, offer(t, key, 1, sent.Payload...)[16:], slices.Concat(sent.Payload, sent.CheckSum))
		_, done, err = e.Step(second)
		require.Equal(t, len(second) == 0, done)
		require.Equal(t, done, err == nil)
	})
}
