package zktest

import (
	"slices"

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
func (s *Server) authenticate(q *call) proto.Code {
	q.in.Int32()
	scheme, credential := q.in.Str(), q.in.Bytes()
	switch scheme {
	case "digest":
		ids, ok := s.cfg.access.CheckDigest(credential)
		if !ok {
			return proto.CodeAuthFailed
		}
		q.c.identify(ids...)
	case "ip":
		q.c.identify(q.c.ids[0])
	default:
		return proto.CodeAuthFailed
	}
	return proto.CodeOK
}

func (c *conn) identify(ids ...access.Identity) {
	for _, id := range ids {
		if !slices.Contains(c.ids, id) {
			c.ids = append(c.ids, id)
		}
	}
}

// sasl takes one step of an authentication by DIGEST-MD5: the first token asks for a challenge, the second answers it. The
// connection is the client's user from then on, as sasl:user.
//
// Source: ZooKeeperServer.processSasl.
func (s *Server) sasl(q *call) proto.Code {
	token := q.in.Bytes()
	if !s.cfg.access.Provides("sasl") {
		q.out.Bytes(nil)
		return proto.CodeOK // the real server logs that it has no SASL
	}
	c := q.c
	if c.nonce == "" && len(token) == 0 {
		var text string
		c.nonce, text = access.Challenge()
		q.out.Bytes([]byte(text))
		return proto.CodeOK
	}
	ids, proof, ok := s.cfg.access.CheckAnswer(string(token), c.nonce)
	if c.nonce = ""; !ok {
		q.out.Bytes(nil)
		if s.cfg.access.Requires("sasl") {
			return proto.CodeNeedsSASL
		}
		return proto.CodeAuthFailed
	}
	c.identify(ids...)
	q.out.Bytes([]byte("rspauth=" + proof))
	return proto.CodeOK
}
