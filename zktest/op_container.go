package zktest

import (
	"github.com/zkrecipes/zkrecipes/zktest/internal/ensemble"
	"github.com/zkrecipes/zkrecipes/zktest/internal/proto"
	"github.com/zkrecipes/zkrecipes/zktest/internal/tree"
)

// deleteContainer serves what only the server itself should send. Since 3.9, a client can delete any node with it that
// is empty and not ephemeral, and needs no permission. Before, the server takes the whole request for the path.
func (q *call) deleteContainer() proto.Code {
	if !q.e.Traits.DeletesContainers {
		return denied(proto.CodeBadArguments)(q)
	}
	path := q.in.Str()
	if path == proto.Null { // the real server breaks on it before it takes a zxid, unlike delete
		return proto.CodeMarshallingError
	}
	_, code := q.write(path, func(t *ensemble.Txn) (tree.Change, proto.Code) {
		if code := ensemble.Deletable(path); code != proto.CodeOK {
			return tree.Change{}, code
		}
		return t.DeleteContainer(path)
	})
	return code
}
