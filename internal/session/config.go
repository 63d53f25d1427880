package session

import (
	"fmt"

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

// ACLOf returns the ACL for a node that is about to be created at abs, a path on the server: the caller's if it is not
// empty, otherwise the one that the client's function returns for the path, otherwise the client's.
//
// Errors: the function returned a list that no server would accept.
func (c *Config) ACLOf(abs string, callers []zk.ACL) ([]zk.ACL, error) {
	if len(callers) > 0 {
		return callers, nil
	}
	if c.ACLFunc == nil {
		return c.ACL, nil
	}
	list := c.ACLFunc(abs)
	if len(list) == 0 {
		return c.ACL, nil
	}
	if err := CheckACL(list); err != nil {
		return nil, fmt.Errorf("the function of WithACLFunc: %w", err)
	}
	return list, nil
}

// CheckACL returns an error for an ACL that is meaningless to a server.
func CheckACL(list []zk.ACL) error {
	for i, entry := range list {
		switch {
		case entry.Scheme == "":
			return fmt.Errorf("%w: entry %d has no scheme: want one such as world, auth, digest or sasl", zk.ErrInvalidACL, i)
		case entry.Perms < 0 || entry.Perms > zk.PermAll:
			return fmt.Errorf("%w: entry %d has the permissions %d: want a sum of zk.PermRead and others, at most %d",
				zk.ErrInvalidACL, i, entry.Perms, zk.PermAll)
		}
	}
	return nil
}
