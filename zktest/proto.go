package zktest

import "github.com/zkrecipes/zkrecipes/zktest/internal/proto"

// Op is an operation code of the wire protocol. Its String method returns the name that ZooKeeper's sources use.
type Op = proto.Op

// The operations that a client can send. OpConnect is the handshake, which has no code on the wire; it carries the code
// that ZooKeeper's own transaction log uses.
const (
	OpAny                  = proto.OpAny
	OpCreate               = proto.OpCreate
	OpDelete               = proto.OpDelete
	OpExists               = proto.OpExists
	OpGetData              = proto.OpGetData
	OpSetData              = proto.OpSetData
	OpGetACL               = proto.OpGetACL
	OpSetACL               = proto.OpSetACL
	OpGetChildren          = proto.OpGetChildren
	OpSync                 = proto.OpSync
	OpPing                 = proto.OpPing
	OpGetChildren2         = proto.OpGetChildren2
	OpCheck                = proto.OpCheck
	OpMulti                = proto.OpMulti
	OpCreate2              = proto.OpCreate2
	OpReconfig             = proto.OpReconfig
	OpCheckWatches         = proto.OpCheckWatches
	OpRemoveWatches        = proto.OpRemoveWatches
	OpCreateContainer      = proto.OpCreateContainer
	OpDeleteContainer      = proto.OpDeleteContainer
	OpCreateTTL            = proto.OpCreateTTL
	OpMultiRead            = proto.OpMultiRead
	OpAuth                 = proto.OpAuth
	OpSetWatches           = proto.OpSetWatches
	OpSASL                 = proto.OpSASL
	OpGetEphemerals        = proto.OpGetEphemerals
	OpGetAllChildrenNumber = proto.OpGetAllChildrenNumber
	OpSetWatches2          = proto.OpSetWatches2
	OpAddWatch             = proto.OpAddWatch
	OpWhoAmI               = proto.OpWhoAmI
	OpConnect              = proto.OpConnect
	OpCloseSession         = proto.OpCloseSession
)

// Code is the error code of a reply. It implements error, so that errors.Is compares against the constants; CodeOK is
// not an error. Its Error method returns the code in words and as a number.
type Code = proto.Code

// The error codes of ZooKeeper.
const (
	CodeOK                      = proto.CodeOK
	CodeRuntimeInconsistency    = proto.CodeRuntimeInconsistency
	CodeMarshallingError        = proto.CodeMarshallingError
	CodeUnimplemented           = proto.CodeUnimplemented
	CodeOperationTimeout        = proto.CodeOperationTimeout
	CodeBadArguments            = proto.CodeBadArguments
	CodeNewConfigNoQuorum       = proto.CodeNewConfigNoQuorum
	CodeNoNode                  = proto.CodeNoNode
	CodeNoAuth                  = proto.CodeNoAuth
	CodeBadVersion              = proto.CodeBadVersion
	CodeNoChildrenForEphemerals = proto.CodeNoChildrenForEphemerals
	CodeNodeExists              = proto.CodeNodeExists
	CodeNotEmpty                = proto.CodeNotEmpty
	CodeSessionExpired          = proto.CodeSessionExpired
	CodeInvalidACL              = proto.CodeInvalidACL
	CodeAuthFailed              = proto.CodeAuthFailed
	CodeSessionMoved            = proto.CodeSessionMoved
	CodeNotReadOnly             = proto.CodeNotReadOnly
	CodeEphemeralOnLocalSession = proto.CodeEphemeralOnLocalSession
	CodeNoWatcher               = proto.CodeNoWatcher
	CodeReconfigDisabled        = proto.CodeReconfigDisabled
	CodeNeedsSASL               = proto.CodeNeedsSASL
	CodeQuotaExceeded           = proto.CodeQuotaExceeded
	CodeThrottled               = proto.CodeThrottled
)

// Mode is the kind of node that a create makes; the numbers are the flags of the wire protocol.
type Mode = proto.Mode

// The kinds of nodes.
const (
	Persistent              = proto.Persistent
	Ephemeral               = proto.Ephemeral
	PersistentSequential    = proto.PersistentSequential
	EphemeralSequential     = proto.EphemeralSequential
	Container               = proto.Container
	PersistentTTL           = proto.PersistentTTL
	PersistentSequentialTTL = proto.PersistentSequentialTTL
)

// Event is the type of a watch event.
type Event = proto.Event

// The events that a watch can deliver.
const (
	NodeCreated         = proto.NodeCreated
	NodeDeleted         = proto.NodeDeleted
	NodeDataChanged     = proto.NodeDataChanged
	NodeChildrenChanged = proto.NodeChildrenChanged
)

// ACL is one entry of a node's access control list: it grants the permissions (bits: read 1, write 2, create 4, delete
// 8, admin 16) to the ID in its scheme.
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
