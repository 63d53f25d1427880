package zktest

import (
	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// reconfig changes what /zookeeper/config says. The fronts stay what they are.
func (q *call) reconfig() proto.Code {
	r := ensemble.Reconfig{Joining: q.in.Str(), Leaving: q.in.Str(), Members: q.in.Str(), Version: q.in.Int64()}
	n, code := q.write(ensemble.ConfigPath, func(t *ensemble.Txn) (tree.Change, proto.Code) { return t.Reconfig(r) })
	if code == proto.CodeOK {
		q.out.Bytes(n.Data)
		q.out.Stat(n.Stat(q.e.Tree))
	}
	return code
}
