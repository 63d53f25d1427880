// Package txnlog reads what real servers have done from the logs of their transactions. It is for them what
// zktest.Server.History is for the server in process: the truth that the views of clients are compared with.
package txnlog

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// Txn is one transaction.
type Txn struct {
	Zxid    int64
	Time    int64 // by the clock of the leader, in milliseconds since 1970
	Session int64
	Ends    bool // it ends the session, and deletes its ephemeral nodes
	Changes []Change
}

// Change is one effect of a transaction on the tree.
type Change struct {
	Kind  zktest.ChangeKind
	Path  string
	Data  []byte // of Create and Set
	Owner int64  // of Create: session of an ephemeral node
}

// Read returns what an ensemble has done below a path, in order. dirs are the data directories of its servers, which may be
// running but must be at rest. Transactions that changed nothing there are left out.
//
// The logs of the servers complement each other: a server that was far behind gets a snapshot, and its log has a gap. A
// transaction that less than half of them have, at the end of an epoch, was not committed by that epoch's leader. Whether the
// next leader has taken it over is not known. Read returns how many there are below the path, and takes them for not done.
func Read(under string, dirs ...string) (history []Txn, unknown int, err error) {
	seen := map[int64]int{} // in how many logs
	txns := map[int64]Txn{}
	for _, dir := range dirs {
		once := map[int64]bool{} // a file may begin with what the file before ends with
		files, err := filepath.Glob(filepath.Join(dir, "version-2", "log.*"))
		if err != nil {
			return nil, 0, err
		}
		for _, name := range files {
			err := readFile(name, func(t Txn) {
				t.Changes = slices.DeleteFunc(t.Changes, func(c Change) bool { return !strings.HasPrefix(c.Path, under+"/") })
				if !once[t.Zxid] {
					once[t.Zxid] = true
					seen[t.Zxid]++
				}
				if t.Ends || len(t.Changes) > 0 {
					txns[t.Zxid] = t
				}
			})
			if err != nil {
				return nil, 0, err
			}
		}
	}
	certain, err := committed(seen, len(dirs)/2+1)
	if err != nil {
		return nil, 0, err
	}
	for _, zxid := range slices.Sorted(maps.Keys(txns)) {
		t := txns[zxid]
		switch {
		case certain[zxid>>32] >= zxid:
			history = append(history, t)
		default:
			unknown++
		}
	}
	return endSessions(history), unknown, nil
}

// committed returns, for each epoch, the last transaction that a quorum has. All before it are committed, too.
func committed(seen map[int64]int, quorum int) (map[int64]int64, error) {
	last := map[int64]int64{}
	for zxid, n := range seen {
		if n >= quorum {
			last[zxid>>32] = max(last[zxid>>32], zxid)
		}
	}
	for epoch, end := range last {
		for zxid := epoch<<32 + 1; zxid <= end; zxid++ {
			if seen[zxid] == 0 {
				return nil, fmt.Errorf("no server has transaction %#x, and a quorum has %#x", zxid, end)
			}
		}
	}
	return last, nil
}

// endSessions adds the deletions of ephemeral nodes, and drops the ends of sessions that had none.
func endSessions(history []Txn) []Txn {
	owned := map[int64]map[string]bool{}
	owner := map[string]int64{}
	for i, t := range history {
		for _, c := range t.Changes {
			switch {
			case c.Kind == zktest.ChangeCreate && c.Owner != 0:
				if owned[c.Owner] == nil {
					owned[c.Owner] = map[string]bool{}
				}
				owned[c.Owner][c.Path], owner[c.Path] = true, c.Owner
			case c.Kind == zktest.ChangeDelete:
				delete(owned[owner[c.Path]], c.Path)
				delete(owner, c.Path)
			}
		}
		if t.Ends {
			for _, path := range slices.Sorted(maps.Keys(owned[t.Session])) {
				history[i].Changes = append(history[i].Changes, Change{Kind: zktest.ChangeDelete, Path: path})
				delete(owner, path)
			}
			delete(owned, t.Session)
		}
	}
	return slices.DeleteFunc(history, func(t Txn) bool { return len(t.Changes) == 0 })
}
