package zkkerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/chksumtype"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zkrecipes/zkrecipes/sasl"
)

// header begins a GSSAPI token. It has the mechanism, Kerberos 5, and announces a request (RFC 4121, section 4.1).
var header = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02, 0x01, 0x00}

// request returns the first token. It can be used once, because servers refuse it the second time. It does not request
// a Kerberos reply, because the token that follows proves the identity of the server.
func (t *ticket) request(who principal) ([]byte, error) {
	if t.key.KeyType == etypeID.RC4_HMAC {
		return nil, errors.New("the ticket for the server has an RC4 key: give the server's principal an AES key")
	}
	a, err := types.NewAuthenticator(who.realm, who.parts())
	if err != nil {
		return nil, err
	}
	a.Cksum = types.Checksum{CksumType: chksumtype.GSSAPI, Checksum: make([]byte, 24)}
	binary.LittleEndian.PutUint32(a.Cksum.Checksum, 16) // length of the channel bindings, which are empty
	binary.LittleEndian.PutUint32(a.Cksum.Checksum[20:], gssapi.ContextFlagInteg|gssapi.ContextFlagConf)
	ap, err := messages.NewAPReq(t.Ticket, t.key, a)
	if err != nil {
		return nil, err
	}
	body, err := ap.Marshal()
	if err != nil {
		return nil, err
	}
	return asn1tools.AddASNAppTag(slices.Concat(header, body), 0), nil
}

// exchange processes the offer of the server, which is also its proof, and then its final answer.
type exchange struct {
	*ticket
	proven  bool
	refused func()
}

// Refused is called when the server refuses the ticket.
func (e *exchange) Refused() { e.refused() }

// Step processes the offer of the server, and then an answer without a token.
func (e *exchange) Step(answer []byte) (token []byte, done bool, err error) {
	switch {
	case e.proven && len(answer) == 0:
		return nil, true, nil
	case e.proven:
		return nil, false, errors.New("the server continues after the last Kerberos token")
	case answer == nil:
		return nil, false, sasl.ErrUnproven
	}
	if token, err = e.accept(answer); err != nil {
		return nil, false, err
	}
	e.proven = true
	return token, false, nil
}

// noLayer in an offer means that the server supports having no security layer, and in an answer that the client has
// chosen it (RFC 4752, section 3.3).
const noLayer = 1

// accept verifies the offer of the server, and answers it. Only the owner of the ticket's key can have signed it.
func (e *exchange) accept(answer []byte) ([]byte, error) {
	var offer gssapi.WrapToken
	if err := offer.Unmarshal(answer, true); err != nil {
		if strings.Contains(string(answer), "nonce=") {
			return nil, errors.New("the server expects DIGEST-MD5: " +
				"its JAAS section has a login module other than Krb5LoginModule")
		}
		return nil, fmt.Errorf("malformed offer of security layers: %w", err)
	}
	const fromServer = 1 // neither sealed nor signed with the server's subkey, which were not requested
	if offer.Flags != fromServer {
		return nil, fmt.Errorf("offer of security layers with the flags %#x: want one signed with the key of the ticket",
			offer.Flags)
	}
	if ok, err := offer.Verify(e.key, keyusage.GSSAPI_ACCEPTOR_SEAL); !ok || err != nil {
		return nil, errors.New("the server did not prove that it has the key of the ticket: is it the right server?")
	}
	if len(offer.Payload) != 4 || offer.Payload[0]&noLayer == 0 {
		return nil, fmt.Errorf("the offer % x does not allow connections without a security layer: "+
			"javax.security.sasl.qop must contain auth",
			offer.Payload)
	}
	choice, err := gssapi.NewInitiatorWrapToken([]byte{noLayer, 0, 0, 0}, e.key)
	if err != nil {
		return nil, err
	}
	return choice.Marshal()
}
