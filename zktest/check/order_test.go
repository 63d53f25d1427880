package check_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/zktest/check"
)

func TestOrder_RejectsCorruptedHistory(t *testing.T) {
	for name, tc := range map[string]struct {
		corrupt func(holds []check.Hold)
		why     string
	}{
		"overtaken in the queue": {
			func(h []check.Hold) { h[20].Token, h[21].Token = h[21].Token, h[20].Token },
			"granted after a contender that was behind it in the queue",
		},
		"tokens start again": {
			func(h []check.Hold) { h[30].Token = 1 },
			"called at 295, after the first had been granted, but has the smaller token",
		},
		"a token twice": {
			func(h []check.Hold) { h[30].Token = h[3].Token },
			"two grants with the same token",
		},
		"a token twice in one hand": {
			func(h []check.Hold) { h[33].Token = h[30].Token },
			"two grants with the same token",
		},
	} {
		holds := turns(50)
		require.NoError(t, check.Order(holds, 1))
		tc.corrupt(holds)
		v := violation(t, check.Order(holds, 1))
		assert.Equal(t, tc.why, v.Why, name)
		assert.LessOrEqual(t, v.A.From, v.B.From, name)
		assert.Contains(t, v.Error(), "order violated: ")
	}
}

func TestOrder_WhatFitsMayBeGrantedTogether(t *testing.T) {
	a := check.Hold{Client: "a", Weight: 1, Token: 1, Called: 1, From: 6, To: 20}
	b := check.Hold{Client: "b", Weight: 1, Token: 2, Called: 2, From: 5, To: 20} // its stamp came slightly earlier
	require.NoError(t, check.Order([]check.Hold{a, b}, 2))
	require.Error(t, check.Order([]check.Hold{a, b}, 1))
	a.Weight = 2
	require.Error(t, check.Order([]check.Hold{a, b}, 2), "too heavy to be granted together")
}

func TestOrder_LostHoldMayHaveBeenToldLate(t *testing.T) {
	late := check.Hold{Client: "a", Weight: 1, Token: 1, Called: 1, From: 30, To: 31, Lost: true} // frozen in between
	next := check.Hold{Client: "b", Weight: 1, Token: 2, Called: 2, From: 20, To: 29}
	require.NoError(t, check.Order([]check.Hold{late, next}, 1))
	late.Lost, next.Lost = false, true
	require.Error(t, check.Order([]check.Hold{late, next}, 1), "but one that is lost later does not get in front")
}

// disordered compares every pair.
func disordered(holds []check.Hold, limit int) bool {
	for _, a := range holds {
		for _, b := range holds {
			if a.Op == b.Op {
				continue
			}
			if a.Token == b.Token || (a.From < b.Called && b.Token < a.Token) {
				return true
			}
			if a.Weight+b.Weight > limit && a.From < b.From && b.Token < a.Token && !b.Lost {
				return true
			}
		}
	}
	return false
}

func FuzzOrder(f *testing.F) {
	f.Add([]byte{0, 1, 1, 5, 1, 1, 5, 2, 5, 1}, uint8(1))
	f.Add([]byte{0, 5, 2, 5, 1, 1, 5, 1, 5, 1}, uint8(0)) // the same stamp
	f.Add([]byte{0, 1, 2, 5, 1, 1, 5, 1, 5, 4, 0x12, 9, 3, 5, 1}, uint8(3))
	f.Fuzz(func(t *testing.T, data []byte, limit uint8) {
		holds, n := decode(data), 1+int(limit%6)
		if nestedSomewhere(holds) {
			t.Skip()
		}
		before := slices.Clone(holds)
		err := check.Order(holds, n)
		if want := disordered(holds, n); want != (err != nil) {
			t.Fatalf("limit %d: checker says %v, by hand it is %v\n%v", n, err, want, holds)
		}
		if !slices.Equal(before, holds) {
			t.Fatal("the input was changed")
		}
	})
}

// nestedSomewhere reports whether a client shares a token between holds, which has its own tests.
func nestedSomewhere(holds []check.Hold) bool {
	for i, a := range holds {
		for _, b := range holds[:i] {
			if a.Client == b.Client && a.Token == b.Token {
				return true
			}
		}
	}
	return false
}
