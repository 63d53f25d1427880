package ephemeral

import (
	"context"
	"errors"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/internal/client"
	"github.com/zkrecipes/zkrecipes/internal/paths"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// CreateProtected implements conn.Client.CreateProtected.
func CreateProtected(
	ctx context.Context, c *client.Client, path string, data []byte, flags int32, acl []zk.ACL,
) (string, error) {
	if err := paths.Check("create", path); err != nil {
		return "", err
	}
	if flags < 0 || flags > zk.FlagEphemeralSequential {
		return "", &session.OpError{Op: "create", Path: path, Err: zk.ErrInvalidFlags}
	}
	slash := strings.LastIndexByte(path, '/')
	name := path[slash+1:]
	if name == "" {
		return "", &session.OpError{Op: "create", Path: path, Err: errors.New("the path must end in the name of a node")}
	}
	p := &Parent{Client: c, Path: path[:max(slash, 1)], MustExist: true, ACL: acl, Lasting: flags&zk.FlagEphemeral == 0}
	want := Spec{Kind: name, Data: data}
	if flags&zk.FlagSequence == 0 {
		want = Spec{Key: name, Data: data}
	}
	s, err := c.Session(ctx)
	if err != nil {
		return "", &session.OpError{Op: "create", Path: path, Err: err}
	}
	// A sync then follows: if it is answered and the create is not, the connection ends.
	defer s.Retain()()
	for {
		n, err := p.Create(ctx, s, want, nil)
		switch {
		// An earlier copy arrived late, so there were two, and both are removed.
		case errors.Is(err, ErrGone):
		case err != nil:
			return "", err
		default:
			return n.Paths[0], nil
		}
	}
}
