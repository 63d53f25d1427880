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
	connTests  = bubbles("./internal/session", "./conn")
	queueTests = bubbles("./internal/znode")
	mutexTests = bubbles("./recipes/mutex")
	isolation  = chaos("isolate-follower")
)

// mutants are the ways to break the code, each a mistake that somebody has made, here or elsewhere.
var mutants = []mutant{
	{
		name:  "proof: an answer of any server counts as one of the leader's",
		edits: []edit{{"internal/session/proof.go", "if by >= leader && sent.After(p.leader) {", "if sent.After(p.leader) {"}},
		tests: []test{connTests, isolation},
	},
	{
		name:  "proof: the newest sync proves itself, without the lag of the report",
		edits: []edit{{"internal/session/proof.go", "p.confirm(sent.Add(-p.lag))", "p.confirm(at)"}},
		tests: []test{connTests, isolation},
	},
	{
		name:  "proof: a deadline from the last answer of any kind",
		edits: []edit{{"internal/session/proof.go", "return p.contact.Add(p.least - p.margin)", "return p.heard.Add(p.timeout)"}},
		tests: []test{connTests, isolation},
	},
	{
		name:  "proof: whoever resumes the session proves it",
		edits: []edit{{"internal/session/proof.go", "		p.resumed = sent\n", "		p.contact = sent\n"}},
		tests: []test{connTests, {dir: "integration", args: []string{"-run=Resumed", "./lease"}}},
	},
	{
		name:  "proof: what a leader answers that was replaced counts",
		edits: []edit{{"internal/session/config.go", "return max(c.Tick/2, min(c.Tick*3/2, timeout/4))", "return c.Tick / 2"}},
		tests: []test{connTests},
	},
	{
		name:  "proof: the newest timeout counts, not the least",
		edits: []edit{{"internal/session/proof.go", "p.least = min(timeout, cmp.Or(p.least, timeout))", "p.least = cmp.Or(timeout, p.least)"}},
		tests: []test{connTests},
	},
	{
		name:  "session: whatever session the server gives is ours",
		edits: []edit{{"internal/session/session.go", "if !first && s.id != id {", "if false && s.id != id {"}},
		tests: []test{connTests},
	},
	{
		name:  "session: over before all have been told",
		edits: []edit{{"internal/session/session.go", "return s.lost != nil && s.telling == 0", "return s.lost != nil"}},
		tests: []test{connTests},
	},
	{
		name:  "client: who waits between two sessions is not told of Close",
		edits: []edit{{"internal/session/client.go", "	c.core.broadcast() // the session may be over", "	// the session may be over"}},
		tests: []test{connTests},
	},
	{
		name:  "request: too large by half",
		edits: []edit{{"internal/session/request.go", "if size > wire.MaxRequest {", "if size > wire.MaxRequest*3/2 {"}},
		tests: []test{connTests},
	},
	{
		name:  "hold: one that has lapsed leaves its contender",
		edits: []edit{{"hold.go", "if h.end(&LostError{Reason: LossDeadline, Path: h.grant.Path(), At: until}) {", "if h.end(&LostError{Reason: LossDeadline, Path: h.grant.Path(), At: until}) && false {"}},
		tests: []test{bubbles(".")},
	},
	{
		name:  "grant: one fault ends the watching",
		edits: []edit{{"internal/znode/grant.go", "		case ctx.Err() != nil:\n			return\n", "		case ctx.Err() != nil || err != nil:\n			return\n"}},
		tests: []test{mutexTests},
	},
	{
		name:  "grant: a downgrade has a token of its own",
		edits: []edit{{"internal/znode/grant.go", "= g.Key, beside(kind), g.token", "= g.Key, beside(kind), 0*g.token"}},
		tests: []test{bubbles("./recipes/rwlock")},
	},
	{
		name:  "node: one made by the same create is waited for",
		edits: []edit{{"internal/znode/node.go", "return n.guid != \"\" && slices.ContainsFunc(", "return false && slices.ContainsFunc("}},
		tests: []test{mutexTests},
	},
	{
		name:  "node: leases that a late transaction made stay",
		edits: []edit{{"internal/znode/node.go", "if repeated != \"\" { // it may be", "if false { // it may be"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "node: a door that was sent again and given up is not looked for",
		edits: []edit{{"internal/znode/node.go", "if n.guid == \"\" {", "if true {"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "pool: a try at the door minds the leases alone",
		edits: []edit{{"internal/znode/pool.go", "Changes{changed[0], w}", "Changes{nil, w}"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "hold: the clock is not looked at",
		edits: []edit{{"hold.go", "if time.Now().Before(until) {", "if true || time.Now().Before(until) {"}},
		tests: []test{bubbles(".")},
	},
	{
		name:  "session: nobody is told when the proof runs out",
		edits: []edit{{"internal/session/session.go", "if len(s.subs) == 0 || now.Before(until) {", "if true || now.Before(until) {"}},
		tests: []test{{args: []string{"-run=OnLoss", "./internal/session"}}, connTests, isolation},
	},
	{
		name:  "session: watches are lost at a reconnect",
		edits: []edit{{"internal/session/session.go", "	s.watches.fireAll()\n", ""}},
		tests: []test{connTests, chaos("cut,partition-short")},
	},
	{
		name:  "link: whoever asks waits until the connection takes it",
		edits: []edit{{"internal/session/link.go", "const room = 4 << 10", "const room = math.MaxInt"}},
		tests: []test{connTests},
	},
	{
		name:  "link: nobody is told that an answer will not come",
		edits: []edit{{"internal/session/link.go", "if r.answer != nil {\n			all = append(all, r.answer)", "if false && r.answer != nil {\n			all = append(all, r.answer)"}},
		tests: []test{{args: []string{"-run=AnswerLost", "./internal/session"}}},
	},
	{
		name:  "link: an answer that has come counts for nothing",
		edits: []edit{{"internal/session/link.go", "		p.answer(r, wire.ErrorOf(code))\n", ""}},
		tests: []test{{args: []string{"-run=AnswerLost", "./internal/session"}}},
	},
	{
		name:  "link: xids begin again with each connection",
		edits: []edit{{"internal/session/link.go", "l.session.asked.Add(1)%", "uint32(len(l.pending))%"}},
		tests: []test{connTests},
	},
	{
		name:  "creation: the list goes ahead of the create",
		edits: []edit{{"internal/session/creation.go", "requests = append(requests, s.childrenRequest(", "requests = slices.Insert(requests, 0, s.childrenRequest("}},
		tests: []test{connTests},
	},
	{
		name:  "children: a list that is lost is lost",
		edits: []edit{{"internal/session/children.go", "if retryRead(err) && s.Go(", "if false && retryRead(err) && s.Go("}},
		tests: []test{connTests},
	},
	{
		name: "grant: without a proof that the session lives, in both places that ask",
		edits: []edit{
			{"internal/znode/grant.go", "if err := s.Prove(ctx); err != nil {", "if err := s.Err(); err != nil {"},
			{"internal/session/session.go", "if s.lost != nil || !time.Now().Before(s.proof.validUntil()) || ", "if s.lost != nil || "},
		},
		tests: []test{{args: []string{"-run=OnLoss", "./internal/session"}}, connTests},
	},
	{
		name:  "grant: a hold that is being lost holds on to its node",
		edits: []edit{{"internal/znode/grant.go", "len(sh.holds) > 0 && !sh.ended", "len(sh.holds) > 0"}},
		tests: []test{bubbles("./internal/znode")},
	},
	{
		name:  "grant: our own node is not watched",
		edits: []edit{{"internal/znode/grant.go", "s.Go(func(ctx context.Context) { g.monitor(ctx, path) })", "_ = path"}},
		tests: []test{queueTests},
	},
	{
		name:  "grant: a lost hold leaves its node",
		edits: []edit{{"internal/znode/grant.go", "		end(&lost)\n	}\n	g.remove()\n", "		end(&lost)\n	}\n"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "queue: whoever is not in the list is first",
		edits: []edit{{"internal/znode/queue.go", "me := l.place(n)\n", "me := max(l.place(n), 0)\n"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "queue: granted on the event, without reading anything",
		edits: []edit{{"internal/znode/queue.go", "e.Look == nil && q.succeeds(ctx, s, n, ahead)", "e.Look == nil"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "queue: without the list after a predecessor that nobody has seen first",
		edits: []edit{{"internal/znode/succession.go", " || !n.succession.leads(predecessor)", ""}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "queue: without the list in a queue of readers and writers",
		edits: []edit{{"internal/znode/succession.go", "len(q.kinds) != 1 || ", ""}},
		tests: []test{queueTests},
	},
	{
		name:  "succession: whatever number comes is the one that was expected",
		edits: []edit{{"internal/znode/succession.go", " || n.number() != v.next {", " {"}},
		tests: []test{queueTests, bubbles("./recipes/semaphore")},
	},
	{
		name:  "succession: the number is as expected, in whatever parent",
		edits: []edit{{"internal/znode/succession.go", " || v.home.HasFired() || n.number()", " || n.number()"}},
		tests: []test{queueTests},
	},
	{
		name:  "succession: nothing but the watch on the parent says that it is the same",
		edits: []edit{{"internal/znode/succession.go", ">= int64(v.next)+3 {", ">= 1<<40 {"}},
		tests: []test{queueTests},
	},
	{
		name:  "succession: whoever leaves was first",
		edits: []edit{{"internal/znode/succession.go", "if home != nil && s.leader == n.Name {", "if home != nil {"}},
		tests: []test{queueTests},
	},
	{
		name: "succession: what was gone already has been deleted by us",
		edits: []edit{
			{"internal/znode/node.go", "		if err == nil {\n			left() //", "		if deleted(err) == nil {\n			left() //"},
			{"internal/znode/node.go", "			if err == nil {\n				left()\n", "			if deleted(err) == nil {\n				left()\n"},
		},
		tests: []test{queueTests},
	},
	{
		name:  "queue: a call that ends without a grant leaves its contender",
		edits: []edit{{"internal/znode/queue.go", "		removed := n.remove()\n		release()\n		_ = removed.wait(ctx)", "		release()"}},
		tests: []test{queueTests},
	},
	{
		name:  "queue: no second look when an event is lost",
		edits: []edit{{"internal/znode/wait.go", "timer.Reset(2*timeout + rand.N(timeout) - unnamed)", "timer.Reset(100*24*time.Hour + 0*rand.N(timeout))"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "node: a create is repeated without looking for what the first has made",
		edits: []edit{{"internal/znode/node.go", "n, findErr := q.find(ctx, s, guid)", "n, findErr := (*node)(nil), error(nil)"}},
		tests: []test{queueTests},
	},
	{
		name:  "node: found by its GUID, whoever owns it",
		edits: []edit{{"internal/znode/node.go", "case exists && stat.EphemeralOwner == s.ID():", "case exists:"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "node: the search does not wait for what is on its way",
		edits: []edit{{"internal/znode/node.go", "	if err := s.Barrier(ctx); err != nil {\n		return nil, err\n	}\n	children", "	children"}}, tests: []test{queueTests, mutexTests},
	},
	{
		name:  "node: the search asks a leader that may have been replaced",
		edits: []edit{{"internal/znode/node.go", "if err := s.Barrier(ctx); err != nil {", "if err := s.Sync(ctx, q.path); err != nil {"}},
		tests: []test{mutexTests},
	},
	{
		name:  "node: a create that was sent again leaves what the first made late",
		edits: []edit{{"internal/znode/node.go", "			repeated = guid\n", ""}},
		tests: []test{mutexTests},
	},
	{
		name:  "node: one attempt to delete, and done",
		edits: []edit{{"internal/znode/node.go", "for f() != nil && ctx.Err() == nil {", "if f() != nil && ctx.Err() == nil {"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "node: the sequence number is the token",
		edits: []edit{{"internal/znode/node.go", "session: s, succession: q.lister(s).succession, czxid: zxid,", "session: s, succession: q.lister(s).succession, czxid: func() (n int64) {\nfor _, digit := range contenders[0].Key {\nn = n*10 + int64(digit-'0')\n}\nreturn n + 0*zxid\n}(),"}},
		tests: []test{queueTests, mutexTests, chaos("reap")},
	},
	{
		name:  "contender: names are compared whole",
		edits: []edit{{"internal/znode/contender.go", "if c := strings.Compare(a.Key, b.Key); c != 0 {", "if c := strings.Compare(a.Name, b.Name); c != 0 {"}},
		tests: []test{queueTests},
	},
	{
		name:  "contender: the end of the sequence is no error",
		edits: []edit{{"internal/znode/contender.go", "if !digits || key >= \"2147483647\" {", "if !digits {"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "rule: readers do not wait for writers",
		edits: []edit{{"internal/znode/rule.go", "if queue[i].Kind == Write {", "if queue[i].Kind == Write && false {"}},
		tests: []test{queueTests, bubbles("./recipes/rwlock")},
	},
	{
		name:  "semaphore: one more than the limit",
		edits: []edit{{"internal/znode/rule.go", "return Anyone, me+n <= limit", "return Anyone, me+n <= limit+1"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "semaphore: the door does not stay shut until the leases are there",
		edits: []edit{{"internal/znode/pool.go", "	inside, end := Both(ctx, door.Context())\n", "	inside, end := Both(ctx, door.Context())\n	_ = door.Release(ctx)\n"}},
		tests: []test{{args: []string{"-timeout=20s", "-short", "./recipes/semaphore"}}}, // they wait for each other: it hangs
	},
	{
		name:  "semaphore: leases that were counted before others passed the door",
		edits: []edit{{"internal/znode/pool.go", "case out == nil && g.told:", "case out == nil:"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "semaphore: leases that were counted before the holder of the door had passed",
		edits: []edit{{"internal/znode/queue.go", "if !wasFirst && !n.succession.leads(ahead) {", "if false {"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "semaphore: those behind are counted as well",
		edits: []edit{{"internal/znode/rule.go", "func(_ []Contender, me int) (int, bool) { return Anyone, me+n <= limit }", "func(queue []Contender, me int) (int, bool) { return Anyone, max(me+n, len(queue)) <= limit }"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "semaphore: leases without the door",
		edits: []edit{{"internal/znode/node.go", "along := session.Along{Leave: e.leaves()}", "along := session.Along{}"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "election: a panic of the leader does not resign",
		edits: []edit{{"internal/znode/body.go", "if left := h.Release(bye); errors.Is(left, zkrecipes.ErrLost) {", "if r := recover(); r != nil {\n			panic(r)\n		}\n		if left := h.Release(bye); errors.Is(left, zkrecipes.ErrLost) {"}},
		tests: []test{bubbles("./recipes/election", "./recipes/mutex")},
	},
}
