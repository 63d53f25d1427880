package txnlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"os"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// The types of transactions that change the tree. Source: ZooDefs.OpCode and TxnLogProposalIterator of ZooKeeper.
const (
	opCreate          = 1
	opDelete          = 2
	opSet             = 5
	opMulti           = 14
	opCreate2         = 15
	opCreateContainer = 19
	opDeleteContainer = 20
	opCreateTTL       = 21
	opError           = -1
	opCloseSession    = -11
)

const (
	magic       = "ZKLG"
	endOfRecord = 'B'
)

// readFile calls add with each transaction in a log file of a server. If a kill truncated the file, the missing part
// does not count, because the server has not acknowledged it.
func readFile(name string, add func(Txn)) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	in := bufio.NewReaderSize(f, 1<<20)
	var head [16]byte // magic, version, database
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return ignoreEnd(err) // created, and not yet written
	}
	if string(head[:4]) != magic {
		return fmt.Errorf("%s: is no log of transactions", name)
	}
	for {
		record, err := readRecord(in)
		if record == nil || err != nil {
			return ignoreEnd(err)
		}
		txn, err := parse(record)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		add(txn)
	}
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// readRecord returns nil at the end of the log. Beyond it, the file is filled with zeros.
func readRecord(in io.Reader) ([]byte, error) {
	var head [12]byte // check sum, length
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	sum, length := binary.BigEndian.Uint64(head[:]), binary.BigEndian.Uint32(head[8:])
	if length == 0 || length > 1<<30 {
		return nil, nil // the end
	}
	record := make([]byte, length+1)
	if _, err := io.ReadFull(in, record); err != nil {
		return nil, err
	}
	if record[length] != endOfRecord || uint64(adler32.Checksum(record[:length])) != sum {
		return nil, nil // torn
	}
	return record[:length], nil
}

// parse parses one record: a header, and what belongs to the type of transaction.
func parse(record []byte) (Txn, error) {
	r := reader{record}
	t := Txn{Session: r.long()}
	r.int() // the number of the client's request
	t.Zxid, t.Time = r.long(), r.long()
	op := r.int()
	t.Ends = op == opCloseSession
	if op != opMulti {
		t.Changes = r.changes(op, t.Session)
		return t, r.err("transaction", op)
	}
	failed := false
	for range r.int() {
		op := r.int()
		failed = failed || op == opError
		part := reader{r.bytes()}
		t.Changes = append(t.Changes, part.changes(op, t.Session)...)
		if err := part.err("part of a transaction", op); err != nil {
			return t, err
		}
	}
	if failed { // the operations before the failed one are in the log as well
		t.Changes = nil
	}
	return t, r.err("transaction", op)
}

// reader reads jute. Once a value is missing, it is empty, and its data is nil.
type reader struct{ data []byte }

func (r *reader) err(what string, op int32) error {
	if r.data == nil {
		return fmt.Errorf("%s of type %d: too short", what, op)
	}
	return nil
}

func (r *reader) take(n int) []byte {
	if r.data == nil || n > len(r.data) {
		r.data = nil
		return make([]byte, min(n, 8))
	}
	taken := r.data[:n:n]
	r.data = r.data[n:]
	return taken
}

func (r *reader) int() int32    { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) long() int64   { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reader) bytes() []byte { return r.take(max(0, int(r.int()))) }

// changes reads what follows the header. Types that change no node have nothing. The deletions at the end of a session
// are omitted, because only some releases write them.
func (r *reader) changes(op int32, session int64) []Change {
	switch op {
	case opCreate, opCreate2, opCreateContainer, opCreateTTL:
		c := Change{Kind: zktest.ChangeCreate, Path: string(r.bytes()), Data: r.bytes()}
		for range r.int() { // access list
			r.int()
			r.bytes()
			r.bytes()
		}
		if (op == opCreate || op == opCreate2) && r.take(1)[0] == 1 {
			c.Owner = session
		}
		c.Version = r.int()
		return []Change{c}
	case opDelete, opDeleteContainer:
		return []Change{{Kind: zktest.ChangeDelete, Path: string(r.bytes())}}
	case opSet:
		return []Change{{Kind: zktest.ChangeSet, Path: string(r.bytes()), Data: r.bytes(), Version: r.int()}}
	default:
		return nil
	}
}
