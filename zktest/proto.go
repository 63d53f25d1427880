package zktest

import "github.com/zkrecipes/zkrecipes/zktest/internal/proto"

// Op is an operation code of the wire protocol.
type Op int32

// The operations a client can send. OpConnect is the handshake, which has no code on the wire; it carries the code
// that ZooKeeper's own transaction log uses.
const (
	OpAny                  Op = 0
	OpCreate               Op = 1
	OpDelete               Op = 2
	OpExists               Op = 3
	OpGetData              Op = 4
	OpSetData              Op = 5
	OpGetACL               Op = 6
	OpSetACL               Op = 7
	OpGetChildren          Op = 8
	OpSync                 Op = 9
	OpPing                 Op = 11
	OpGetChildren2         Op = 12
	OpCheck                Op = 13
	OpMulti                Op = 14
	OpCreate2              Op = 15
	OpReconfig             Op = 16
	OpCheckWatches         Op = 17
	OpRemoveWatches        Op = 18
	OpCreateContainer      Op = 19
	OpDeleteContainer      Op = 20
	OpCreateTTL            Op = 21
	OpMultiRead            Op = 22
	OpAuth                 Op = 100
	OpSetWatches           Op = 101
	OpGetEphemerals        Op = 103
	OpGetAllChildrenNumber Op = 104
	OpSetWatches2          Op = 105
	OpAddWatch             Op = 106
	OpWhoAmI               Op = 107
	OpConnect              Op = -10
	OpCloseSession         Op = -11
)

// String returns the name ZooKeeper's sources use for the operation.
func (o Op) String() string {
	return proto.Op(o).String()
}

// Code is the error code of a reply. It is an error, so that errors.Is compares against the constants; CodeOK is not.
type Code int32

// The error codes of ZooKeeper.
const (
	CodeOK                      Code = 0
	CodeRuntimeInconsistency    Code = -2
	CodeMarshallingError        Code = -5
	CodeUnimplemented           Code = -6
	CodeOperationTimeout        Code = -7
	CodeBadArguments            Code = -8
	CodeNewConfigNoQuorum       Code = -13
	CodeNoNode                  Code = -101
	CodeNoAuth                  Code = -102
	CodeBadVersion              Code = -103
	CodeNoChildrenForEphemerals Code = -108
	CodeNodeExists              Code = -110
	CodeNotEmpty                Code = -111
	CodeSessionExpired          Code = -112
	CodeInvalidACL              Code = -114
	CodeAuthFailed              Code = -115
	CodeSessionMoved            Code = -118
	CodeNotReadOnly             Code = -119
	CodeEphemeralOnLocalSession Code = -120
	CodeNoWatcher               Code = -121
	CodeReconfigDisabled        Code = -123
	CodeNeedsSASL               Code = -124
	CodeQuotaExceeded           Code = -125
	CodeThrottled               Code = -127
)

// Error returns the code in words and as a number.
func (c Code) Error() string {
	return proto.Code(c).Error()
}

// Mode is the kind of node that a create makes; the numbers are the flags of the wire protocol.
type Mode int32

// The kinds of nodes.
const (
	Persistent              Mode = 0
	Ephemeral               Mode = 1
	PersistentSequential    Mode = 2
	EphemeralSequential     Mode = 3
	Container               Mode = 4
	PersistentTTL           Mode = 5
	PersistentSequentialTTL Mode = 6
)

// Event is the type of a watch event.
type Event int32

// The events a watch can bring.
const (
	NodeCreated         Event = 1
	NodeDeleted         Event = 2
	NodeDataChanged     Event = 3
	NodeChildrenChanged Event = 4
)

// ACL is one entry of a node's access control list: the id, in its scheme, has the permissions (bits: read 1, write 2,
// create 4, delete 8, admin 16).
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

// Stat describes a node as ZooKeeper does.
type Stat struct {
	Czxid, Mzxid, Ctime, Mtime  int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}
