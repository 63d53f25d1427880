package session

import (
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/lifetime"
)

// Config holds the options for requests of a session.
type Config struct {
	lifetime.Config
	Chroot      string // "" for none
	MaxRequest  int    // bytes; 0 means 1 MiB less 4 KiB
	MaxInFlight int    // requests of Bounded calls; 0 means no limit
	ACL         []zk.ACL
	ACLFunc     func(path string) []zk.ACL // by path on the server; nil, or an empty list, means ACL
}
