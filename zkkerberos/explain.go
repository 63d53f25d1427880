package zkkerberos

import (
	"errors"
	"fmt"
	"strings"
)

// answers maps errors of the key distribution center and gokrb5 to what is wrong and what to do. gokrb5 passes the
// answers of the center on as text. The first sign that is found counts.
var answers = []struct {
	sign, says string
	key        bool // the center has refused the key
}{
	{"KDC_ERR_C_PRINCIPAL_UNKNOWN", "the realm has no principal {who}: is its name right, and its realm?", true},
	{
		"requesting for krbtgt/",
		"the realm of {who} knows no way to that of {server}: is the realm of the server right, in [domain_realm] of krb5.conf or WithServer?", false,
	},
	{
		"KDC_ERR_S_PRINCIPAL_UNKNOWN",
		"the realm has no server {server}: the connect string needs the name that is in the principal of the server's JAAS section, " +
			"or the client that principal (WithServer)", false,
	},
	{"KDC_ERR_WRONG_REALM", "{who} is of another realm", false},
	{"KDC_ERR_CLIENT_REVOKED", "{who} is locked: ask the administrator of the realm", true},
	{"KDC_ERR_KEY_EXPIRED", "the password of {who} has expired: change it", true},
	{
		"KRB_AP_ERR_SKEW", "the clocks of this machine and of the key distribution center differ too much: set them by NTP",
		false,
	},
	{
		"clock skew with KDC too large",
		"the clocks of this machine and of the key distribution center differ too much: set them by NTP", false,
	},
	{
		"KDC_ERR_NEVER_VALID",
		"the ticket has ended, or the clocks of this machine and of the key distribution center differ: set them by NTP",
		false,
	},
	{"KRB_AP_ERR_TKT_EXPIRED", "the ticket of {who} has ended: renew it", false},
	{
		"KDC_ERR_ETYPE_NOSUPP",
		"the realm has no key of {who} or {server} of a kind that both sides know: see default_tkt_enctypes in krb5.conf",
		false,
	},
	{
		"matching key not found in keytab",
		"the keytab has no key of {who} of the kind or the number that the key distribution center wants: write it anew",
		true,
	},
	{"KDC_ERR_PREAUTH_FAILED", wrongKey, true},
	{"error decrypting EncPart of AS_REP", wrongKey, true},
	{
		"does not have any defined KDCs",
		"krb5.conf names no key distribution center for the realm of {who}: is the realm right?", false,
	},
	{
		"no KDCs defined",
		"krb5.conf names no key distribution center for the realm of {who} or {server}: is the realm right?", false,
	},
	{
		"no KDC SRV records", "DNS names no key distribution center for the realm of {who} or {server}: is the realm right?",
		false,
	},
	{"Networking_Error", "no key distribution center answers: {who} gets no ticket to {server}", false},
}

const wrongKey = "wrong key of {who}: is the password right? a keytab must be written anew after each change of the key"

// explained is an error of gokrb5 with its explanation.
type explained struct {
	error
	key bool // the center has refused the key
}

func (e *explained) Unwrap() error { return e.error }

// explain adds what is wrong and what to do, unless err has that already.
func explain(err error, who, server principal) error {
	if explained := (*explained)(nil); errors.As(err, &explained) {
		return err
	}
	for _, a := range answers {
		if strings.Contains(err.Error(), a.sign) {
			says := strings.NewReplacer("{who}", who.String(), "{server}", server.String()).Replace(a.says)
			return &explained{fmt.Errorf("%s (%w)", says, err), a.key}
		}
	}
	return &explained{error: fmt.Errorf("no ticket of %s to %s: %w", who, server, err)}
}

// blamesKey reports whether the center has refused the key with which the client tried to log in.
func blamesKey(err error) bool {
	var e *explained
	return errors.As(err, &e) && e.key
}
