package zktest

import (
	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// authReadable says whether the real server can read an authentication: if not, the connection ends without an answer.
func authReadable(op proto.Op, d proto.Decoder) bool {
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
func (q *call) authenticate() proto.Code {
	q.in.Int32()
	scheme, credential := q.in.Str(), q.in.Bytes()
	switch scheme {
	case "digest":
		ids, ok := q.e.Access.CheckDigest(credential)
		if !ok {
			return proto.CodeAuthFailed
		}
		q.client.Identify(ids...)
	case "ip":
		q.client.Identify(q.client.IDs[0])
	default:
		return proto.CodeAuthFailed
	}
	return proto.CodeOK
}

// sasl takes one step of an authentication by DIGEST-MD5: the first token asks for a challenge, the second answers it. The
// connection is the client's user from then on, as sasl:user.
//
// Source: ZooKeeperServer.processSasl.
func (q *call) sasl() proto.Code {
	token := q.in.Bytes()
	if !q.e.Access.Provides("sasl") {
		q.out.Bytes(nil)
		return proto.CodeOK // the real server logs that it has no SASL
	}
	c := q.client
	if c.Nonce == "" && len(token) == 0 {
		var text string
		c.Nonce, text = access.Challenge()
		q.out.Bytes([]byte(text))
		return proto.CodeOK
	}
	ids, proof, ok := q.e.Access.CheckAnswer(string(token), c.Nonce)
	if c.Nonce = ""; !ok {
		q.out.Bytes(nil)
		if q.e.Access.Requires("sasl") {
			return proto.CodeNeedsSASL
		}
		return proto.CodeAuthFailed
	}
	c.Identify(ids...)
	q.out.Bytes([]byte("rspauth=" + proof))
	return proto.CodeOK
}
