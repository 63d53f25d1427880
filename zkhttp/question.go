package zkhttp

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// patience is how long a request waits for the servers. A Kubernetes probe waits for 1 s by default.
const patience = 500 * time.Millisecond

var errPatience = fmt.Errorf("no answer within %v", patience)

// question is a query of the servers, sent by one request at a time. Its answer serves all requests that arrived before
// it was sent.
type question[T any] struct {
	put   func(context.Context) (T, error)
	turn  chan struct{}             // holds a value while a request queries
	count atomic.Int64              // number of queries
	last  answer[T]                 // guarded by turn
	good  atomic.Pointer[time.Time] // when the newest query without an error was sent
}

type answer[T any] struct {
	number int64 // of the query
	value  T
	asOf   time.Time // when it was sent
	err    error
}

func newQuestion[T any](put func(context.Context) (T, error)) *question[T] {
	return &question[T]{put: put, turn: make(chan struct{}, 1)}
}

// ask returns the answer to a query that was sent after this call began.
func (q *question[T]) ask(ctx context.Context) answer[T] {
	before := q.count.Load()
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errPatience)
	defer cancel()
	select {
	case q.turn <- struct{}{}:
		defer func() { <-q.turn }()
	case <-ctx.Done():
		return answer[T]{err: context.Cause(ctx)}
	}
	if q.last.number > before {
		return q.last
	}
	a := answer[T]{number: q.count.Add(1), asOf: time.Now()}
	a.value, a.err = q.put(ctx)
	if a.err == nil {
		q.good.Store(&a.asOf)
	}
	if a.err == nil || ctx.Err() == nil { // else this request has ended, and the others send their own queries
		q.last = a
	}
	return a
}
