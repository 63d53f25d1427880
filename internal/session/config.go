package session

import (
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/lifetime"
)

// Config are the options of what is asked of a session.
type Config struct {
	lifetime.Config
	Chroot      string // "" for none
	MaxRequest  int    // bytes; 0 is 1 MiB less 4 KiB
	MaxInFlight int    // requests of calls that are Bounded; 0 is no limit
	ACL         []zk.ACL
	ACLFunc     func(path string) []zk.ACL // by path on the server; nil, or an empty list, is ACL
}
