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
	{"KDC_ERR_C_PRINCIPAL_UNKNOWN", "the realm has no principal {who}: check its name and realm", true},
	{
		"requesting for krbtgt/",
		"there is no trust path from the realm of {who} to that of {server}: " +
			"check the realm of the server in [domain_realm] of krb5.conf or WithServer", false,
	},
	{
		"KDC_ERR_S_PRINCIPAL_UNKNOWN",
		"the realm has no server {server}: " +
			"use the host name of the principal in the server's JAAS section in the connect string, " +
			"or pass that principal to WithServer", false,
	},
	{"KDC_ERR_WRONG_REALM", "{who} belongs to another realm", false},
	{"KDC_ERR_CLIENT_REVOKED", "{who} is disabled or locked out: ask the administrator of the realm", true},
	{"KDC_ERR_KEY_EXPIRED", "the password of {who} has expired: change it", true},
	{
		"KRB_AP_ERR_SKEW", "the clocks of this machine and the key distribution center differ too much: " +
			"synchronize them with NTP",
		false,
	},
	{
		"clock skew with KDC too large",
		"the clocks of this machine and the key distribution center differ too much: synchronize them with NTP", false,
	},
	{
		"KDC_ERR_NEVER_VALID",
		"the ticket has expired, or the clocks of this machine and the key distribution center differ: " +
			"synchronize them with NTP",
		false,
	},
	{"KRB_AP_ERR_TKT_EXPIRED", "the ticket of {who} has expired: renew it", false},
	{
		"KDC_ERR_ETYPE_NOSUPP",
		"the realm has no key of {who} or {server} with an encryption type that both sides support: " +
			"see default_tkt_enctypes in krb5.conf",
		false,
	},
	{
		"matching key not found in keytab",
		"the keytab has no key of {who} with the encryption type or version that the key distribution center requires: " +
			"export the keytab again",
		true,
	},
	{"KDC_ERR_PREAUTH_FAILED", wrongKey, true},
	{"error decrypting EncPart of AS_REP", wrongKey, true},
	{
		"does not have any defined KDCs",
		"krb5.conf names no key distribution center for the realm of {who}: check the realm", false,
	},
	{
		"no KDCs defined",
		"krb5.conf names no key distribution center for the realm of {who} or {server}: check the realm", false,
	},
	{
		"no KDC SRV records", "DNS has no SRV records of a key distribution center for the realm of {who} or {server}: " +
			"check the realm",
		false,
	},
	{"Networking_Error", "no key distribution center answers: {who} cannot get a ticket for {server}", false},
}

const wrongKey = "wrong key of {who}: check the password; a keytab must be exported again after each change of the key"

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
	return &explained{error: fmt.Errorf("%s cannot get a ticket for %s: %w", who, server, err)}
}

// blamesKey reports whether the center has refused the key with which the client tried to log in.
func blamesKey(err error) bool {
	var e *explained
	return errors.As(err, &e) && e.key
}
