package cache

// part is the state of a node's data, or of its list.
type part uint8

const (
	stale part = 1 << iota // to be read
	bare                   // unchanged as far as known, but without a watch
	asked                  // a request for it is on its way
	again                  // it became stale while it was asked for
	odd                    // which of the two counts of dirty parts it is in
)

// The indexes of node.parts.
const (
	data = iota
	list
)

type task struct {
	node *node
	part int
}

func (e *engine) pending() int { return e.dirty[0] + e.dirty[1] }

// has reports whether the part of the node is followed.
func (e *engine) has(n *node, p int) bool {
	depth := e.cache.config.depth
	return p == data || depth == unlimited || n.depth() < depth
}

// spoil makes a part stale.
func (e *engine) spoil(n *node, p int, how, parity part) {
	was := n.parts[p]
	switch {
	case was&asked != 0:
		n.parts[p] |= again
		return
	case was&(how|stale) != 0:
		return
	case was&(stale|bare) == 0:
		was = parity
		e.dirty[parity/odd]++
	}
	if how == stale {
		n.parts[p] = was&^bare | stale
		e.reads = append(e.reads, task{n, p})
	} else {
		n.parts[p] = was | bare
		e.bares = append(e.bares, n)
	}
}

// bare makes a part bare that was clean, or is new: nothing is known to have changed since the transaction.
func (e *engine) bare(n *node, p int, since int64, parity part) {
	if e.readOnly {
		e.spoil(n, p, stale, parity)
		return
	}
	if len(e.bares) == 0 || since < e.since {
		e.since = since
	}
	e.spoil(n, p, bare, parity)
}

// settle ends the request for a part. It returns the parity of the part.
func (e *engine) settle(n *node, p int) (parity part) {
	was := n.parts[p]
	parity = was & odd
	e.dirty[parity/odd]--
	n.parts[p] = 0
	if was&again != 0 {
		e.spoil(n, p, stale, e.parity)
	}
	return parity
}

// abandon takes a part out of account, since there is no such node.
func (e *engine) abandon(n *node) {
	for p, was := range n.parts {
		if was&(stale|bare) != 0 {
			e.dirty[was&odd/odd]--
		}
		n.parts[p] = 0
	}
}

// askAgain puts a part back that was asked for.
func (e *engine) askAgain(n *node, p int, how part) {
	was := n.parts[p]
	if was&again != 0 {
		how = stale
	}
	n.parts[p] = was&odd | how
	if how == stale {
		e.reads = append(e.reads, task{n, p})
	} else {
		e.bares = append(e.bares, n)
	}
}
