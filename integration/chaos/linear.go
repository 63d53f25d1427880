package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/integration/chaos/journal"
	"github.com/zkrecipes/zkrecipes/zktest/check"
)

// ask is an access as the input of the model.
type ask struct {
	journal.Access
	token zkrecipes.Token
	// left contains the numbers that confirmed writes have replaced. A number never recurs, so no other write can have
	// replaced one of them.
	left map[int64]bool
	// least is the newest number of the register that the client had seen before.
	least int64
}

// outcome is the result of an access, as its client got it.
type outcome struct {
	journal.Register
	kind outcomeKind
}

type outcomeKind int

const (
	done    outcomeKind = iota
	refused             // a Swap that found another number
	open                // its client does not know whether the servers have executed it, or will
)

// register is the state of the model. The number is the data version of the node, or the sum of the counter: every
// write increases it. The token is the largest of the holds that have written.
type register struct {
	number int64
	data   string
	token  zkrecipes.Token
}

// registerModel models one register.
//
// An open write is tried only where a write is missing: without that rule Porcupine would try every set of open writes
// at every place. Once the register has moved past what an open write wants, the write has no effect.
var registerModel = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		s, _ := state.(register)
		a, _ := input.(ask)
		o, _ := output.(outcome)
		next := register{s.number + a.N, a.Data, max(s.token, a.token)}
		switch {
		case o.kind == refused:
			return s.number != a.Base, s
		case o.kind == open && (a.How == journal.Swap && s.number > a.Base || a.token < s.token):
			return true, s
		case o.kind == open:
			return !a.left[s.number] && (a.How != journal.Swap || s.number == a.Base), next
		case a.N == 0:
			return s.number == o.Number && s.data == o.Data && o.Number >= a.least, s
		default:
			wanted := a.How != journal.Swap || s.number == a.Base
			after := a.How != journal.Update && a.How != journal.Held || s.data == o.Was
			return next.number == o.Number && wanted && after && a.token >= s.token, next
		}
	},
	DescribeOperation: describe,
	DescribeState: func(state any) string {
		s, _ := state.(register)
		return fmt.Sprintf("%d %q", s.number, s.data)
	},
}

func describe(input, output any) string {
	a, _ := input.(ask)
	o, _ := output.(outcome)
	text := fmt.Sprintf("%s %s", a.How, a.Key)
	if a.Data != "" {
		text += fmt.Sprintf(" %q", a.Data)
	}
	if a.token != 0 {
		text += fmt.Sprintf(" with token %d", a.token)
	}
	if a.How == journal.Swap {
		text += fmt.Sprintf(" over %d", a.Base)
	}
	switch {
	case o.kind == refused:
		return text + ": refused"
	case o.kind == open:
		return text + ": unknown"
	case a.N == 0:
		return fmt.Sprintf("%s: %d %q", text, o.Number, o.Data)
	case o.Was != "":
		text += fmt.Sprintf(" after %q", o.Was)
	}
	return fmt.Sprintf("%s: makes %d", text, o.Number)
}

// linearizable judges the registers of a group with Porcupine, one by one.
func (t *trial) linearizable(g Group) {
	sum := t.Linear[g.Recipe]
	for key, history := range t.accesses(t.operations(g.Recipe)) {
		sum.Registers++
		sum.Operations += len(history)
		for _, op := range history {
			if o, _ := op.Output.(outcome); o.kind == open {
				sum.Open++
			}
		}
		switch err := linearize(history, filepath.Join(t.pictures, g.Recipe+"-"+key+".html"), undecidedAfter); {
		case errors.Is(err, errUndecided):
			sum.Undecided++
			t.violated("%s: %s: %v", g.Recipe, key, err)
		case err != nil:
			t.violated("%s: %s: %v", g.Recipe, key, err)
		}
	}
	t.Linear[g.Recipe] = sum
}

// accesses returns the histories of registers, by key. It reflects what the recipes promise about reads:
//
//   - A Get is as new as its call. While a leader may have been replaced without knowing it, a Get may be as old as
//     the fault.
//   - A Look is as new as what its client has written or got before, in this register and in the others.
//
// A read without an answer proves nothing, and neither does a write that was refused for a reason other than its base.
func (t *trial) accesses(ops []*operation) map[string][]porcupine.Operation {
	histories := map[string][]porcupine.Operation{}
	left := map[string]map[int64]bool{}
	clients := map[string]int{}
	seen := map[string]int64{}      // by client, the bound below which its next Look cannot be
	newest := map[[2]string]int64{} // by client and register
	for _, op := range ops {
		if op.called.Access == nil {
			continue
		}
		a := ask{Access: *op.called.Access, token: op.called.Token}
		own := [2]string{op.client, a.Key}
		a.least = newest[own]
		if left[a.Key] == nil {
			left[a.Key] = map[int64]bool{}
		}
		if _, known := clients[op.client]; !known {
			clients[op.client] = len(clients)
		}
		a.left = left[a.Key]
		h := porcupine.Operation{ClientId: clients[op.client], Input: a, Call: op.called.At, Return: op.answer.At}
		switch {
		case op.answer.Kind == check.Granted:
			h.Output, newest[own] = outcome{*op.answer.Register, done}, op.answer.Register.Number
			if a.N > 0 {
				a.left[op.answer.Register.Number-a.N] = true
			}
			switch a.How {
			case journal.Look:
				h.Call = min(h.Call, seen[op.client])
			case journal.Get:
				h.Call = readSince(t.rounds, h.Call)
				seen[op.client] = max(seen[op.client], h.Call)
			default:
				seen[op.client] = max(seen[op.client], h.Call)
			}
		case op.answer.Kind == check.Failed && op.answer.Register != nil && a.How == journal.Swap:
			h.Output = outcome{kind: refused}
		case op.answer.Kind == check.Failed || a.N == 0:
			continue
		default:
			h.Output, h.Return = outcome{kind: open}, never
		}
		histories[a.Key] = append(histories[a.Key], h)
	}
	return histories
}

// undecidedAfter is how long Porcupine may take for one register.
const undecidedAfter = 5 * time.Minute

var errUndecided = errors.New("porcupine does not know whether the history is linearizable")

// linearize checks the history of one register. An error names the first answer that has no explanation, and the file
// with Porcupine's picture of the history up to it.
func linearize(history []porcupine.Operation, picture string, limit time.Duration) error {
	switch porcupine.CheckOperationsTimeout(registerModel, history, limit) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("%w, after %v: %d operations", errUndecided, limit, len(history))
	case porcupine.Illegal:
	}
	first, culprit := shortest(history)
	err := fmt.Errorf("not linearizable: no order of %d operations explains: %s", len(first),
		describe(culprit.Input, culprit.Output))
	_, info := porcupine.CheckOperationsVerbose(registerModel, first, limit)
	if e := os.MkdirAll(filepath.Dir(picture), 0o755); e != nil {
		return errors.Join(err, e)
	}
	if e := porcupine.VisualizePath(registerModel, info, picture); e != nil {
		return errors.Join(err, e)
	}
	return fmt.Errorf("%w; the picture is %s", err, picture)
}

// shortest truncates a history that is not linearizable at the first answer without an explanation.
func shortest(history []porcupine.Operation) (first []porcupine.Operation, culprit porcupine.Operation) {
	answers := slices.DeleteFunc(slices.Clone(history), func(op porcupine.Operation) bool { return op.Return == never })
	slices.SortFunc(answers, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	n := sort.Search(len(answers)-1, func(i int) bool {
		return porcupine.CheckOperationsTimeout(registerModel, until(history, answers[i].Return),
			undecidedAfter) == porcupine.Illegal
	})
	return until(history, answers[n].Return), answers[n]
}

// until returns the history as known at an instant. Writes that were unanswered then are open.
func until(history []porcupine.Operation, at int64) []porcupine.Operation {
	left := map[int64]bool{}
	var known []porcupine.Operation
	for _, op := range history {
		a, _ := op.Input.(ask)
		o, _ := op.Output.(outcome)
		a.left = left
		switch {
		case op.Call > at:
			continue
		case op.Return <= at && o.kind == done && a.N > 0:
			left[o.Number-a.N] = true
		case op.Return > at && a.N == 0:
			continue
		case op.Return > at:
			op.Output, op.Return = outcome{kind: open}, never
		}
		op.Input = a
		known = append(known, op)
	}
	return known
}

// makeRegisters creates the nodes that are written with versions. Counters create their own.
func (r *run) makeRegisters(ctx context.Context) error {
	if !slices.ContainsFunc(r.Groups, func(g Group) bool { return (&client{group: g}).path() == Registers }) {
		return nil
	}
	if err := r.operator.CreateAll(ctx, Registers, nil); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return err
	}
	keys := []string{"guarded"}
	for i := range 6 {
		keys = append(keys, fmt.Sprint("node-", i), fmt.Sprint("value-", i))
	}
	for _, key := range keys {
		if err := r.operator.CreateAll(ctx, Registers+"/"+key, nil); err != nil {
			return err
		}
	}
	return nil
}
