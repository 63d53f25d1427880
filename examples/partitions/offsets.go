package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/fence"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
	"github.com/zkrecipes/zkrecipes/recipes/value"
)

// offsets records how far each partition has been consumed. It rejects a member if another one has taken over its
// partition.
type offsets interface {
	get(ctx context.Context, s *shard.Shard) (next int, err error)
	set(ctx context.Context, s *shard.Shard, next int) error
}

// table keeps offsets in memory, in place of a database. A fence checks each token.
type table struct {
	gate *fence.Gate

	mu      sync.Mutex
	next    map[string]int
	refused int
}

func newTable() *table { return &table{gate: fence.New(fence.NewMemory()), next: map[string]int{}} }

func (t *table) get(ctx context.Context, s *shard.Shard) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next[s.Name], t.admit(ctx, s)
}

func (t *table) set(ctx context.Context, s *shard.Shard, next int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.admit(ctx, s); err != nil {
		return err
	}
	if before := t.next[s.Name]; next != before+1 {
		return fmt.Errorf("partition %s is at %d, and %d follows: want each record once", s.Name, before, next)
	}
	t.next[s.Name] = next
	return nil
}

// admit is called with mu held, so that the check and the access are one step.
func (t *table) admit(ctx context.Context, s *shard.Shard) error {
	err := t.gate.Admit(context.WithoutCancel(ctx), s.Name, s.Token())
	if err != nil {
		t.refused++
	}
	return err
}

// sum returns how many records were consumed, and how many accesses were rejected.
func (t *table) sum() (records, refused int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.next {
		records += n
	}
	return records, t.refused
}

// stored keeps offsets in ZooKeeper. One transaction checks the lock of the partition and writes.
type stored struct {
	client *conn.Client
	path   string
}

func (o stored) of(s *shard.Shard) (*value.Value[int], error) {
	return value.New(o.client, o.path+"/"+s.Name, value.JSON[int]())
}

func (o stored) get(ctx context.Context, s *shard.Shard) (int, error) {
	v, err := o.of(s)
	if err != nil {
		return 0, err
	}
	next, _, err := v.Get(ctx)
	return next, err
}

func (o stored) set(ctx context.Context, s *shard.Shard, next int) error {
	v, err := o.of(s)
	if err != nil {
		return err
	}
	_, err = v.SetHeld(context.WithoutCancel(ctx), s.Hold, next) // the record was handled, even if the partition moves
	return err
}
