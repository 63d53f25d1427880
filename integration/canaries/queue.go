package main

// queueMutants break the queue of contenders.
var queueMutants = []mutant{
	{
		name:  "queue: a waiter that is woken asks for its proof last",
		edits: []edit{{"internal/znode", "Waiter.pause", "			w.session.Freshen()\n", ""}},
		tests: []test{queueTests},
	},
	{
		name:  "grant: a downgrade has a token of its own",
		edits: []edit{{"internal/znode", "Queue.Downgrade", "w.grant(g.Token)", "w.grant(0 * g.Token)"}},
		tests: []test{bubbles("./recipes/rwlock")},
	},
	{
		name:  "queue: a contender waits for a hold of its own context",
		edits: []edit{{"internal/znode", "Queue.Acquire", "q.conflicting(e.Kind)); err != nil {", "q.conflicting(e.Kind)); false && err != nil {"}},
		tests: []test{mutexTests},
	},
	{
		name:  "mutex: a goroutine with the context of a hold gets in",
		edits: []edit{{"internal/znode", "Queue.nested", "if !q.config.Reentrant {", "if false && !q.config.Reentrant {"}},
		tests: []test{mutexTests},
	},
	{
		name:  "rwlock: a goroutine with the context of a writer gets in as a writer",
		edits: []edit{{"internal/znode", "Queue.nested", "if !q.config.Reentrant {", "if false && !q.config.Reentrant {"}},
		tests: []test{bubbles("./recipes/rwlock")},
	},
	{
		name:  "wait: the heartbeat goes on after a call that ends without a grant",
		edits: []edit{{"internal/znode", "Waiter.leaveUnlessGranted", "	w.node.Remove()\n	w.relax()\n	_ = w.node", "	w.node.Remove()\n	_ = w.node"}},
		tests: []test{queueTests},
	},
	{
		name:  "election: an observer takes another node for the candidate that it knows",
		edits: []edit{{"internal/znode", "Queue.readHead", "case listed || stat.Czxid <= known.zxid:", "case listed || stat.Czxid > 0:"}},
		tests: []test{bubbles("./recipes/election")},
	},
	{
		name:  "election: an observer goes by its last list without an end",
		edits: []edit{{"internal/znode", "Queue.readHead", "if left == 0 || len(known.names) == 0 {", "if len(known.names) == 0 {"}},
		tests: []test{bubbles("./recipes/election")},
	},
	{
		name:  "election: an observer takes an answer that is older than its question",
		edits: []edit{{"internal/znode", "turns.join", "	r = t.next\n", "	r = t.next\n	if t.running != nil {\n		r = t.running\n	}\n"}},
		tests: []test{bubbles("./recipes/election")},
	},
	{
		name:  "election: an observer that stops takes the watch of the others away",
		edits: []edit{{"internal/znode", "sharedQueue.readHeads", "max(0, reading.callers-1)", "0*reading.callers"}},
		tests: []test{bubbles("./recipes/election")},
	},
	{
		name:  "queue: a contender that is not in the list is first",
		edits: []edit{{"internal/znode", "Waiter.locate", "if me := l.locate(w.contenders); me >= 0 {", "if me := max(l.locate(w.contenders), 0); me >= 0 {"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "armed: the watch on the own node is not looked at",
		edits: []edit{{"internal/znode", "Waiter.stands", "w.own != nil && !w.own.HasFired()", "w.own != nil"}},
		tests: []test{queueTests},
	},
	{
		name:  "armed: also if the own node could not be read",
		edits: []edit{{"internal/znode", "Waiter.stands", "w.own != nil && !w.own.HasFired()", "!w.own.HasFired()"}},
		tests: []test{queueTests},
	},
	{
		name:  "armed: also if the own node is another one of that name",
		edits: []edit{{"internal/znode", "Waiter.look", ", failed == nil && stat.Czxid != w.node.Czxid:", ", false && stat.Czxid != w.node.Czxid:"}},
		tests: []test{queueTests},
	},
	{
		name:  "armed: whatever fires the watch on the predecessor is its deletion",
		edits: []edit{{"internal/znode", "Waiter.await", "o.alone && ahead.SaysDeleted()", "o.alone && ahead.HasFired()"}},
		tests: []test{queueTests},
	},
	{
		name:  "armed: with others ahead",
		edits: []edit{{"internal/znode", "Waiter.obstacleOf", "q.arms && alone && !afterWriter", "q.arms && (alone || true) && !afterWriter"}},
		tests: []test{queueTests},
	},
	{
		name:  "armed: a writer behind a writer",
		edits: []edit{{"internal/znode", "Waiter.obstacleOf", "alone && !afterWriter", "alone && (true || afterWriter)"}},
		tests: []test{queueTests},
	},
	{
		name:  "armed: in a queue that kazoo shares",
		edits: []edit{{"internal/znode", "New", "useShortcuts && !q.sharedWithKazoo()", "useShortcuts"}},
		tests: []test{queueTests},
	},
	{
		name:  "early: without a list, however many were ahead",
		edits: []edit{{"internal/znode", "Waiter.lookEarly", "case o.third:", "case true:"}},
		tests: []test{queueTests},
	},
	{
		name:  "early: whatever is told of the one two ahead, it has left",
		edits: []edit{{"internal/znode", "Waiter.lookEarly", "case !gone:", "case false && !gone:"}},
		tests: []test{queueTests},
	},
	{
		name:  "early: if the one two ahead cannot be read, the predecessor alone is in the way",
		edits: []edit{{"internal/znode", "Waiter.lookEarly", "return w.await(ctx, obstacle{path: o.path})", "return w.await(ctx, obstacle{path: o.path, alone: true})"}},
		tests: []test{queueTests},
	},
	{
		name:  "early: what was read beside the list is whoever the list says is in the way",
		edits: []edit{{"internal/znode", "Waiter.look", "early != nil && early.path == o.path", "early != nil"}},
		tests: []test{queueTests},
	},
	{
		name:  "early: the own node is not read again beside the predecessor",
		edits: []edit{{"internal/znode", "Waiter.look", "	w.own = nil\n", "	if w.stands() {\n		return w.watchAhead(ctx, o.path)\n	}\n	w.own = nil\n"}},
		tests: []test{queueTests},
	},
	{
		name:  "early: in a queue of readers and writers",
		edits: []edit{{"internal/znode", "New", "config.Eager && q.arms && len(kinds) == 1", "config.Eager && q.arms"}},
		tests: []test{queueTests},
	},
	{
		name:  "place: what another contender handed over is taken",
		edits: []edit{{"internal/znode", "places.find", "!ours && name == p.last.Name", "!ours && p.last.Name != \"\""}},
		tests: []test{queueTests},
	},
	{
		name:  "place: what was read beside the list counts for another contender",
		edits: []edit{{"internal/znode", "Waiter.obstacleOf", "seen != nil && seen.path == o.path {", "seen != nil {"}},
		tests: []test{queueTests},
	},
	{
		name:  "place: of one of several readers",
		edits: []edit{{"internal/znode", "Waiter.obstacleOf", "o.alone || q.arms && len(q.kinds) == 1", "o.alone || q.arms"}},
		tests: []test{queueTests},
	},
	{
		name:  "place: of the same object alone",
		edits: []edit{{"internal/znode", "Queue.sharedIn", "q.Path(), of)", "q.Path(), fmt.Sprintf(\"%p\", q)+of)"}},
		tests: []test{queueTests},
	},
	{
		name:  "reader: shared by queues that count other kinds",
		edits: []edit{{"internal/znode", "Queue.sharedIn", "fmt.Sprint(q.kinds, ", "fmt.Sprint("}},
		tests: []test{queueTests},
	},
	{
		name:  "reader: shared by a door and a queue without leases",
		edits: []edit{{"internal/znode", "Queue.sharedIn", "q.behind != nil", "false"}},
		tests: []test{queueTests},
	},
	{
		name:  "listing: names the path as another client does",
		edits: []edit{{"internal/znode", "namedFor", "if asked == nil || ", "if true || "}},
		tests: []test{queueTests},
	},
	{
		name:  "queue: without the list in a queue of readers and writers",
		edits: []edit{{"internal/znode", "newShortcut", "on: q.shortcuts && len(q.kinds) == 1}", "on: q.shortcuts}"}},
		tests: []test{queueTests},
	},
	{
		name:  "shortcut: whatever number comes is the one that was expected",
		edits: []edit{{"internal/znode", "shortcut.follows", "number == v.number+1 && ", "number != 0 && "}},
		tests: []test{queueTests},
	},
	{
		name:  "shortcut: the number is as expected, in whatever parent",
		edits: []edit{{"internal/znode", "shortcut.follows", "number == v.number+1 && !v.parentWatch.HasFired()", "number == v.number+1"}},
		tests: []test{queueTests},
	},
	{
		name:  "shortcut: nothing but the watch on the parent says that it is the same",
		edits: []edit{{"internal/znode", "shortcut.follows", "< int64(number)+3", "< 1<<40"}},
		tests: []test{queueTests},
	},
	{
		name:  "shortcut: every contender that leaves was first",
		edits: []edit{{"internal/znode", "shortcut.beforeDelete", "watch != nil && s.first == c.Name {", "watch != nil {"}},
		tests: []test{queueTests},
	},
	{
		name:  "queue: a call that ends without a grant leaves its contender",
		edits: []edit{{"internal/znode", "Waiter.leaveUnlessGranted", "	w.node.Remove()\n	w.relax()\n	_ = w.node", "	w.relax()\n	_ = w.node"}},
		tests: []test{queueTests},
	},
	{
		name:  "contender: names are compared whole",
		edits: []edit{{"internal/znode", "compare", "if c := strings.Compare(a.Key, b.Key); c != 0 {", "if c := strings.Compare(a.Name, b.Name); c != 0 {"}},
		tests: []test{queueTests},
	},
	{
		name:  "contender: the end of the sequence is no error",
		edits: []edit{{"internal/znode", "checkKey", "if !digits || key >= \"2147483647\" {", "if !digits {"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "rule: readers do not wait for writers",
		edits: []edit{{"internal/znode", "NoWriterAhead", "if queue[i].Writes() {", "if queue[i].Writes() && false {"}},
		tests: []test{queueTests, bubbles("./recipes/rwlock")},
	},
	{
		name:  "kazoo: its writers do not exclude readers",
		edits: []edit{{"internal/znode", "Contender.Writes", "return c.Kind == Write || c.Kind == KazooLock", "return c.Kind == Write"}},
		tests: []test{bubbles("./recipes/rwlock")},
	},
	{
		name:  "kazoo: its leases are not counted",
		edits: []edit{{"internal/znode", "parse", "slices.Contains(kinds, KazooLease)", "false"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "kazoo: its parent is a container",
		edits: []edit{{"internal/znode", "newQueue", "Plain: q.sharedWithKazoo()}", "Plain: false && q.sharedWithKazoo()}"}},
		tests: []test{bubbles("./recipes/mutex")},
	},
	{
		name:  "semaphore: the leases of who waits inside the door count as granted",
		edits: []edit{{"internal/znode", "Semaphore.granted", "len(door.queue) > 0 || ", ""}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "semaphore: one more than the limit",
		edits: []edit{{"internal/znode", "Semaphore.fits", "return others+count <= limit", "return others+count <= limit+1"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "semaphore: the limit is not read again when its event is lost",
		edits: []edit{{"internal/znode", "Semaphore.waitForLeases", "if recheck || limitChanged.HasFired() {", "if limitChanged.HasFired() {"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "queue: beside the contender of another library",
		edits: []edit{{"internal/znode", "Queue.refuseForeign", "if exists && stat.EphemeralOwner != 0 {", "if false && exists && stat.EphemeralOwner != 0 {"}},
		tests: []test{queueTests},
	},
	{
		name:  "contender: whatever contains the base",
		edits: []edit{{"internal/znode", "parse", "if c.Kind != \"\" && IsNumber(c.Key) {", "if c.Kind != \"\" {"}},
		tests: []test{queueTests},
	},
	{
		name:  "semaphore: the door does not stay shut until the leases are there",
		edits: []edit{{"internal/znode", "Semaphore.acquire", "		err = m.waitForLeases(", "		door.node.Remove()\n		err = m.waitForLeases("}},
		tests: []test{{args: []string{"-timeout=20s", "-short", "./recipes/semaphore"}}}, // they wait for each other: it hangs
	},
	{
		name:  "semaphore: leases that were counted before the list of the door was read again",
		edits: []edit{{"internal/znode", "Semaphore.passDoor", "if !l.sentOnce() {", "if false {"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "semaphore: leases that were counted before the holder of the door had passed",
		edits: []edit{{"internal/znode", "sharedQueue.listBehind", "		case <-other.sent:\n", "		default:\n"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "semaphore: those behind are counted as well",
		edits: []edit{{"internal/znode", "Semaphore.countAgain", "	_, others, err := w.locate(nil)\n	if err == nil && changed", "	l, _, err := w.locate(nil)\n	others := 0\n	if err == nil {\n		others = len(l.queue) - want.Count\n	}\n	if err == nil && changed"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "semaphore: leases without the door",
		edits: []edit{{"internal/znode", "Semaphore.acquire", "		c.Instead = door.node.Paths\n", ""}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "double barrier: no member looks again",
		edits: []edit{{"internal/znode", "Waiter.Pause", "	_, err := w.pause(w.ctx, changed.Fired())\n	return err\n", "	for again := true; again; {\n		var err error\n		if again, err = w.pause(w.ctx, changed.Fired()); err != nil {\n			return err\n		}\n	}\n	return nil\n"}},
		tests: []test{barrierTests},
	},
}
