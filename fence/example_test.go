package fence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/fence"
)

// list is a resource that holders of a lock read and write as a whole. Its mutex makes the check and the access one
// step.
type list struct {
	fenceReads bool
	gate       *fence.Gate

	mu    sync.Mutex
	items []string
}

func (l *list) read(ctx context.Context, t zkrecipes.Token) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fenceReads {
		if err := l.gate.Admit(ctx, "list", t); err != nil {
			return nil, err
		}
	}
	return l.items, nil
}

func (l *list) write(ctx context.Context, t zkrecipes.Token, items []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.gate.Admit(ctx, "list", t); err != nil {
		return err
	}
	l.items = items
	return nil
}

// twoHolders lets Ann read, freezes her until her session has expired and Bob has the lock, and wakes her up between
// his read and his write.
func twoHolders(ctx context.Context, l *list) {
	const ann, bob zkrecipes.Token = 33, 34
	show := func(who string, err error) {
		if err != nil {
			fmt.Println(who, "is refused:", err)
			return
		}
		fmt.Println(who, "has added a line")
	}
	readByAnn, err := l.read(ctx, ann)
	if err != nil {
		show("ann", err)
	}
	readByBob, err := l.read(ctx, bob)
	if err != nil {
		show("bob", err)
	}
	show("ann", l.write(ctx, ann, append(slices.Clip(readByAnn), "ann's")))
	show("bob", l.write(ctx, bob, append(slices.Clip(readByBob), "bob's")))
	fmt.Println("the list:", l.items)
}

// A fence that is checked only on the write: Ann's write is admitted, because no higher token was presented yet, and
// Bob then overwrites it.
func Example_lostUpdate() {
	ctx := context.Background()
	twoHolders(ctx, &list{gate: fence.New(fence.NewMemory()), fenceReads: false})
	// Output:
	// ann has added a line
	// bob has added a line
	// the list: [bob's]
}

// The same with the token presented at the first read: once Bob has read, Ann is rejected, and she knows that nothing
// was written.
func Example_fenceFromTheFirstRead() {
	ctx := context.Background()
	twoHolders(ctx, &list{gate: fence.New(fence.NewMemory()), fenceReads: true})
	// Output:
	// ann is refused: "list": stale token 33: 34 has been seen
	// bob has added a line
	// the list: [bob's]
}

func ExampleGate_Admit() {
	ctx := context.Background()
	gate := fence.New(fence.NewMemory())
	fmt.Println(gate.Admit(ctx, "accounts/17", 33)) // hold.Token()
	fmt.Println(gate.Admit(ctx, "accounts/17", 34))
	fmt.Println(gate.Admit(ctx, "accounts/17", 33))
	// Output:
	// <nil>
	// <nil>
	// "accounts/17": stale token 33: 34 has been seen
}

func ExampleOpenFile() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "fence")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "tokens")
	for _, token := range []zkrecipes.Token{34, 33} { // two processes, each with its own section
		store, err := fence.OpenFile(ctx, path) // waits while the other one is in its section
		if err != nil {
			panic(err)
		}
		err = fence.New(store).Admit(ctx, "accounts/17", token)
		fmt.Println(token, "stale:", errors.Is(err, fence.ErrStale)) // if not, read and write here
		if err := store.Close(); err != nil {
			panic(err)
		}
	}
	// Output:
	// 34 stale: false
	// 33 stale: true
}
