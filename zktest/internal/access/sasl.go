package access

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// saslRealm is the realm of ZooKeeper's servers. Source: ZooKeeperSaslServer.
const saslRealm = "zk-sasl-md5"

// Challenge begins an authentication by DIGEST-MD5 (RFC 2831). It returns the text for the client, and the nonce in it.
func Challenge() (nonce, text string) {
	nonce = rand.Text()
	return nonce, fmt.Sprintf(`realm=%q,nonce=%q,qop="auth",charset=utf-8,algorithm=md5-sess`, saslRealm, nonce)
}

// CheckAnswer checks the answer to a challenge. It returns the client's identities, and the proof that the server knows
// the password too.
func (p *Policy) CheckAnswer(token, nonce string) (ids []Identity, proof string, ok bool) {
	user, proof, ok := checkResponse(token, nonce, p.Users)
	if !ok {
		return nil, "", false
	}
	ids = []Identity{{"sasl", user}}
	if slices.Contains(p.SASLSupers, user) {
		ids = append(ids, SuperUser)
	}
	return ids, proof, true
}

// checkResponse checks the answer to a challenge. It returns the user, and the proof that the server knows the password
// too.
func checkResponse(token, nonce string, users map[string]string) (user, proof string, ok bool) {
	f := digestFields(token)
	user = f["username"]
	password, known := users[user]
	if !known || nonce == "" || f["nonce"] != nonce || f["nc"] != "00000001" || f["cnonce"] == "" ||
		f["qop"] != "" && f["qop"] != "auth" {
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
		return hash(strings.Join([]string{
			hash(a1), nonce, f["nc"], f["cnonce"], "auth",
			hash(method + ":" + f["digest-uri"]),
		}, ":"))
	}
	ok = subtle.ConstantTimeCompare([]byte(answer("AUTHENTICATE")), []byte(f["response"])) == 1
	return user, answer(""), ok
}

// digestFields parses a list such as `username="bob",nc=00000001`.
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
