// Package zkkerberos shows a client of ZooKeeper to the servers by Kerberos: the mechanism GSSAPI of SASL (RFC 4752). Give what
// [Keytab], [Cache] or [Password] returns to conn.WithSASL, and close it after the clients:
//
//	who, err := zkkerberos.Keytab("/etc/worker.keytab", "worker@EXAMPLE.COM")
//	client, err := conn.Dial(ctx, servers, conn.WithSASL(who))
//
// # Which server
//
// A client asks the key distribution center for a ticket to each server. By default the principal of a server is zookeeper/host, with the
// host as in the connect string, in lower case. So the connect string needs the names that the servers have in their JAAS sections. No
// name is looked up for that: the answer of a name server would decide whom the client trusts. [WithServer] sets another principal.
//
// A server proves who it is: only the owner of the key in its keytab can answer. The client takes no answer without that proof.
//
// # Tickets
//
// A client asks for tickets before it dials, because a server gives little time once it has begun. It renews them when four fifths of
// their life are over. So a session that moves to a known server needs no key distribution center, unless none answers for the last fifth. The
// end of a ticket ends no connection, and no session.
//
// A keytab and a cache are read again for each ticket, so they may be replaced. A cache must be renewed by others, as by kinit -R in a timer.
// The log warns if a new ticket ends no later than the old one: then nothing has renewed the cache.
// The principal must stay the same: the mechanism refuses another one.
//
// If a server refuses a ticket, its key may be newer than the ticket. The client discards the ticket, and tries the same server once more with
// a fresh one. So a session and its holds survive a change of the server's key.
//
// # Wrong keys
//
// Many realms lock a principal after a few attempts with a wrong key. If the key distribution center refuses a key (it is wrong or has
// expired, or the principal is unknown or locked), the mechanism does not try the same key again for a minute, then for 5 and for 25 minutes,
// and then for an hour each time. Meanwhile Start fails with the reason of the first refusal. A keytab that has changed is tried at once.
// This is per [Mechanism]: share one among the clients of a process.
//
// # Where settings come from
//
// KRB5_CONFIG names the configuration, else it is /etc/krb5.conf. It is read again for each ticket. The directives include and includedir
// work. KRB5CCNAME names the cache, else it is /tmp/krb5cc_ with the number of the user. Only caches in files can be read: not KEYRING,
// KCM or DIR.
//
// # What is not there
//
// The messages after the exchange are not signed: ZooKeeper has no such layer. Use TLS where others can change the traffic. Keys of the kind
// RC4 do not work.
//
// A server with allowSaslFailedClients=true answers a client that it does not let in as one that it lets in, and the mechanism cannot tell. The
// default of servers is false.
package zkkerberos
