package survey

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/conn"
)

// Clock is how far the leader's clock is ahead of the local one, within a margin.
type Clock struct{ Ahead, Exact time.Duration }

// CompareClocks creates a node, whose creation time the leader's clock determines, and deletes it.
func CompareClocks(ctx context.Context, client *conn.Client) (Clock, error) {
	start := time.Now()
	node, err := client.Create(ctx, "/zkr-clock-"+rand.Text(), nil, zk.FlagEphemeral)
	took := time.Since(start)
	if err != nil {
		return Clock{}, err
	}
	defer client.Delete(ctx, node, -1) //nolint:errcheck // it ends with the session
	_, stat, err := client.Exists(ctx, node)
	if err != nil {
		return Clock{}, err
	}
	return Clock{
		Ahead: time.UnixMilli(stat.Ctime).Sub(start.Add(took / 2)).Round(time.Millisecond),
		Exact: (took/2 + time.Millisecond).Round(time.Millisecond),
	}, nil
}

// Certain returns Ahead if the clocks certainly differ by more than a second, and 0 otherwise.
func (c Clock) Certain() time.Duration {
	if max(c.Ahead, -c.Ahead)-c.Exact <= time.Second {
		return 0
	}
	return c.Ahead
}

func (c Clock) String() string {
	if c.Ahead < 0 {
		return fmt.Sprintf("%v behind", -c.Ahead)
	}
	return fmt.Sprintf("%v ahead of", c.Ahead)
}
