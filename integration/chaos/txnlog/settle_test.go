package txnlog

import (
	"testing"

	"github.com/zkrecipes/zkrecipes/zktest"
)

const first, second = int64(1) << 32, int64(2) << 32 // epochs

func txn(zxid int64, kind zktest.ChangeKind, path string, version int32) Txn {
	return Txn{Zxid: zxid, Changes: []Change{{Kind: kind, Path: path, Version: version}}}
}

// What a lone server has at the end of an epoch was applied if what came later builds on it.
func TestSettle(t *testing.T) {
	begin := []Txn{txn(first+1, zktest.ChangeCreate, "/a", 1), txn(first+2, zktest.ChangeCreate, "/a/b", 1)}
	for name, c := range map[string]struct {
		tail, next    Txn
		done, unknown bool
	}{
		"a write that the next follows": {
			tail: txn(first+3, zktest.ChangeSet, "/a/b", 1),
			next: txn(second+1, zktest.ChangeSet, "/a/b", 2), done: true,
		},
		"a write that was made again": {
			tail: txn(first+3, zktest.ChangeSet, "/a/b", 1),
			next: txn(second+1, zktest.ChangeSet, "/a/b", 1),
		},
		"a node with a sister": {
			tail: txn(first+3, zktest.ChangeCreate, "/a/c", 2),
			next: txn(second+1, zktest.ChangeCreate, "/a/d", 3), done: true,
		},
		"a node whose place was taken": {
			tail: txn(first+3, zktest.ChangeCreate, "/a/c", 2),
			next: txn(second+1, zktest.ChangeCreate, "/a/d", 2),
		},
		"a deleted node": {
			tail: txn(first+3, zktest.ChangeDelete, "/a/b", 0),
			next: txn(second+1, zktest.ChangeCreate, "/a/b", 2), done: true,
		},
		"a node that was not deleted": {
			tail: txn(first+3, zktest.ChangeDelete, "/a/b", 0),
			next: txn(second+1, zktest.ChangeSet, "/a/b", 1),
		},
		"a write elsewhere": {
			tail: txn(first+3, zktest.ChangeSet, "/a/b", 1),
			next: txn(second+1, zktest.ChangeCreate, "/a/d", 2), unknown: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			history, unknown, _ := settle(append(begin[:2:2], c.next), map[int64][]Txn{1: {c.tail}})
			if done := len(history) == 4 && history[2].Zxid == c.tail.Zxid; done != c.done || (unknown == 1) != c.unknown {
				t.Errorf("done %v, %d unknown: %v", done, unknown, history)
			}
		})
	}
}

// Changes that cannot have been made are detected: the log is not what the servers have done.
func TestSettle_Misfits(t *testing.T) {
	begin := []Txn{txn(first+1, zktest.ChangeCreate, "/a", 1), txn(first+2, zktest.ChangeCreate, "/a/b", 1)}
	begin[1].Session, begin[1].Changes[0].Owner = 7, 7
	end := Txn{Zxid: first + 3, Session: 7, Ends: true}
	again := txn(first+4, zktest.ChangeCreate, "/a/b", 2)
	history, _, misfits := settle(append(begin, end, again), nil)
	if misfits != 0 || len(history) != 4 || history[2].Changes[0].Path != "/a/b" {
		t.Errorf("%d misfits: %v", misfits, history)
	}
	for _, wrong := range []Txn{
		txn(first+4, zktest.ChangeSet, "/a/b", 1), txn(first+4, zktest.ChangeDelete, "/a/b", 0),
		txn(first+4, zktest.ChangeCreate, "/a", 2), txn(first+4, zktest.ChangeCreate, "/a/b", 3),
		txn(first+4, zktest.ChangeSet, "/a", 2),
	} {
		if _, _, misfits := settle(append(begin[:2:2], end, wrong), nil); misfits != 1 {
			t.Errorf("%v: %d misfits, want 1", wrong, misfits)
		}
	}
}

// A quorum has what was committed, and everything before it. A gap in it means that a log was lost.
func TestCommitted(t *testing.T) {
	seen := map[int64]int{first + 1: 1, first + 2: 2, first + 3: 1, second + 1: 3}
	last, err := committed(seen, 2)
	if err != nil || last[1] != first+2 || last[2] != second+1 {
		t.Errorf("%#x, %v", last, err)
	}
	delete(seen, first+1)
	if _, err := committed(seen, 2); err == nil {
		t.Error("a hole is not found")
	}
}
