package request

import (
	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// AuthReadable reports whether the real server can read an authentication request. If it cannot, the connection ends
// without an answer.
func AuthReadable(op proto.Op, d proto.Decoder) bool {
	switch op {
	case proto.OpAuth:
		d.Int32()
		d.Str()
		d.Bytes()
	case proto.OpSASL:
		if d.Bytes() == nil {
			return false
		}
	default:
	}
	return !d.Bad
}

// authenticate adds an identity to the connection.
func (q *Call) authenticate() proto.Code {
	q.In.Int32()
	scheme, credential := q.In.Str(), q.In.Bytes()
	switch scheme {
	case "digest":
		ids, ok := q.e.Access.CheckDigest(credential)
		if !ok {
			return proto.CodeAuthFailed
		}
		q.Client.Identify(ids...)
	case "ip":
		q.Client.Identify(q.Client.IDs[0])
	default:
		return proto.CodeAuthFailed
	}
	return proto.CodeOK
}

// sasl performs one step of an authentication by DIGEST-MD5: the first token requests a challenge, whatever it
// contains, and the second answers it. From then on, the connection has the identity sasl:user. A connection
// authenticates only once.
//
// Source: ZooKeeperServer.processSasl, DigestMD5Server of the JDK.
func (q *Call) sasl() proto.Code {
	token := q.In.Bytes()
	if !q.e.Access.Provides("sasl") {
		q.Out.Bytes(nil)
		return proto.CodeOK // the real server logs that it has no SASL
	}
	c := q.Client
	if c.Nonce == "" {
		var text string
		c.Nonce, text = access.Challenge()
		q.Out.Bytes([]byte(text))
		return proto.CodeOK
	}
	ids, proof, ok := q.e.Access.CheckAnswer(string(token), c.Nonce)
	if !ok || c.LogIn {
		q.Out.Bytes(nil)
		if q.e.Access.Requires("sasl") {
			return proto.CodeNeedsSASL
		}
		return proto.CodeAuthFailed
	}
	c.LogIn = true
	c.Identify(ids...)
	q.Out.Bytes([]byte("rspauth=" + proof))
	return proto.CodeOK
}
