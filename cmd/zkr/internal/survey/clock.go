package survey

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/conn"
)

// Clock is how far the clock of the leader is ahead of ours, within a margin.
type Clock struct{ Ahead, Exact time.Duration }

// CompareClocks makes a node, whose time the leader's clock gives, and deletes it.
func CompareClocks(ctx context.Context, client *conn.Client) (Clock, error) {
	start := time.Now()
	node, err := client.Create(ctx, "/zkr-clock-"+rand.Text(), nil, zk.FlagEphemeral)
	took := time.Since(start)
	if err != nil {
		return Clock{}, err
	}
	defer client.Delete(ctx, node, -1) //nolint:errcheck // it goes with the session
	_, stat, err := client.Exists(ctx, node)
	if err != nil {
		return Clock{}, err
	}
	return Clock{
		Ahead: time.UnixMilli(stat.Ctime).Sub(start.Add(took / 2)).Round(time.Millisecond),
		Exact: (took/2 + time.Millisecond).Round(time.Millisecond),
	}, nil
}

// Certain is Ahead if the clocks differ by more than a second for certain, else 0.
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
