package znode

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/layout"
)

func queueOf(kinds string) (queue []Contender) {
	for i, k := range kinds {
		kind := map[rune]string{'r': Read, 'w': Write, 'l': Lock, 'R': KazooRead, 'W': KazooLock}[k]
		queue = append(queue, Contender{Kind: kind, Key: fmt.Sprintf("%010d", i), Name: fmt.Sprintf("%s%010d", kind, i)})
	}
	return queue
}

func TestRules(t *testing.T) {
	for _, c := range []struct {
		name        string
		rule        Rule
		queue       string
		me          int
		granted     bool
		predecessor int
	}{
		{"alone", First, "l", 0, true, 0},
		{"second waits for the first", First, "ll", 1, false, 0},
		{"third waits for the second", First, "lll", 2, false, 1},
		{"writer waits for the reader ahead", First, "rrw", 2, false, 1},
		{"first reader", NoWriterAhead, "r", 0, true, 0},
		{"reader behind readers", NoWriterAhead, "rrr", 2, true, 0},
		{"reader ahead of a writer", NoWriterAhead, "rw", 0, true, 0},
		{"reader behind a writer", NoWriterAhead, "wr", 1, false, 0},
		{"reader waits for the nearest writer", NoWriterAhead, "wrwrr", 4, false, 2},
		{"second waits for kazoo's first", First, "Wl", 1, false, 0},
		{"reader beside kazoo's readers", NoWriterAhead, "RRr", 2, true, 0},
		{"reader waits for kazoo's writer", NoWriterAhead, "wWrr", 3, false, 1},
		{"writer waits for kazoo's reader", First, "RRw", 2, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			predecessor, granted := c.rule(queueOf(c.queue), c.me)
			assert.Equal(t, c.granted, granted)
			if !granted {
				assert.Equal(t, c.predecessor, predecessor)
			}
		})
	}
}

func TestAtThePlaceOf_NeedsItsOwnWriterInTheSameList(t *testing.T) {
	const own, next = "0000000004", "0000000005"
	writer, reader := Contender{Kind: Write, Key: own, Name: "w"}, Contender{Kind: Read, Key: own, Name: "r"}
	sibling := Contender{Kind: Read, Key: own, Name: "a"}
	behind := Contender{Kind: Write, Key: next, Name: "n"}
	for _, c := range []struct {
		queue   []Contender
		granted bool
	}{
		{[]Contender{writer, reader, behind}, true},
		{[]Contender{behind, writer, sibling, reader}, true},
		{[]Contender{reader, behind}, false},
		{[]Contender{sibling, reader, behind}, false},
		{[]Contender{{Kind: Write, Key: "0000000003", Name: "w"}, reader}, false},
		{[]Contender{{Kind: Write, Key: own, Name: "another"}, reader}, false},
	} {
		slices.SortFunc(c.queue, layout.Compare)
		_, granted := atThePlaceOf("w")(c.queue, slices.Index(c.queue, reader))
		assert.Equal(t, c.granted, granted, "%v", c.queue)
	}
}

// model is the read-write lock as it works in one process: callers join a line. From its head it grants one writer if
// there is no holder, or readers if no writer holds.
type model struct {
	line    []Contender // the waiting ones
	holding []Contender
}

func (m *model) admit() {
	for len(m.line) > 0 {
		writing := len(m.holding) > 0 && m.holding[0].Kind == Write
		if writing || m.line[0].Kind == Write && len(m.holding) > 0 {
			return
		}
		m.holding = append(m.holding, m.line[0])
		m.line = m.line[1:]
	}
}

func (m *model) leave(c Contender) {
	is := func(x Contender) bool { return x == c }
	m.line = slices.DeleteFunc(m.line, is)
	m.holding = slices.DeleteFunc(m.holding, is)
}

func rwRule(c Contender) Rule {
	if c.Kind == Write {
		return First
	}
	return NoWriterAhead
}

// readersAndWriters plays arrivals and departures, of waiters and holders, to the rules and to the model. They must
// grant the same after every step. A waiter whose predecessor has not left must not have been due.
func readersAndWriters(t *testing.T, steps []byte) {
	t.Helper()
	var m model
	var queue []Contender
	watching := map[Contender]Contender{} // as of the last look of each
	for i, step := range steps {
		if len(queue) == 0 || step%4 < 2 {
			c := Contender{Kind: []string{Read, Write}[step%2], Key: fmt.Sprintf("%010d", i), Name: fmt.Sprint(i)}
			queue = append(queue, c)
			m.line = append(m.line, c)
		} else {
			gone := queue[int(step)%len(queue)]
			queue = slices.DeleteFunc(queue, func(x Contender) bool { return x == gone })
			m.leave(gone)
			delete(watching, gone)
		}
		m.admit()
		var granted []Contender
		for me, c := range queue {
			predecessor, ok := rwRule(c)(queue, me)
			if ok {
				granted = append(granted, c)
				if seen, waits := watching[c]; waits {
					require.NotContains(t, queue, seen, "due, and not woken")
				}
				delete(watching, c)
				continue
			}
			require.Less(t, predecessor, me)
			if seen, waits := watching[c]; !waits || !slices.Contains(queue, seen) {
				watching[c] = queue[predecessor]
			}
		}
		require.ElementsMatch(t, m.holding, granted, "step %d of %v", i, steps)
	}
}

func TestReadWriteRules_AgreeWithTheModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		steps := make([]byte, 40)
		for i := range steps {
			steps[i] = byte(random.UintN(256))
		}
		readersAndWriters(t, steps)
	}
}

func FuzzReadWriteRules(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 3, 6, 1, 1, 0, 7})
	f.Fuzz(readersAndWriters)
}
