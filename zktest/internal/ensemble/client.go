package ensemble

import (
	"crypto/x509"
	"net"
	"slices"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest/internal/access"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
)

// Client is one connection, as known to the ensemble.
type Client struct {
	ID      uint64
	Label   string
	Front   *Front
	Session *Session // nil before the handshake
	IDs     []access.Identity
	Nonce   string // of the SASL challenge that awaits an answer
	LogIn   bool   // authentication by SASL has succeeded
	Link    Link
	left    bool // only its connection still exists

	Remote net.Addr
	Since  time.Time
	Last   LastRequest
	Traffic
}

// Traffic counts the packets of the ensemble or of a client.
type Traffic struct{ Received, Sent int64 }

// LastRequest is the last request of a client.
type LastRequest struct {
	Op   proto.Op
	Xid  int32
	Zxid int64
	At   time.Time
}

// Link is the way back to a client.
type Link interface {
	Event(zxid int64, ev proto.Event, path string)
	Kick() // ends the connection after what is queued
	Cut()  // ends the connection at once
}

// Leave ends the client and its watches, before its connection ends. Its session lives on.
func (c *Client) Leave() {
	c.left = true
	c.Front.DataWatches.dropClient(c)
	c.Front.ChildWatches.dropClient(c)
	if c.Session != nil && c.Session.Client == c {
		c.Session.Client = nil
	}
}

// Forget is called when the connection of the client has ended.
func (c *Client) Forget() { delete(c.Front.clients, c) }

// SessionID returns the session's id, or 0 before the handshake.
func (c *Client) SessionID() int64 {
	if c.Session == nil {
		return 0
	}
	return c.Session.ID
}

// IdentifyBy adds the subject of a certificate.
func (c *Client) IdentifyBy(certificate *x509.Certificate) {
	if id, ok := access.OfCertificate(certificate); ok {
		c.Identify(id)
	}
}

// Identify adds identities that the client has proven.
func (c *Client) Identify(ids ...access.Identity) {
	for _, id := range ids {
		if !slices.Contains(c.IDs, id) {
			c.IDs = append(c.IDs, id)
		}
	}
}
