// Package proto defines ZooKeeper's protocol: its constants, its records, and their encoding. Strings are handled as
// Java reads and writes them. Package zktest re-exports the constants for users, without the numbers.
package proto

import "strconv"

// Op is an operation code of the wire protocol.
type Op int32

// The operations that a client can send. OpConnect is the handshake, which has no code on the wire; it carries the code
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
	OpSASL                 Op = 102
	OpGetEphemerals        Op = 103
	OpGetAllChildrenNumber Op = 104
	OpSetWatches2          Op = 105
	OpAddWatch             Op = 106
	OpWhoAmI               Op = 107
	OpConnect              Op = -10
	OpCloseSession         Op = -11
	OpError                Op = -1
)

var opNames = map[Op]string{
	OpAny: "any", OpCreate: "create", OpDelete: "delete", OpExists: "exists", OpGetData: "getData",
	OpSetData: "setData", OpGetACL: "getACL", OpSetACL: "setACL", OpGetChildren: "getChildren", OpSync: "sync",
	OpPing: "ping", OpGetChildren2: "getChildren2", OpCheck: "check", OpMulti: "multi", OpCreate2: "create2",
	OpReconfig: "reconfig", OpCheckWatches: "checkWatches", OpRemoveWatches: "removeWatches",
	OpCreateContainer: "createContainer", OpDeleteContainer: "deleteContainer", OpCreateTTL: "createTTL",
	OpMultiRead: "multiRead", OpAuth: "auth", OpSetWatches: "setWatches", OpSASL: "sasl",
	OpGetEphemerals: "getEphemerals", OpGetAllChildrenNumber: "getAllChildrenNumber",
	OpSetWatches2: "setWatches2", OpAddWatch: "addWatch",
	OpWhoAmI: "whoAmI", OpConnect: "connect", OpCloseSession: "closeSession", OpError: "error",
}

// String returns the name that ZooKeeper's sources use for the operation.
func (o Op) String() string {
	if name, ok := opNames[o]; ok {
		return name
	}
	return "op " + strconv.Itoa(int(o))
}

// Writes reports whether the operation takes a zxid.
func (o Op) Writes() bool {
	switch o {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpDeleteContainer, OpSetData, OpSetACL, OpMulti,
		OpReconfig, OpCloseSession:
		return true
	default:
		return false
	}
}

// Code is the error code of a reply. It implements error, so that errors.Is compares against the constants; CodeOK is
// not an error.
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

var codeNames = map[Code]string{
	CodeOK: "ok", CodeNewConfigNoQuorum: "new config has no quorum", CodeRuntimeInconsistency: "runtime inconsistency",
	CodeMarshallingError: "marshalling error",
	CodeUnimplemented:    "unimplemented", CodeOperationTimeout: "operation timeout", CodeBadArguments: "bad arguments",
	CodeNoNode: "no node", CodeNoAuth: "no auth", CodeBadVersion: "bad version",
	CodeNoChildrenForEphemerals: "no children for ephemerals", CodeNodeExists: "node exists",
	CodeNotEmpty: "not empty", CodeSessionExpired: "session expired", CodeInvalidACL: "invalid ACL",
	CodeAuthFailed: "auth failed", CodeSessionMoved: "session moved", CodeNotReadOnly: "not read-only",
	CodeEphemeralOnLocalSession: "ephemeral on local session", CodeNoWatcher: "no watcher",
	CodeReconfigDisabled: "reconfig disabled", CodeNeedsSASL: "needs SASL", CodeQuotaExceeded: "quota exceeded",
	CodeThrottled: "throttled",
}

// Error returns the code in words and as a number.
func (c Code) Error() string {
	name, ok := codeNames[c]
	if !ok {
		name = "error"
	}
	return name + " (" + strconv.Itoa(int(c)) + ")"
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

// Valid reports whether the mode exists.
func (m Mode) Valid() bool { return m >= Persistent && m <= PersistentSequentialTTL }

// TTL reports whether the node has a time to live.
func (m Mode) TTL() bool { return m == PersistentTTL || m == PersistentSequentialTTL }

// Ephemeral reports whether the node ends with its session.
func (m Mode) Ephemeral() bool { return m == Ephemeral || m == EphemeralSequential }

// Sequential reports whether the name of the node ends with a number.
func (m Mode) Sequential() bool {
	return m == PersistentSequential || m == EphemeralSequential || m == PersistentSequentialTTL
}

// Event is the type of a watch event.
type Event int32

// The events that a watch can deliver.
const (
	NodeCreated         Event = 1
	NodeDeleted         Event = 2
	NodeDataChanged     Event = 3
	NodeChildrenChanged Event = 4
)

// Permissions of an ACL entry.
const (
	PermRead   = 1
	PermWrite  = 2
	PermCreate = 4
	PermDelete = 8
	PermAdmin  = 16
	PermAll    = 31
)

// Xids with a special meaning.
const (
	XidNotification = -1
	XidPing         = -2
)
