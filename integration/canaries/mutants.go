package main

// The packages whose tests run in virtual time. What measures size is left out: it takes long and notices nothing else.
func bubbles(packages ...string) test {
	return test{args: append([]string{"-short", "-skip=TenThousand|HundredThousand|ManyWaiters"}, packages...)}
}

// chaos is a run on a real ensemble with some kinds of faults.
func chaos(kinds string) test {
	return test{
		dir: "integration", args: []string{"-run=TestChaos", "./chaos"},
		env: []string{"CHAOS_SEED=1", "CHAOS_DURATION=40s", "CHAOS_KINDS=" + kinds},
	}
}

var (
	connTests  = bubbles("./conn")
	queueTests = bubbles("./internal/znode")
	mutexTests = bubbles("./recipes/mutex")
	isolation  = chaos("isolate-follower")
)

// mutants are the ways to break the code, each a mistake that somebody has made, here or elsewhere.
var mutants = []mutant{
	{
		name: "proof: an answer of any server counts as one of the leader's",
		file: "conn/proof.go", old: "if byLeader && sent.After(p.leader) {", new: "if sent.After(p.leader) {",
		tests: []test{connTests, isolation},
	},
	{
		name: "proof: the newest sync proves itself, without the lag of the report",
		file: "conn/proof.go", old: "p.confirm(sent.Add(-p.lag))", new: "p.confirm(at)",
		tests: []test{connTests, isolation},
	},
	{
		name: "proof: a deadline from the last answer of any kind",
		file: "conn/proof.go", old: "return p.contact.Add(p.timeout - p.margin)", new: "return p.heard.Add(p.timeout)",
		tests: []test{connTests, isolation},
	},
	{
		name: "hold: the clock is not looked at",
		file: "hold.go", old: "if until := h.grant.ValidUntil(); !time.Now().Before(until) {",
		new:   "if until := h.grant.ValidUntil(); false && !time.Now().Before(until) {",
		tests: []test{bubbles(".")},
	},
	{
		name: "session: nobody is told when the proof runs out",
		file: "conn/session.go", old: "if len(s.subs) == 0 || now.Before(until) {", new: "if true || now.Before(until) {",
		tests: []test{connTests, queueTests, isolation},
	},
	{
		name: "session: watches are not looked at again after a reconnect",
		file: "conn/session.go", old: "	s.watches.fireAll()\n", new: "",
		tests: []test{connTests, queueTests, mutexTests, chaos("cut,partition-short")},
	},
	{
		name: "grant: without a proof that the session lives",
		file: "internal/znode/grant.go", old: "if err := s.Prove(ctx); err != nil {", new: "if err := s.Err(); err != nil {",
		tests: []test{queueTests, mutexTests, bubbles("./recipes/rwlock", "./recipes/election"), chaos("partition-replies,outage-long")},
	},
	{
		name: "grant: our own node is not watched",
		file: "internal/znode/grant.go", old: "s.Go(func(ctx context.Context) { g.monitor(ctx, path) })", new: "_ = path",
		tests: []test{queueTests},
	},
	{
		name: "grant: a lost hold leaves its node",
		file: "internal/znode/grant.go", old: "		end(&lost)\n	}\n	g.remove()\n", new: "		end(&lost)\n	}\n",
		tests: []test{queueTests, mutexTests},
	},
	{
		name: "queue: whoever is not in the list is first",
		file: "internal/znode/queue.go", old: "me := l.place(n)\n", new: "me := max(l.place(n), 0)\n",
		tests: []test{queueTests, mutexTests},
	},
	{
		name: "queue: granted on the event, without reading the list",
		file: "internal/znode/queue.go", old: "			return nil, v.gaveUp(err)\n		}\n		l = nil\n",
		new:   "			return nil, v.gaveUp(err)\n		}\n		h, err = q.grant(ctx, s, n, release)\n		return h, v.gaveUp(err)\n",
		tests: []test{queueTests, mutexTests},
	},
	{
		name: "queue: a call that ends without a grant leaves its contender",
		file: "internal/znode/queue.go", old: "		removed := n.remove()\n		release()\n		_ = removed.wait(ctx)",
		new:   "		release()",
		tests: []test{queueTests},
	},
	{
		name: "queue: no second look when an event is lost",
		file: "internal/znode/queue.go", old: "recheck := time.NewTimer(2*timeout + rand.N(timeout))",
		new:   "recheck := time.NewTimer(100*24*time.Hour + 0*rand.N(timeout))",
		tests: []test{queueTests, mutexTests},
	},
	{
		name: "node: a create is repeated without looking for what the first has made",
		file: "internal/znode/node.go", old: "n, findErr := q.find(ctx, s, guid)", new: "n, findErr := (*node)(nil), error(nil)",
		tests: []test{queueTests},
	},
	{
		name: "node: found by its GUID, whoever owns it",
		file: "internal/znode/node.go", old: "case exists && stat.EphemeralOwner == s.ID():", new: "case exists:",
		tests: []test{queueTests, mutexTests},
	},
	{
		name: "node: the search does not wait for what is on its way",
		file: "internal/znode/node.go", old: "	if err := s.Sync(ctx, q.path); err != nil {\n		return nil, err\n	}\n	children",
		new: "	children", tests: []test{queueTests, mutexTests},
	},
	{
		name: "node: one attempt to delete, and done",
		file: "internal/znode/node.go", old: "for f() != nil && ctx.Err() == nil {", new: "if f() != nil && ctx.Err() == nil {",
		tests: []test{queueTests, mutexTests},
	},
	{
		name: "node: the sequence number is the token",
		file: "internal/znode/node.go", old: "session: s, token: zkrecipes.Token(zxid),",
		new:   "session: s, token: func() (t zkrecipes.Token) {\nfor _, digit := range contenders[0].Key {\nt = t*10 + zkrecipes.Token(digit-'0')\n}\nreturn t + 0*zkrecipes.Token(zxid)\n}(),",
		tests: []test{queueTests, mutexTests, chaos("reap")},
	},
	{
		name: "contender: names are compared whole",
		file: "internal/znode/contender.go",
		old:  "return cmp.Or(strings.Compare(a.Key, b.Key), ", new: "return cmp.Or(strings.Compare(a.Name, b.Name), ",
		tests: []test{queueTests},
	},
	{
		name: "contender: the end of the sequence is no error",
		file: "internal/znode/contender.go", old: "if !digits || key >= \"2147483647\" {", new: "if !digits {",
		tests: []test{queueTests, mutexTests},
	},
	{
		name: "rule: readers do not wait for writers",
		file: "internal/znode/rule.go", old: "if queue[i].Kind == Write {", new: "if queue[i].Kind == Write && false {",
		tests: []test{queueTests, bubbles("./recipes/rwlock")},
	},
	{
		name: "semaphore: one more than the limit",
		file: "internal/znode/rule.go", old: "return Anyone, len(queue) <= limit", new: "return Anyone, len(queue) <= limit+1",
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name: "semaphore: the door does not stay shut until the leases are there",
		file: "internal/znode/pool.go", old: "	inside, end := Both(ctx, door.Context())\n", new: "	inside, end := Both(ctx, door.Context())\n	_ = door.Release(ctx)\n",
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name: "election: a panic of the leader does not resign",
		file: "internal/znode/body.go", old: "if left := h.Release(bye); errors.Is(left, zkrecipes.ErrLost) {",
		new:   "if r := recover(); r != nil {\n			panic(r)\n		}\n		if left := h.Release(bye); errors.Is(left, zkrecipes.ErrLost) {",
		tests: []test{bubbles("./recipes/election", "./recipes/mutex")},
	},
}
