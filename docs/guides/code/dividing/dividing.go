// Package dividing consumes the partitions of a log with several processes, each partition by one of them.
package dividing

import (
	"context"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
)

// Work consumes the partitions assigned to this process until ctx is done. It then hands them over, which takes half a
// minute at most.
func Work(
	ctx context.Context, client *conn.Client, id string, partitions []string, handle Handler, offsets *Offsets,
) error {
	return shard.Run(ctx, client, "/app/partitions", shard.List(partitions...),
		func(ctx context.Context, s *shard.Shard) error {
			next, err := offsets.Get(ctx, s.Name, s.Token())
			for err == nil && ctx.Err() == nil { // ctx is canceled when the partition moves, or when its lock is lost
				if err = handle(ctx, s.Name, next); err == nil {
					next++
					err = offsets.Set(ctx, s.Name, s.Token(), next)
				}
			}
			return err
		}, shard.WithID(id), shard.WithLeave(30*time.Second))
}

// Handler handles one record. It returns soon after ctx is done.
type Handler func(ctx context.Context, partition string, offset int) error

// Offsets records how far each partition has been consumed. It rejects an owner that a later one has replaced.
type Offsets struct {
	gate *fence.Gate
	mu   sync.Mutex
	next map[string]int
}

// Get returns the offset of the next record.
func (o *Offsets) Get(ctx context.Context, partition string, t zkrecipes.Token) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.next[partition], o.gate.Admit(ctx, partition, t)
}

// Set stores the offset of the next record.
func (o *Offsets) Set(ctx context.Context, partition string, t zkrecipes.Token, next int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.gate.Admit(ctx, partition, t)
	if err == nil {
		o.next[partition] = next
	}
	return err
}
