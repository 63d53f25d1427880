package chaos

import (
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// meetings judges a double barrier. A client enters with the round that one transaction has written into the nodes of n
// members. At that instant all of them were present, and none was in an earlier round.
func (t *trial) meetings(g Group) {
	path := Root + "/" + g.Recipe
	in := map[string]int64{} // the round of a member
	rounds := map[int64]map[string]bool{}
	for zxid, changes := range t.past.multi {
		round := map[string]bool{}
		for _, c := range changes {
			if c.Kind != zktest.ChangeSet || !strings.HasPrefix(c.Path, path+"/") {
				continue
			}
			if other, again := in[c.Path]; again || round[c.Path] {
				t.violated("%s: %s is in the rounds %#x and %#x", g.Recipe, c.Path, other, zxid)
			}
			if t.past.at(c.Path, zxid) == nil {
				t.violated("%s: %s is in the round %#x, and it was not there", g.Recipe, c.Path, zxid)
			}
			in[c.Path], round[c.Path] = zxid, true
		}
		if len(round) > 0 && len(round) != g.Limit {
			t.violated("%s: round %#x has %d members: want %d", g.Recipe, zxid, len(round), g.Limit)
		}
		rounds[zxid] = round
	}
	entered := map[string]string{} // who entered with a member
	for _, op := range t.operations(g.Recipe) {
		if op.answer.Kind != check.Granted {
			continue
		}
		if !rounds[op.answer.Number][op.answer.Path] {
			t.violated("%s: entered round %#x as %s, which is not in it", op.client, op.answer.Number, op.answer.Path)
		}
		if other, again := entered[op.answer.Path]; again {
			t.violated("%s: entered as %s, as %s has done", op.client, op.answer.Path, other)
		}
		entered[op.answer.Path] = op.client
		if n := t.past.find(op.answer.Path, int64(op.answer.Token)); n == nil {
			t.violated("%s: entered as %s of %#x, which never was", op.client, op.answer.Path, op.answer.Token)
		}
	}
}
