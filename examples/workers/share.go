package main

import (
	"crypto/sha256"
	"fmt"

	"github.com/zkrecipes/zkrecipes/recipes/group"
)

// share returns the parts of a member. All workers that see the same members agree on the shares.
func share(members []group.Member, id string, parts int) (mine []int) {
	for part := range parts {
		if owner(members, part) == id {
			mine = append(mine, part)
		}
	}
	return mine
}

// owner returns the member with the largest hash for a part. If a member joins or leaves, only its own parts move.
func owner(members []group.Member, part int) (id string) {
	var largest string
	for _, m := range members {
		hash := sha256.Sum256(fmt.Appendf(nil, "%s/%d", m.ID, part))
		if h := string(hash[:]); h > largest {
			id, largest = m.ID, h
		}
	}
	return id
}
