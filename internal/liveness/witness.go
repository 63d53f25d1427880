package liveness

import "github.com/zkrecipes/zkrecipes/internal/wire"

// Witness is the kind of server that vouches for an answer.
type Witness int

const (
	// AnyServer may be a follower that is cut off.
	AnyServer Witness = iota
	// Leader is the leader, or a server that believes it is the leader.
	Leader
	// Quorum has agreed to a write that was applied, or to a transaction, even to one that failed.
	Quorum
)

// WitnessOf returns the witness of an answer to the opcode. The code must come from applying the request
// ([wire.FromTree]): other answers prove nothing, because a follower may give them on its own.
func WitnessOf(op, code int32) Witness {
	switch op {
	case wire.OpSync:
		return Leader
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpSetData,
		wire.OpSetACL, wire.OpMulti, wire.OpReconfig:
		if code == 0 {
			return Quorum
		}
		return Leader
	default:
		return AnyServer
	}
}
