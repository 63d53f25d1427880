// Package sasl authenticates a ZooKeeper client with SASL (RFC 4422). Pass a [Mechanism] to conn.WithSASL.
//
// Because an identity belongs to a connection, the client starts an exchange on each connection, even when it resumes
// its session. It sends no other request until the exchange succeeds.
//
// [Digest] returns the mechanism DIGEST-MD5, and [DigestFunc] does the same for a password that changes. The servers
// need a JAAS section Server with the users, and authProvider.sasl for access control lists (ACLs) with the scheme
// sasl.
package sasl

import (
	"context"
	"errors"
)

// Mechanism is a way to authenticate the client. Its methods may be called concurrently.
type Mechanism interface {
	// String names the mechanism and the identity for logs, such as "DIGEST-MD5 as bob". It contains no secret.
	String() string
	// Start begins an exchange with the server at host, which is given as in the connect string, without the port, and
	// returns the exchange's first token. Because it is called before the client dials, it may contact others, such as
	// a key distribution center, until ctx is done.
	//
	// If Start fails, the client tries another server.
	Start(ctx context.Context, host string) (e Exchange, first []byte, err error)
}

// Exchange is the state of one exchange.
type Exchange interface {
	// Step processes the server's answer and returns the next token. A nil answer means that the server sent none and
	// has ended the exchange. done reports that the client is authenticated, and that there is no next token.
	//
	// A server that admits clients even if they fail to authenticate ends their exchange just as it ends a successful
	// one. As a result, a mechanism must not treat a nil answer as success, unless it has already received proof.
	//
	// If Step fails, the client closes the connection and tries another server.
	Step(answer []byte) (token []byte, done bool, err error)
}

// Refused may be implemented by an [Exchange] that keeps something for the next one, such as a ticket. It is called
// when the server rejects a token. What was kept may be stale, so the mechanism must discard it. The client then
// immediately calls Start again for one more attempt on the same server, and only a rejection of that attempt counts.
type Refused interface{ Refused() }

// ErrUnproven is returned when the server ends an exchange without proof of its identity: it does not support SASL,
// or not this mechanism, or it admits clients that failed to authenticate.
var ErrUnproven = errors.New(
	"the server ended the exchange without proving its identity: does it have a JAAS section for this mechanism? " +
		"DIGEST-MD5 needs zookeeper.fips-mode=false from 3.9.6 on; " +
		"with allowSaslFailedClients=true the password may also be wrong")
