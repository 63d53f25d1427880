// Package sasl shows a client of ZooKeeper to the servers by SASL (RFC 4422). Give a [Mechanism] to conn.WithSASL.
//
// An identity belongs to a connection. So the client begins an exchange on each connection, also when it resumes its session,
// and asks for nothing else before the exchange has succeeded.
//
// [Digest] is the mechanism DIGEST-MD5; [DigestFunc] is for a password that changes. The servers need a JAAS section
// Server with the users, and authProvider.sasl for access lists with the scheme sasl.
package sasl

import (
	"context"
	"errors"
)

// Mechanism is one way to show who the client is. Its methods are called from several goroutines.
type Mechanism interface {
	// String names the mechanism and the identity for logs, such as "DIGEST-MD5 as bob". It has no secret.
	String() string
	// Start begins an exchange with the server at host, which is as in the connect string, without the port. It is called before
	// the client dials, so it may ask others, such as a key distribution center, until ctx ends. It returns the first token.
	//
	// After an error, the client tries another server.
	Start(ctx context.Context, host string) (e Exchange, first []byte, err error)
}

// Exchange is what a mechanism knows of one exchange.
type Exchange interface {
	// Step takes an answer of the server, and returns the next token. An answer is nil if the server has sent none: the server has
	// ended the exchange. Done says that the client is authenticated, and that there is no next token.
	//
	// A server that allows failed clients ends an exchange as one that has succeeded. So a mechanism must not take a nil answer for
	// success, unless it has a proof from before.
	//
	// After an error, the client leaves the connection, and tries another server.
	Step(answer []byte) (token []byte, done bool, err error)
}

// Refused may be implemented by an [Exchange] that keeps something for the next one, such as a ticket. It is called when the server
// refuses a token. What was kept may be stale, so the mechanism must discard it: the client calls Start again at once, for one more
// attempt on the same server, and takes only the refusal of that attempt for an answer.
type Refused interface{ Refused() }

// ErrUnproven says that the server has ended an exchange without a proof. It has no SASL, or not this mechanism, or it lets
// clients in that have failed.
var ErrUnproven = errors.New("the server has ended the exchange without a proof: has it a JAAS section for this mechanism? " +
	"DIGEST-MD5 needs zookeeper.fips-mode=false from 3.9.6 on; with allowSaslFailedClients=true it may also be a wrong password")
