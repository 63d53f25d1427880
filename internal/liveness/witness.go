package liveness

import "github.com/zkrecipes/zkrecipes/internal/wire"

// Witness is the server that stands behind an answer.
type Witness int

const (
	AnyServer Witness = iota
	Leader            // or a server that takes itself for the leader
	Quorum            // a write that was applied
)

// WitnessOf says which server stands behind an answer to the opcode.
func WitnessOf(op, code int32) Witness {
	switch op {
	case wire.OpSync:
		return Leader
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpSetData, wire.OpSetACL, wire.OpMulti, wire.OpReconfig:
		if code == 0 {
			return Quorum
		}
		return Leader
	default:
		return AnyServer
	}
}
