package zkkerberos

import (
	"fmt"
	"strings"
)

// explain says what is wrong and what to do. gokrb5 passes the answers of the center on as text.
func explain(err error, who, server principal) error {
	text := err.Error()
	for _, c := range []struct{ sign, says string }{
		{"KDC_ERR_C_PRINCIPAL_UNKNOWN", "the realm has no principal {who}: is its name right, and its realm?"},
		{"requesting for krbtgt/", "the realm of {who} knows no way to that of {server}: is the realm of the server right, in [domain_realm] of krb5.conf or WithServer?"},
		{"KDC_ERR_S_PRINCIPAL_UNKNOWN", "the realm has no server {server}: the connect string needs the name that is in the principal of the server's JAAS section, " +
			"or the client that principal (WithServer)"},
		{"KDC_ERR_WRONG_REALM", "{who} is of another realm"},
		{"KDC_ERR_CLIENT_REVOKED", "{who} is locked: ask the administrator of the realm"},
		{"KDC_ERR_KEY_EXPIRED", "the password of {who} has expired: change it"},
		{"KRB_AP_ERR_SKEW", "the clocks of this machine and of the key distribution center differ too much: set them by NTP"},
		{"clock skew with KDC too large", "the clocks of this machine and of the key distribution center differ too much: set them by NTP"},
		{"KDC_ERR_NEVER_VALID", "the ticket has ended, or the clocks of this machine and of the key distribution center differ: set them by NTP"},
		{"KRB_AP_ERR_TKT_EXPIRED", "the ticket of {who} has ended: renew it"},
		{"KDC_ERR_ETYPE_NOSUPP", "the realm has no key of {who} or {server} of a kind that both sides know: see default_tkt_enctypes in krb5.conf"},
		{"KDC_ERR_PREAUTH_FAILED", "wrong key of {who}: is the password right? a keytab must be written anew after each change of the key"},
		{"client password/keytab incorrect", "wrong key of {who}: is the password right? a keytab must be written anew after each change of the key"},
		{"matching key not found in keytab", "the keytab has no key of {who} of the kind that the key distribution center wants: write it anew"},
		{"does not have any defined KDCs", "krb5.conf names no key distribution center for the realm of {who}: is the realm right?"},
		{"no KDCs defined", "krb5.conf names no key distribution center for the realm of {who} or {server}: is the realm right?"},
		{"no KDC SRV records", "DNS names no key distribution center for the realm of {who} or {server}: is the realm right?"},
		{"Networking_Error", "no key distribution center answers: {who} gets no ticket to {server}"},
	} {
		if strings.Contains(text, c.sign) {
			says := strings.NewReplacer("{who}", who.String(), "{server}", server.String()).Replace(c.says)
			return fmt.Errorf("%s (%w)", says, err)
		}
	}
	return fmt.Errorf("no ticket of %s to %s: %w", who, server, err)
}
