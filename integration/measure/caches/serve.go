package caches

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
)

// serve keeps a cache.Tree. It answers each line with one line of numbers, or with an error:
//
//	open ADDRESS PATH   milliseconds until the reader had received all nodes, and bytes of heap used
//	follow              forgets the lags
//	lags                number of changes, median and 99th percentile of their lag in microseconds
//	await PATH TEXT     answers when the cache has the text
//	close
func serve(ctx context.Context, in io.Reader, out io.Writer) {
	t := &tree{}
	orders := bufio.NewScanner(in)
	for orders.Scan() {
		answer, err := t.do(ctx, strings.Fields(orders.Text()))
		if err != nil {
			answer = err.Error()
		}
		_, _ = fmt.Fprintln(out, answer) // on failure, the other process sees that the answer is missing
	}
}

type tree struct {
	client *conn.Client
	cache  *cache.Cache
	stop   context.CancelFunc
	reader sync.WaitGroup

	mu  sync.Mutex
	lag []time.Duration
}

func (t *tree) do(ctx context.Context, words []string) (answer string, err error) {
	switch words[0] {
	case "open":
		return t.open(ctx, words[1], words[2])
	case "follow":
		t.mu.Lock()
		defer t.mu.Unlock()
		t.lag = nil
		return "", nil
	case "lags":
		t.mu.Lock()
		defer t.mu.Unlock()
		slices.Sort(t.lag)
		n := len(t.lag)
		if n == 0 {
			return "0 0 0", nil
		}
		return fmt.Sprint(n, t.lag[n/2].Microseconds(), t.lag[n*99/100].Microseconds()), nil
	case "await":
		for e, _ := t.cache.Get(words[1]); string(e.Data) != words[2]; e, _ = t.cache.Get(words[1]) {
			time.Sleep(time.Millisecond)
		}
		return "", nil
	case "close":
		t.stop()
		t.reader.Wait()
		err := errors.Join(t.cache.Close(ctx), t.client.Close())
		t.cache, t.client = nil, nil // so that they do not count as heap of the next one
		return "", err
	default:
		return "", fmt.Errorf("unknown order %q", words[0])
	}
}

func (t *tree) open(ctx context.Context, addr, path string) (answer string, err error) {
	if t.client, err = conn.Dial(ctx, addr); err != nil {
		return "", err
	}
	before := bubble.Heap()
	start := time.Now()
	if t.cache, err = cache.Tree(t.client, path); err != nil {
		return "", err
	}
	ctx, t.stop = context.WithCancel(ctx)
	told := make(chan struct{})
	t.reader.Go(func() { t.read(ctx, sync.OnceFunc(func() { close(told) })) })
	if err := t.cache.Ready(ctx); err != nil {
		return "", err
	}
	<-told
	took := time.Since(start)
	return fmt.Sprint(took.Milliseconds(), bubble.Heap()-before), nil
}

// read records the lag of each change. It calls complete when it has seen all nodes, as Curator's listeners do before
// the cache is initialized.
func (t *tree) read(ctx context.Context, complete func()) {
	for change, err := range t.cache.Watch(ctx) {
		if change.Kind == cache.Current {
			complete()
		}
		if at, ok := strings.CutPrefix(string(change.Entry.Data), "at "); err == nil && ok && change.Kind == cache.Updated {
			micros, _ := strconv.ParseInt(at, 10, 64) // the other process wrote it
			t.mu.Lock()
			t.lag = append(t.lag, time.Since(time.UnixMicro(micros)))
			t.mu.Unlock()
		}
	}
}
