// Package txnlog reads what real servers have done from their transaction logs. It is the counterpart of
// zktest.Server.History for real servers: the truth that clients' views are compared with.
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
	Kind    zktest.ChangeKind
	Path    string
	Data    []byte // of Create and Set
	Owner   int64  // of Create: session of an ephemeral node
	Version int32  // of Set: of the data; of Create: how many children the parent has had
}

// Read returns what an ensemble has done below a path, in order. dirs are the data directories of its servers, which
// may be running but must be at rest. Transactions that changed nothing below the path are left out.
//
// The logs of the servers complement each other: a server that was far behind gets a snapshot, and its log has a gap. A
// transaction at the end of an epoch that less than half of them have was not committed by the leader of that epoch.
// The next leader may have adopted it, which the versions in later transactions show. If they do not, Read treats it as
// not applied, and counts it in unknown.
func Read(under string, dirs ...string) (history []Txn, unknown int, err error) {
	seen := map[int64]int{} // in how many logs
	txns := map[int64]Txn{}
	for _, dir := range dirs {
		once := map[int64]bool{} // a file may begin with the end of the previous file
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
	tails := map[int64][]Txn{} // by epoch
	for _, zxid := range slices.Sorted(maps.Keys(txns)) {
		if epoch := zxid >> 32; zxid <= certain[epoch] {
			history = append(history, txns[zxid])
		} else {
			tails[epoch] = append(tails[epoch], txns[zxid])
		}
	}
	history, unknown, misfits := settle(history, tails)
	if misfits > 0 && unknown == 0 {
		return nil, 0, fmt.Errorf("%d changes in the logs do not fit to those before", misfits)
	}
	return history, unknown, nil
}

// committed returns, for each epoch, the last transaction that a quorum has. All before it are committed as well.
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
