// Package session is what package conn and the recipes stand on. A [Session] is one ZooKeeper session: its connections, calls,
// watches, proof of liveness, and the functions to call when it is lost. A [Client] opens one session after the other.
//
// A recipe reaches it by converting the *conn.Client that it was given to *[Client]; the types are made for that.
package session
