package main

// The tests of whole layers, in virtual time. Tests that measure size are left out: they take long, and notice nothing
// that others do not.
const (
	quick       = "-short -skip=TenThousand "
	clientTests = quick +
		"./internal/link ./internal/liveness ./internal/lifetime ./internal/session ./internal/client ./conn"
	queueTests    = quick + "./internal/znode ./internal/hold ./internal/ephemeral"
	recordTests   = quick + "./recipes/value ./internal/record"
	cacheTests    = "-skip=Hostile|Size ./recipes/cache"
	kerberosTests = "-C zkkerberos ."
)

// canaries break the contracts of docs/design.md, and the safety arguments in the comments of the code.
var canaries = []canary{
	// C1 A session is one object, and whatever was requested of it runs in it or fails.
	{"client: a write in doubt is repeated in the next session", clientTests + ";" + recordTests, []edit{{
		"internal/client", "Client.inSession", " || errors.Is(err, zkrecipes.ErrUnknownOutcome)", "",
	}}},
	{"node: created in whichever session is live", quick + "./recipes/node", []edit{{
		"recipes/node", "keeper.create", "_, czxid, err := k.session.MultiZxid(ctx, ops...)",
		"var czxid int64\n\t\tlive, err := k.client.Session(ctx)\n\t\tif err == nil {\n\t\t\t_, czxid, err = live.MultiZxid(ctx, ops...)\n\t\t}",
	}}},
	// C2 The proof of liveness.
	{"proof: the newest sync proves itself, without the lag of the report", clientTests, []edit{{
		"internal/liveness", "Proof.confirm", "limit := servedSent.Add(-p.lag)", "limit := servedSent",
	}}},
	{"proof: a deadline from the last answer of any kind", clientTests, []edit{{
		"internal/liveness", "Proof.ValidUntil",
		"return soonest(p.provenSent.Add(p.least-p.margin), soonest(p.earlierBound, p.newestBound))",
		"return p.lastContact.Add(p.timeout)",
	}}},
	{"proof: the resumption of a session proves it", clientTests, []edit{{
		"internal/liveness", "Proof.connected", "p.resumeAnsweredSent = sent", "p.provenSent = sent",
	}}},
	{"proof: answers of a replaced leader count", clientTests, []edit{{
		"internal/liveness", "Terms.lag", "return max(t.Tick/2, min(t.Tick*3/2, timeout/4))", "return t.Tick / 2",
	}}},
	{"proof: the newest timeout counts, not the shortest", clientTests, []edit{{
		"internal/liveness", "Proof.connected", "p.least = min(timeout, cmp.Or(p.least, timeout))",
		"p.least = cmp.Or(timeout, p.least)",
	}}},
	{"proof: an unanswered resumption does not shorten the deadline", clientTests, []edit{{
		"internal/liveness", "Proof.ValidUntil",
		"return soonest(p.provenSent.Add(p.least-p.margin), soonest(p.earlierBound, p.newestBound))",
		"return p.provenSent.Add(p.least - p.margin)",
	}}},
	// C3 A session ends once, and all its holds before it.
	{"loss: each hold is logged and removed before the next hold ends", queueTests, []edit{{
		"internal/lifetime", "lossNotices.deliver", "afterwards = append(afterwards, f)", "f()",
	}}},
	// C4 A hold ends once, and every check of it checks the clock.
	{"hold: a deadline that is noticed late moves to that moment", quick + ".", []edit{{
		".", "Hold.endIfDue", "Path: h.backing.Path(), At: until}) {", "Path: h.backing.Path(), At: time.Now()}) {",
	}}},
	{
		"grant: no proof that the session is alive is required, in either place",
		"-run=OnLoss ./internal/lifetime" + ";" + clientTests,
		[]edit{{
			"internal/hold", "Grant.proveAndRegister", "err = s.Prove(ctx)", "err = s.Err()",
		}, {
			"internal/lifetime", "Lifetime.OnLoss", "if l.lost != nil || !time.Now().Before(l.upkeep.ValidUntil()) || ",
			"if l.lost != nil || ",
		}},
	},
	{"grant: another hold on the same contender without a proof", queueTests, []edit{{
		"internal/hold", "Grant.beforeDeadline", "return time.Now().Before(g.Node.Session.ValidUntil())",
		"return time.Now().Before(g.Node.Session.ValidUntil().Add(time.Hour))",
	}}},
	{"grant: every op that fails on the contender counts as a loss", queueTests, []edit{{
		"internal/hold", "guarded", "if gone := guardians[i].hold.Check(ctx); gone != nil {",
		"if gone := guardians[i].loseDeleted(); gone != nil {",
	}, {
		"internal/hold", "guarded", `if i >= 0 && failed.Op == "multi: "+string(zkrecipes.KindCheck) {`, "if i >= 0 {",
	}}},
	{"election: a panic of the leader does not resign", quick + "./recipes/election ./recipes/mutex", []edit{{
		"internal/hold", "Under", "_ = h.Release(waiting)",
		"if r := recover(); r != nil {\n\t\t\tpanic(r)\n\t\t}\n\t\t_ = h.Release(waiting)",
	}}},
	// C5 Granting, by a list.
	{"queue: a contender missing from the list counts as first", queueTests + ";" + quick + "./recipes/mutex", []edit{{
		"internal/znode", "Waiter.locate", "if me := l.locate(w.contenders); me >= 0 {",
		"if me := max(l.locate(w.contenders), 0); me >= 0 {",
	}}},
	{"contender: whole names are compared", queueTests, []edit{{
		"layout", "Compare", "if c := strings.Compare(a.Key, b.Key); c != 0 {",
		"if c := strings.Compare(a.Name, b.Name); c != 0 {",
	}}},
	{"semaphore: the door opens before the leases are available", "-timeout=20s -short ./recipes/semaphore", []edit{{
		"internal/znode", "Semaphore.acquire", "\t\terr = m.waitForLeases(",
		"door.node.Remove()\n\t\terr = m.waitForLeases(",
	}}},
	{"semaphore: contenders behind are counted as well", quick + "./recipes/semaphore", []edit{{
		"internal/znode", "Semaphore.countAgain", "_, others, err := w.locate(nil)\n\tif err == nil && changed",
		"l, _, err := w.locate(nil)\n\tothers := 0\n\tif err == nil {\n\t\tothers = len(l.queue) - want.Count\n\t}\n\tif err == nil && changed",
	}}},
	{"grant: a downgrade gets a new token", quick + "./recipes/rwlock", []edit{{
		"internal/znode", "Queue.downgrade", "w.grant(g.Token)", "w.grant(0 * g.Token)",
	}}},
	{"node: the sequence number is used as the token", queueTests + ";" + quick + "./recipes/mutex", []edit{{
		"internal/ephemeral", "Parent.newNode", "Paths: paths, Czxid: zxid,",
		"Paths: paths, Czxid: func() (n int64) {\nfor _, digit := range paths[0][len(paths[0])-10:] {\nn = n*10 + int64(digit-'0')\n}\nreturn n + 0*zxid\n}(),",
	}}},
	{"grant: a check reads from a server that may lag", queueTests, []edit{{
		"internal/hold", "backing.Check", "if err := n.Session.Sync(ctx, n.Paths[0]); err != nil {",
		"if err := n.Session.Err(); err != nil {",
	}}},
	// C5 Armed: granted by an event.
	{"armed: a new connection counts as a deletion", queueTests + ";" + clientTests, []edit{{
		"internal/session", "watches.fireAll", "w.fireOne(key, a, false)", "w.fireOne(key, a, true)",
	}}},
	{"armed: any event on the predecessor counts as its deletion", queueTests, []edit{{
		"internal/znode", "Waiter.await", "o.deletionSuffices && watch.SaysDeleted()", "o.deletionSuffices && watch.HasFired()",
	}}},
	{"armed: a shed request proves how far the server is", clientTests, []edit{{
		"internal/lifetime", "linkOwner.Answered", "if wire.FromTree(code) {",
		"o.leans.Store(false)\n\tif wire.FromTree(code) {",
	}}},
	{"early: if the one two ahead cannot be read, only the predecessor blocks", queueTests, []edit{{
		"internal/znode", "Waiter.lookEarly", "return w.await(ctx, obstacle{path: o.path})",
		"return w.await(ctx, obstacle{path: o.path, deletionSuffices: true})",
	}}},
	{"early: the own node is not read again along with the predecessor", queueTests, []edit{{
		"internal/znode", "Waiter.look", "w.ownWatch = nil",
		"if w.nodeExists() {\n\t\treturn w.watchAhead(ctx, o.path)\n\t}\n\tw.ownWatch = nil",
	}}},
	// C5 Place: handed over by a release.
	{"place: a place handed over by another contender is used", queueTests, []edit{{
		"internal/znode", "places.request", "!ours && name == p.lastPassedOn.Name", "!ours && p.lastPassedOn.Name != \"\"",
	}}},
	// C5 Shortcut: granted by a number.
	{"shortcut: any number counts as the expected one", queueTests, []edit{{
		"internal/znode", "shortcut.follows", "number == v.number+1 && ", "number != 0 && ",
	}}},
	{"shortcut: only the watch on the parent shows that it is the same", queueTests, []edit{{
		"internal/znode", "shortcut.follows", "< int64(number)+3", "< 1<<40",
	}}},
	// C5 A node that was deleted between the turn and the hold.
	{"grant: on a node deleted while the proof was awaited", quick + "./internal/hold", []edit{{
		"internal/hold", "Turn.confirm", "if t.Watch.SaysDeleted() {", "if false {",
	}, {
		"internal/hold", "Grant.proveAndRegister", "if turn.mayBeGone() || ", "if ",
	}}},
	{"grant: on a node deleted before the connection that brought the proof came up", quick + "./internal/znode", []edit{{
		"internal/hold", "Grant.proveAndRegister", "if turn.mayBeGone() || ", "if turn.Watch.SaysDeleted() || ",
	}}},
	{
		"grant: on an unwatched node deleted before the connection that brought the proof came up",
		quick + "./internal/znode",
		[]edit{{
			"internal/hold", "Turn.mayBeGone", "return t.NextConnection.HasFired()", "return false",
		}},
	},
	// C6 Leaving.
	{"node: a create is repeated without searching for the node of the first", queueTests, []edit{{
		"internal/ephemeral", "Parent.Create", "n, findErr := p.find(ctx, s, c.guid)",
		"n, findErr := (*Node)(nil), error(nil)",
	}}},
	{"node: found by its GUID, whoever owns it", queueTests + ";" + quick + "./recipes/mutex", []edit{{
		"internal/ephemeral", "Parent.find", "case exists && stat.EphemeralOwner == p.owner(s):", "case exists:",
	}}},
	{"node: the search asks a leader that may have been replaced", quick + "./recipes/mutex", []edit{{
		"internal/ephemeral", "Parent.find", "if err := s.Barrier(ctx); err != nil {",
		"if err := s.Sync(ctx, p.Path); err != nil {",
	}}},
	{"node: the search for nodes of late copies is not repeated", queueTests, []edit{{
		"internal/ephemeral", "Parent.sweep", "if err := n.delete(ctx); err != nil {\n\t\t\t\treturn err\n\t\t\t}",
		"return n.delete(ctx)",
	}}},
	{"creation: the list is sent before the create", "-run=OneRoundTrip ./internal/znode", []edit{{
		"internal/ephemeral", "creation.start",
		"\tc.last, err = c.session.StartCreateFor(\n\t\tctx, c.path, want.Data, p.flags(want), p.ACL, want.count(), sent,",
		"\tif sent != nil {\n\t\tsent()\n\t}\n\tc.last, err = c.session.StartCreateFor(\n\t\tctx, c.path, want.Data, p.flags(want), p.ACL, want.count(), nil,",
	}}},
	// C7 Waiting.
	{"queue: no recheck for a lost event", queueTests + ";" + quick + "./recipes/mutex", []edit{{
		"internal/session", "Session.RecheckAfter", "return 2*timeout + rand.N(timeout)",
		"return 100*24*time.Hour + 0*rand.N(timeout)",
	}}},
	{"hold: the node is not read early while the waiter's watch is silent", queueTests, []edit{{
		"internal/hold", "Grant.watchLater", "time.AfterFunc(readAfter, ", "time.AfterFunc(g.Node.Session.RecheckAfter(), ",
	}}},
	// C8 Contexts.
	{"link: a caller blocks until the connection accepts its request", clientTests, []edit{{
		"internal/link", "room", "room = 4 << 10", "room = 1 << 40",
	}}},
	// C9 Unknown outcomes.
	{"delete all: a lost reply counts as a deletion", clientTests, []edit{{
		"internal/client", "Client.deleteAny", "case err == nil, errors.Is(err, zk.ErrNoNode):",
		"case err == nil, errors.Is(err, zk.ErrNoNode), session.ReplyLost(err) && ctx.Err() == nil:",
	}}},
	{"set acl: the data version decides whether it was applied", clientTests, []edit{{
		"internal/client", "Client.SetACL", "return now.Aversion", "return now.Version",
	}}},
	{"in flight: a caller that leaves returns its turn while the server has its request", clientTests, []edit{{
		"internal/session", "launch", "\ts.Send(ctx, sent, []request{r})",
		"\tif taken {\n\t\tcontext.AfterFunc(ctx, func() { s.slots.giveBack() })\n\t}\n\ts.Send(ctx, sent, []request{r})",
	}}},
	{"in flight: requests of recipes take slots, too", clientTests, []edit{{
		"internal/session", "slots.take", "if t == nil || ctx.Value(bounded{}) == nil {", "if t == nil {",
	}}},
	{"counter: the marker is read before the node", recordTests, []edit{{
		"internal/record", "Marked.updateIn", "now, err := m.read(ctx, s)",
		"told, unread := open, error(nil)\n\t\tif w.doubt != nil {\n\t\t\ttold, unread = m.fate(ctx, s, &w, w.old)\n\t\t}\n\t\tnow, err := m.read(ctx, s)\n\t\tif told == open && err == nil && now.Stat.Version != w.old.Stat.Version {\n\t\t\ttold = refused\n\t\t}",
	}, {
		"internal/record", "Marked.updateIn", "var told fate\n\t\t\tif told, err = m.fate(ctx, s, &w, now); told",
		"\t\t\tif err = unread; told",
	}}},
	{"value: no version is compared", recordTests, []edit{{
		"internal/record", "Replacement.write", "data, now.Stat.Version)", "data, -1)",
	}}},
	{"value: after a lost reply the update starts over, whatever the node holds", recordTests, []edit{{
		"internal/record", "Replacement.Do", "return session.Node{}, w.doubt\n\t\t\t}", "w.doubt = nil\n\t\t\t}",
	}}},
	{"barrier: after a lost reply it is raised again", quick + "./recipes/barrier", []edit{{
		"recipes/barrier", "Barrier.raise", "return b.settle(ctx, s, err)",
		"if b.settle(ctx, s, err) == nil {\n\t\t\t\treturn nil\n\t\t\t}",
	}}},
	// C10 Goroutines have owners.
	{"values: nodes that were only read are not checked", recordTests, []edit{{
		"internal/record", "part.ops", "return []zkrecipes.Op{zkrecipes.OpCheck(p.path, version)}", "return nil",
	}}},
	{"latch: a count without its mark", quick + "./recipes/barrier", []edit{{
		"internal/record", "Named.Do", "append(ops, zkrecipes.OpCreate(n.Mark, nil, 0))", "ops",
	}}},
	{"multilock: only the first hold guards a transaction", quick + "./recipes/multilock", []edit{{
		"internal/hold", "TxnOfAll", "guarded(ctx, backings, ops)", "guarded(ctx, backings[:1], ops)",
	}}},
	{"log: the caller waits for the handler", clientTests, []edit{{
		"internal/client", "queued.Handle", "h.queue.add(record{ctx, h.Handler, r})", "_ = h.Handler.Handle(ctx, r)",
	}}},
	// C11 Bad input.
	// C12 Views.
	{"node: a state is current until the next one is read", "-timeout=20s -short -run=TestState ./recipes/node", []edit{{
		"internal/session", "Age.Current", "case <-a.down:\n\t\treturn false", "case <-a.down:\n\t\treturn true",
	}, {
		"internal/session", "Age.Current", "return a.session.Hears()", "return true",
	}}},
	{"election: the leader is read from a server that may lag", quick + "./recipes/election", []edit{{
		"recipes/election", "Election.Leader", "if err := e.queue.Client().Sync(ctx, e.queue.Path()); err != nil {",
		"if err := ctx.Err(); err != nil {",
	}}},
	{"cache: versions are compared, not transactions", cacheTests, []edit{{
		"recipes/cache", "nodes.got", "n.czxid == stat.Czxid && n.mzxid == stat.Mzxid", "n.version == stat.Version",
	}, {
		"recipes/cache", "nodes.got", "first := !n.known || n.czxid != stat.Czxid", "first := !n.known",
	}}},
	{"cache: a new connection is assumed to have the watches of the old one", cacheTests, []edit{{
		"recipes/cache", "engine.hear", "case session.Up:\n\t\te.begin()",
		"case session.Up:\n\t\te.connected, e.rounds.caughtUp = true, true",
	}}},
	{"cache: watches are set as of now, not as of the last read", cacheTests, []edit{{
		"recipes/cache", "engine.addRewatch", "b.SetWatches(rewatch.since, w.data", "b.SetWatches(1<<62, w.data",
	}}},
	// C13 Nodes of other sessions.
	{"node: the node at the path counts as ours, whoever owns it", quick + "./recipes/node", []edit{{
		"recipes/node", "keeper.owns", "return stat.EphemeralOwner == k.session.ID() && (stat.Czxid == k.czxid || k.doubt)",
		"return stat.EphemeralOwner != 0",
	}}},
	{"node: deleted in any version", quick + "./recipes/node", []edit{{
		"recipes/node", "keeper.removeOnce", "k.session.DeleteRead(ctx, k.path, stat.Version)",
		"k.session.Delete(ctx, k.path, -1)",
	}}},
	{"value: SetHeld writes without checking the hold", recordTests, []edit{{
		"recipes/value", "Value.SetHeld", "return v.set(ctx, x, h.Txn)", "_ = h\n\treturn v.set(ctx, x, nil)",
	}}},
	{"discovery: the old node is deleted before the new one exists", quick + "./recipes/discovery", []edit{{
		"recipes/discovery", "Registration.replace", "now, err := r.join(ctx, i.Service, n)",
		"_ = member.Close(ctx)\n\tnow, err := r.join(ctx, i.Service, n)",
	}}},
	// C14 What is logged.
	{"auth: the error contains the rejected credential", quick + "./internal/client", []edit{{
		"internal/lifetime", "Config.authenticate", "shown.Scheme, code)", "string(shown.Credential), code)",
	}}},
	// C15 The program ends before its lock can be granted to another.
	{"zkr: the program runs until the deadline", "-C cmd/zkr -run=Deadline ./internal/supervise", []edit{{
		"cmd/zkr/internal/supervise", "deadline.look", "case left <= d.lead:", "case left <= 0:",
	}}},
	// C16 An identity comes first.
	{
		"sasl: a server that ends the exchange early counts as accepting the client",
		quick + "./sasl" + ";" + clientTests,
		[]edit{{
			"sasl", "digestExchange.Step", "return nil, false, ErrUnproven", "return nil, true, nil",
		}},
	},
	{"sasl: a resumed session is assumed to keep its identity", clientTests, []edit{{
		"internal/lifetime", "Lifetime.handshake", "\tif err := l.opts.authenticate(",
		"\tif !l.since.IsZero() {\n\t\twho = nil\n\t}\n\tif err := l.opts.authenticate(",
	}}},
	{"sasl: requests do not wait for the identity", kerberosTests + ";" + quick + "./conn", []edit{{
		"internal/lifetime", "Lifetime.handshake", "c.Up(g.Timeout)\n\tl.connectionUp()\n\treturn nil", "\treturn nil",
	}, {
		"internal/lifetime", "Lifetime.handshake", "\tif err := l.opts.authenticate(",
		"c.Up(g.Timeout)\n\tl.connectionUp()\n\tif err := l.opts.authenticate(",
	}}},
	{"kerberos: a server that ends the exchange early counts as accepting the client", kerberosTests, []edit{{
		"zkkerberos", "exchange.Step", "return nil, false, sasl.ErrUnproven", "return nil, sasl.ErrUnproven != nil, nil",
	}}},
	{"tls: all connections use the certificates of the first", quick + "./conn", []edit{{
		"conn", "certificates.next", "\tconfig, err := c.read()",
		"if c.last != nil {\n\t\treturn c.last, nil\n\t}\n\tconfig, err := c.read()",
	}}},
	// C17 Replies in order.
	{"link: xids restart with each connection", clientTests, []edit{{
		"internal/link", "Connection.send", "c.owner.NextXid()", "int32(c.queued + 1)",
	}}},
	// The fence, the double barrier, shards.
	{"fence: a token is admitted without fsync", quick + "./fence", []edit{{
		"fence", "File.append", "if err := f.log.Sync(); err != nil {", "if err := error(nil); err != nil {",
	}}},
	{"double barrier: members already inside count for the next round", quick + "./recipes/barrier", []edit{{
		"recipes/barrier", "rounds.waiting", "data, stat.Version == 0}", "data, true}",
	}, {
		"recipes/barrier", "rounds.letIn", "data, 0)", "data, -1)",
	}}},
	{"shard: the lock is released before the function has returned", "-short -timeout=60s ./recipes/shard", []edit{{
		"recipes/shard", "member.bound", "late := time.After(complaint)",
		"late := time.After(complaint)\n\t\t_ = h.Release(ctx)",
	}}},
	{"shard: the plan is written outside the transaction of the term", "-short -timeout=60s ./recipes/shard", []edit{{
		"recipes/shard", "leader.write", "_, err = l.term.Txn(ctx, op)", "_, err = l.client.Multi(ctx, op)",
	}}},
}
