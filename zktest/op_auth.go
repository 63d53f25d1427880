package zktest

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

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
		if credential == nil || !s.cfg.provides("digest") {
			return proto.CodeAuthFailed
		}
		id := s.cfg.digest(string(credential))
		if s.cfg.super != "" && string(credential) == s.cfg.super {
			q.c.identify(identity{"super", ""})
		}
		q.c.identify(identity{"digest", id})
	case "ip":
		q.c.identify(q.c.ids[0])
	default:
		return proto.CodeAuthFailed
	}
	return proto.CodeOK
}

func (c *conn) identify(id identity) {
	if !slices.Contains(c.ids, id) {
		c.ids = append(c.ids, id)
	}
}

// saslRealm is the realm of ZooKeeper's servers. Source: ZooKeeperSaslServer.
const saslRealm = "zk-sasl-md5"

// sasl takes one step of an authentication by DIGEST-MD5 (RFC 2831): the first token asks for a challenge, the second
// answers it. The connection is the client's user from then on, as sasl:user.
//
// Source: ZooKeeperServer.processSasl.
func (s *Server) sasl(q *call) proto.Code {
	token := q.in.Bytes()
	if s.cfg.users == nil {
		q.out.Bytes(nil)
		return proto.CodeOK // the real server logs that it has no SASL
	}
	c := q.c
	if c.nonce == "" && len(token) == 0 {
		c.nonce = rand.Text()
		q.out.Bytes(fmt.Appendf(nil, `realm=%q,nonce=%q,qop="auth",charset=utf-8,algorithm=md5-sess`, saslRealm, c.nonce))
		return proto.CodeOK
	}
	user, proof, ok := checkDigest(string(token), c.nonce, s.cfg.users)
	if c.nonce = ""; !ok {
		q.out.Bytes(nil)
		if slices.Contains(s.cfg.required, "sasl") {
			return proto.CodeNeedsSASL
		}
		return proto.CodeAuthFailed
	}
	c.identify(identity{"sasl", user})
	if slices.Contains(s.cfg.saslSupers, user) {
		c.identify(identity{"super", ""})
	}
	q.out.Bytes([]byte("rspauth=" + proof))
	return proto.CodeOK
}

// checkDigest checks the answer to a challenge. It returns the user and the proof that the server knows the password too.
func checkDigest(token, nonce string, users map[string]string) (user, proof string, ok bool) {
	f := digestFields(token)
	user = f["username"]
	password, known := users[user]
	if !known || nonce == "" || f["nonce"] != nonce || f["nc"] != "00000001" || f["cnonce"] == "" || f["qop"] != "" && f["qop"] != "auth" {
		return "", "", false
	}
	hash := func(text string) string {
		sum := md5.Sum([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	secret := md5.Sum([]byte(user + ":" + f["realm"] + ":" + password))
	a1 := string(secret[:]) + ":" + nonce + ":" + f["cnonce"]
	if f["authzid"] != "" {
		a1 += ":" + f["authzid"]
	}
	answer := func(method string) string {
		return hash(strings.Join([]string{hash(a1), nonce, f["nc"], f["cnonce"], "auth", hash(method + ":" + f["digest-uri"])}, ":"))
	}
	ok = subtle.ConstantTimeCompare([]byte(answer("AUTHENTICATE")), []byte(f["response"])) == 1
	return user, answer(""), ok
}

// digestFields reads a list such as `username="bob",nc=00000001`.
func digestFields(text string) map[string]string {
	fields := map[string]string{}
	for text != "" {
		key, rest, _ := strings.Cut(text, "=")
		var value strings.Builder
		i, quoted := 0, false
	value:
		for ; i < len(rest); i++ {
			switch {
			case rest[i] == '"':
				quoted = !quoted
			case rest[i] == '\\' && quoted && i+1 < len(rest):
				i++
				value.WriteByte(rest[i])
			case rest[i] == ',' && !quoted:
				break value
			default:
				value.WriteByte(rest[i])
			}
		}
		fields[strings.TrimSpace(key)] = value.String()
		text = rest[min(i+1, len(rest)):]
	}
	return fields
}
