// Package zkkerberos authenticates a ZooKeeper client with Kerberos, through the SASL mechanism GSSAPI (RFC 4752).
// Pass what [Keytab], [Cache] or [Password] returns to conn.WithSASL, and close it after the clients:
//
//	who, err := zkkerberos.Keytab("/etc/worker.keytab", "worker@EXAMPLE.COM")
//	client, err := conn.Dial(ctx, servers, conn.WithSASL(who))
//
// # Which server
//
// A client requests a ticket for each server from the key distribution center. By default a server's principal is
// zookeeper/host, with the host as in the connect string, in lower case. The connect string must therefore use the
// names that the servers have in their JAAS sections. No name is resolved for this purpose, because a name server's
// answer would then decide whom the client trusts. To use another principal, see [WithServer].
//
// Authentication is mutual: only the owner of the key in the server's keytab can answer, and the client doesn't accept
// an answer without that proof.
//
// # Tickets
//
// A client requests tickets before it dials, because a server allows little time once the connection is open. Tickets
// are renewed after four fifths of their lifetime, so a session that moves to a known server needs no key distribution
// center, unless none answered during the last fifth. The expiry of a ticket does not end a connection or a session.
//
// A keytab and a cache are reread for each ticket, so you can replace them, as long as the principal stays the same;
// the mechanism rejects a different one. Something else must renew a cache, such as kinit -R run by a timer. If nothing
// does, a new ticket ends no later than the old one, and a warning is logged.
//
// If a server rejects a ticket, its key may be newer than the ticket. The client then discards the ticket and retries
// the same server once with a fresh one. As a result, a session and its holds survive a change to the server's key.
//
// # Wrong keys
//
// Many realms lock a principal after a few attempts with a wrong key. If the key distribution center rejects a key
// (because it is wrong or has expired, or the principal is unknown or locked), the mechanism does not try the same key
// again for 1 minute, then for 5 and for 25 minutes, and then for an hour each time. Until then, Start fails with the
// reason for the first rejection. A different key in the keytab is tried immediately. Because the pauses apply per
// [Mechanism], share one among the clients of a process.
//
// # Configuration
//
// KRB5_CONFIG names the configuration file, or several, separated by colons; the default is /etc/krb5.conf. Of several,
// those that are missing or unreadable are skipped, unless all are. The files are reread for each ticket. The
// directives include and includedir are supported. KRB5CCNAME names the cache; the default is /tmp/krb5cc_ followed by
// the numeric user ID. Only caches in files can be read: not KEYRING, KCM or DIR.
//
// # Limitations
//
// Messages after the exchange are not signed, because ZooKeeper has no such layer. Use TLS where others can
// modify the traffic. RC4 keys are not supported.
//
// A server with allowSaslFailedClients=true gives the same answer whether or not it admits a client, and the
// mechanism cannot tell the difference. The servers' default is false.
package zkkerberos
