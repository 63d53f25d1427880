package zkrecipes_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// An id above 2^63 is negative as an int64, but servers log it unsigned.
func TestErrors_NameSessionsAsServersDo(t *testing.T) {
	const id = -0x35ff_ffff_ffff_fffe
	holder := zkrecipes.Participant{Path: "/q/lock-0000000001", Session: id, Token: 7}
	for _, err := range []error{
		&zkrecipes.TakenError{Path: "/members/a", Session: id, Czxid: 7},
		&zkrecipes.BusyError{Path: "/q", Holder: holder},
		&zkrecipes.WaitError{Path: "/q", Holder: holder, Position: 2, Queue: 2},
	} {
		require.ErrorContains(t, err, "0xca00000000000002", "%T", err)
	}
}

// The message of each constant has its meaning and its number.
func TestCode_HasAName(t *testing.T) {
	for _, code := range []zkrecipes.Code{
		zkrecipes.CodeUnimplemented, zkrecipes.CodeQuotaExceeded, zkrecipes.CodeThrottled, zkrecipes.CodeRequestTimeout,
		zkrecipes.CodeNotReadOnly, zkrecipes.CodeLocalSession, zkrecipes.CodeNeedsSASL,
	} {
		require.NotEqual(t, fmt.Sprintf("server error %d", code), code.Error())
		require.ErrorContains(t, code, fmt.Sprintf("(%d)", code))
	}
	require.ErrorContains(t, zkrecipes.Code(-120), "localSessionsUpgradingEnabled")
}
