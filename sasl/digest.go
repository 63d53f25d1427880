package sasl

import (
	"context"
	"crypto/md5"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names that all ZooKeeper servers use. Source: ZooKeeperSaslServer, SecurityUtils.
const (
	digestHost = "zk-sasl-md5"
	digestURI  = "zookeeper/" + digestHost
)

// longestChallenge is the limit set by RFC 2831.
const longestChallenge = 2048

// Digest returns the mechanism DIGEST-MD5 (RFC 2831). The password never leaves the client, and the server proves that
// it knows the password as well. Because MD5 is outdated, use TLS where others can eavesdrop.
//
// Errors: an empty user or password; a user that has control characters or is not UTF-8.
func Digest(user, password string) (Mechanism, error) {
	if password == "" {
		return nil, errors.New("sasl: DIGEST-MD5 needs a user and a password")
	}
	return DigestFunc(user, func(context.Context) (string, error) { return password, nil })
}

// DigestFunc is like [Digest], but for a password that may change, such as one in a file that is replaced. The client
// calls the password function before each connection, from several goroutines. The function's ctx is done when the
// client abandons that connection. If the function fails or returns an empty string, the attempt to connect fails too,
// and the client tries another server. A new password has no effect on an established connection.
//
// Errors: an empty user, or one that has control characters or is not UTF-8; a nil password function.
func DigestFunc(user string, password func(ctx context.Context) (string, error)) (Mechanism, error) {
	if user == "" || password == nil {
		return nil, errors.New("sasl: DIGEST-MD5 needs a user and a password")
	}
	if !utf8.ValidString(user) || strings.ContainsFunc(user, unicode.IsControl) {
		return nil, errors.New("sasl: the user has control characters, or is not UTF-8")
	}
	return &digest{user, password}, nil
}

type digest struct {
	user string
	ask  func(context.Context) (password string, err error)
}

func (d *digest) String() string { return "DIGEST-MD5 as " + d.user }

// Start returns an empty first token, because servers with an old JVM reject any other.
func (d *digest) Start(ctx context.Context, _ string) (Exchange, []byte, error) {
	password, err := d.ask(ctx)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("cannot get the password of %s: %w", d.user, err)
	case password == "":
		return nil, nil, fmt.Errorf("the password of %s is empty", d.user)
	}
	return &digestExchange{digest: d, password: password, cnonce: rand.Text()}, []byte{}, nil
}

// GoString keeps the password out of printed configurations.
func (d *digest) GoString() string { return d.String() }

// digestExchange processes a challenge, and then the proof of the server.
type digestExchange struct {
	*digest
	password string
	cnonce   string
	proof    string // expected from the server; empty before the challenge
}

// Step processes the challenge, and then the proof.
func (e *digestExchange) Step(answer []byte) (token []byte, done bool, err error) {
	switch {
	case answer == nil:
		return nil, false, ErrUnproven
	case e.proof == "":
		token, err = e.respond(answer)
		return token, false, err
	case subtle.ConstantTimeCompare(answer, []byte("rspauth="+e.proof)) != 1:
		return nil, false, errors.New("the server did not prove that it knows the password: is it the right server?")
	default:
		return nil, true, nil
	}
}

// respond answers a challenge.
func (e *digestExchange) respond(challenge []byte) ([]byte, error) {
	fields, err := parseChallenge(challenge)
	if err != nil {
		return nil, err
	}
	realm, nonce := fields["realm"], fields["nonce"]
	const count = "00000001" // a nonce is used once
	secret := md5.Sum([]byte(narrow(e.user) + ":" + narrow(realm) + ":" + narrow(e.password)))
	session := hash(string(secret[:]) + ":" + nonce + ":" + e.cnonce)
	of := func(method string) string {
		return hash(strings.Join([]string{session, nonce, count, e.cnonce, "auth", hash(method + ":" + digestURI)}, ":"))
	}
	e.proof = of("")
	return fmt.Appendf(nil,
		`charset=utf-8,username=%s,realm=%s,nonce=%s,nc=%s,cnonce=%s,digest-uri=%s,qop=auth,response=%s`,
		quoted(e.user), quoted(realm), quoted(nonce), count, quoted(e.cnonce), quoted(digestURI), of("AUTHENTICATE")), nil
}

func hash(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// narrow returns text in the encoding in which it is hashed: ISO 8859-1 if that has all of its characters, else UTF-8.
//
// Source: RFC 2831, section 2.1.2.1; DigestMD5Base.stringToByte_8859_1 of the JDK.
func narrow(text string) string {
	var bytes []byte
	for _, r := range text {
		if r > 0xff {
			return text
		}
		bytes = append(bytes, byte(r))
	}
	return string(bytes)
}

// quoted returns text as a quoted string of RFC 2831. Go's %q escapes differently.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// parseChallenge returns the directives of a challenge, or an error if it cannot be answered.
func parseChallenge(challenge []byte) (map[string]string, error) {
	if len(challenge) > longestChallenge {
		return nil, fmt.Errorf("a challenge of %d bytes exceeds the limit of %d", len(challenge), longestChallenge)
	}
	fields := map[string]string{}
	for text := string(challenge); text != ""; {
		key, value, rest, ok := directive(text)
		if _, twice := fields[key]; !ok || twice {
			return nil, fmt.Errorf("malformed challenge: %.200q", challenge)
		}
		fields[key], text = value, rest
	}
	switch qop, given := fields["qop"]; {
	case fields["nonce"] == "":
		return nil, fmt.Errorf("the challenge has no nonce: %.200q", challenge)
	case !strings.EqualFold(fields["algorithm"], "md5-sess"):
		return nil, fmt.Errorf("the challenge does not name the algorithm md5-sess: %.200q", challenge)
	case given && !offersAuth(qop):
		return nil, fmt.Errorf("the challenge does not offer qop auth: %.200q", challenge)
	case fields["realm"] == "":
		fields["realm"] = digestHost
	}
	return fields, nil
}

func offersAuth(qop string) bool {
	for offer := range strings.SplitSeq(qop, ",") {
		if strings.TrimSpace(offer) == "auth" {
			return true
		}
	}
	return false
}

// directive removes one directive, such as `nonce="abc"`, from the text.
func directive(text string) (key, value, rest string, ok bool) {
	key, text, ok = strings.Cut(text, "=")
	key = strings.TrimSpace(key)
	if !ok || key == "" {
		return "", "", "", false
	}
	if !strings.HasPrefix(text, `"`) {
		value, rest, _ = strings.Cut(text, ",")
		return key, strings.TrimSpace(value), rest, true
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			rest, more := strings.CutPrefix(text[i+1:], ",")
			return key, b.String(), rest, more || rest == ""
		case '\\':
			if i++; i < len(text) {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(text[i])
		}
	}
	return "", "", "", false
}
