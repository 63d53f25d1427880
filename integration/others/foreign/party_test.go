package foreign

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/group"
)

// Members of kazoo's parties and ours see each other join and leave.
func TestKazooParty(t *testing.T) {
	interpreter := python(t, "kazoo", "apt-get install python3-kazoo")
	for _, server := range servers {
		t.Run(server.name, func(t *testing.T) {
			addr := server.start(t)
			c, err := conn.Dial(t.Context(), addr)
			require.NoError(t, err)
			defer func() { _ = c.Close() }() // it never fails
			answered := make(chan error, 2)
			for path, layout := range map[string]group.Layout{"/party": group.KazooParty, "/shallow": group.KazooShallowParty} {
				g, err := group.New(c, path, group.WithLayout(layout))
				require.NoError(t, err)
				_, err = g.Join(t.Context(), "go", nil)
				require.NoError(t, err)
				go func() { answered <- greet(t.Context(), g) }()
			}
			if out := run(t, interpreter, "testdata/kazoo_party.py", addr); !strings.HasSuffix(out, "all passed\n") {
				t.Errorf("it ended early:\n%s", out)
			}
			require.NoError(t, <-answered)
			require.NoError(t, <-answered)
		})
	}
}

// greet joins as "seen" once kazoo's member has joined, and returns once it has left.
func greet(ctx context.Context, g *group.Group) error {
	met := false
	for v, err := range g.Watch(ctx) {
		if err != nil {
			return err
		}
		switch here := slices.ContainsFunc(v.Members, func(m group.Member) bool { return m.ID == "kazoo" }); {
		case here && !met:
			met = true
			if _, err := g.Join(ctx, "seen", nil); err != nil {
				return err
			}
		case met && !here:
			return nil
		}
	}
	return ctx.Err()
}
