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
	connTests    = bubbles("./internal/link", "./internal/liveness", "./internal/lifetime", "./internal/session", "./internal/client", "./conn")
	queueTests   = bubbles("./internal/znode", "./internal/hold", "./internal/ephemeral")
	mutexTests   = bubbles("./recipes/mutex")
	valueTests   = bubbles("./recipes/value", "./internal/record")
	nodeTests    = bubbles("./recipes/node")
	groupTests   = test{args: []string{"-short", "-timeout=30s", "./recipes/group"}}
	barrierTests = bubbles("./recipes/barrier")
	shardTests   = test{args: []string{"-short", "-timeout=60s", "./recipes/shard"}}
	cacheTests   = test{args: []string{"-skip=Hostile|Size", "./recipes/cache"}}
	isolation    = chaos("isolate-follower")

	kerberosTests  = test{dir: "zkkerberos", args: []string{"."}}
	discoveryTests = bubbles("./recipes/discovery")
)

// mutants are the ways to break the code, each a mistake that was made once, here or elsewhere.
var mutants = []mutant{
	{
		name:  "sasl: a server that ends the exchange has let the client in",
		edits: []edit{{"sasl", "digestExchange.Step", "		return nil, false, ErrUnproven\n", "		return nil, true, nil\n"}},
		tests: []test{bubbles("./sasl"), connTests},
	},
	{
		name:  "sasl: the proof of the server is not looked at",
		edits: []edit{{"sasl", "digestExchange.Step", "!= 1:", "> 1:"}},
		tests: []test{bubbles("./sasl")},
	},
	{
		name:  "sasl: a session that is resumed has its identity still",
		edits: []edit{{"internal/lifetime", "Lifetime.handshake", "	if who != nil {", "	if who != nil && l.since.IsZero() {"}},
		tests: []test{connTests},
	},
	{
		name: "sasl: requests do not wait for the identity",
		edits: []edit{
			{"internal/lifetime", "Lifetime.handshake", "	c.Up(g.Timeout)\n	l.connectionUp()\n	return nil", "	return nil"},
			{"internal/lifetime", "Lifetime.handshake", "	if who != nil {", "	c.Up(g.Timeout)\n	l.connectionUp()\n	if who != nil {"},
		},
		tests: []test{kerberosTests, bubbles("./conn")},
	},
	{
		name: "sasl: the credentials come before the identity",
		edits: []edit{{
			"internal/lifetime", "Lifetime.handshake", "	if who != nil {",
			"	for _, credential := range l.opts.Auth {\n		if err := l.authenticate(c, credential); err != nil {\n			return err\n		}\n	}\n	if who != nil {",
		}},
		tests: []test{kerberosTests},
	},
	{
		name:  "sasl: an exchange may have any number of steps",
		edits: []edit{{"internal/lifetime", "Lifetime.exchange", "range mostSteps", "range 100 * mostSteps"}},
		tests: []test{bubbles("./conn")},
	},
	{
		name:  "sasl: a token may have any length",
		edits: []edit{{"internal/link", "Connection.Exchange", "longestToken", "1<<31 - 1"}},
		tests: []test{kerberosTests},
	},
	{
		name:  "sasl: the name of a mechanism has the password",
		edits: []edit{{"sasl", "digest.String", `"DIGEST-MD5 as " + d.user`, `"DIGEST-MD5 as " + d.user + " " + d.password`}},
		tests: []test{bubbles("./sasl"), connTests},
	},
	{
		name:  "auth: the error has the credential that was refused",
		edits: []edit{{"internal/lifetime", "Lifetime.authenticate", "shown.Scheme, code))", "string(shown.Credential), code))"}},
		tests: []test{bubbles("./internal/client")},
	},
	{
		name:  "kerberos: a server that ends the exchange has let the client in",
		edits: []edit{{"zkkerberos", "exchange.Step", "		return nil, false, sasl.ErrUnproven\n", "		return nil, sasl.ErrUnproven != nil, nil\n"}},
		tests: []test{kerberosTests},
	},
	{
		name:  "kerberos: the proof of the server is not looked at",
		edits: []edit{{"zkkerberos", "exchange.accept", "!ok || err != nil", "!ok && err == nil && len(answer) == 0"}},
		tests: []test{kerberosTests},
	},
	{
		name:  "kerberos: a server may go on after its proof",
		edits: []edit{{"zkkerberos", "exchange.Step", "case e.proven && len(answer) == 0:", "case e.proven:"}},
		tests: []test{kerberosTests},
	},
	{
		name:  "kerberos: a ticket that was refused is shown again",
		edits: []edit{{"zkkerberos", "tickets.drop", "h.ticket == refused", "h.ticket != refused"}},
		tests: []test{kerberosTests},
	},
	{
		name:  "tls: the certificates of the first connection are those of all",
		edits: []edit{{"conn", "certificates.next", "	config, err := c.read()", "	if c.last != nil {\n		return c.last, nil\n	}\n	config, err := c.read()"}},
		tests: []test{bubbles("./conn")},
	},
	{
		name:  "proof: an answer of any server counts as one of the leader's",
		edits: []edit{{"internal/liveness", "Proof.Answered", "if by >= Leader {", "if true {"}},
		tests: []test{connTests, isolation},
	},
	{
		name:  "proof: the newest sync proves itself, without the lag of the report",
		edits: []edit{{"internal/liveness", "Proof.confirm", "limit := served.Add(-p.lag)", "limit := served"}},
		tests: []test{connTests, isolation},
	},
	{
		name:  "proof: a deadline from the last answer of any kind",
		edits: []edit{{"internal/liveness", "Proof.ValidUntil", "return soonest(p.contact.Add(p.least-p.margin), soonest(p.earlierBound, p.newestBound))", "return p.heard.Add(p.timeout)"}},
		tests: []test{connTests, isolation},
	},
	{
		name:  "proof: a server that resumes the session proves it",
		edits: []edit{{"internal/liveness", "Proof.connected", "		p.resumeAnswered = sent\n", "		p.contact = sent\n"}},
		tests: []test{connTests, {dir: "integration", args: []string{"-run=Resumed", "./lease"}}},
	},
	{
		name:  "proof: what a leader answers that was replaced counts",
		edits: []edit{{"internal/liveness", "Terms.lag", "return max(t.Tick/2, min(t.Tick*3/2, timeout/4))", "return t.Tick / 2"}},
		tests: []test{connTests},
	},
	{
		name:  "proof: the newest timeout counts, not the least",
		edits: []edit{{"internal/liveness", "Proof.connected", "p.least = min(timeout, cmp.Or(p.least, timeout))", "p.least = cmp.Or(timeout, p.least)"}},
		tests: []test{connTests},
	},
	{
		name:  "proof: a resumption without an answer is granted what the session had",
		edits: []edit{{"internal/liveness", "Proof.ValidUntil", "return soonest(p.contact.Add(p.least-p.margin), soonest(p.earlierBound, p.newestBound))", "return p.contact.Add(p.least - p.margin)"}},
		tests: []test{connTests},
	},
	{
		name: "proof: a server that hangs up has not resumed the session",
		edits: []edit{
			{"internal/liveness", "Proof.Resuming", "	least := ", "	if sent.IsZero() {\n		p.earlierBound = sent\n		return\n	}\n	least := "},
			{"internal/lifetime", "Lifetime.handshake", "		l.ensemble.refused()\n", "		l.ensemble.refused()\n		l.mu.Lock()\n		l.upkeep.Resuming(time.Time{})\n		l.mu.Unlock()\n"},
		},
		tests: []test{connTests},
	},
	{
		name:  "proof: a session that cannot be proven lives on",
		edits: []edit{{"internal/liveness", "Proof.Hopeless", "return p.timeout > p.least && (p.lag > p.least/2 || p.freshest() < p.least*3/16)", "return false"}},
		tests: []test{connTests},
	},
	{
		name:  "watches: a shared watch is set once",
		edits: []edit{{"internal/session", "watched", "requested(path, true, done)", "requested(path, a.setting == 1 && !a.set, done)"}},
		tests: []test{connTests},
	},
	{
		name:  "log: the caller waits for the handler",
		edits: []edit{{"internal/client", "queued.Handle", "h.queue.add(record{ctx, h.Handler, r})", "_ = h.Handler.Handle(ctx, r)"}},
		tests: []test{connTests},
	},
	{
		name:  "client: a write in doubt is repeated in the next session",
		edits: []edit{{"internal/client", "Client.InSession", " || errors.Is(err, zkrecipes.ErrUnknownOutcome)", ""}},
		tests: []test{connTests, valueTests},
	},
	{
		name:  "client: an answer is forgotten with its session",
		edits: []edit{{"internal/client", "Client.InSession", "ended == nil || !errors.Is(err, ended) || ", "ended == nil || err == nil || "}},
		tests: []test{connTests},
	},
	{
		name:  "client: a delete in doubt takes the node of another client",
		edits: []edit{{"internal/client", "versioned", ", czxid != 0 && now.Czxid != czxid:", ":"}},
		tests: []test{valueTests, barrierTests},
	},
	{
		name:  "session: a parent in doubt is a doubt about what is made below it",
		edits: []edit{{"internal/session", "Session.makeContainer", "case inDoubt && ctx.Err() != nil:", "case false:"}},
		tests: []test{valueTests},
	},
	{
		name:  "size: a request that servers hang up on is sent again",
		edits: []edit{{"internal/session", "Hangups.Judge", "if *h++; *h < 2 {", "if *h++; true {"}},
		tests: []test{connTests},
	},
	{
		name:  "session: the next one may read what is older",
		edits: []edit{{"internal/client", "core.open", "zxid = before.Zxid()", "_ = before"}},
		tests: []test{connTests},
	},
	{
		name:  "heartbeat: a reply that arrives slowly costs the connection",
		edits: []edit{{"internal/liveness", "Upkeep.stepSync", "latest(line.OldestSync, line.Arrived)", "line.OldestSync"}},
		tests: []test{connTests},
	},
	{
		name:  "queue: a waiter that is woken asks for its proof last",
		edits: []edit{{"internal/znode", "Waiter.pause", "			w.session.Freshen()\n", ""}},
		tests: []test{queueTests},
	},
	{
		name:  "session: whatever session the server gives is ours",
		edits: []edit{{"internal/lifetime", "Lifetime.identify", "ours := l.id == 0 || l.id == id", "ours := true || l.id == id"}},
		tests: []test{connTests},
	},
	{
		name:  "session: over before all have been told",
		edits: []edit{{"internal/lifetime", "Lifetime.over", "return l.lost != nil && l.delivering == 0", "return l.lost != nil"}},
		tests: []test{connTests},
	},
	{
		name:  "loss: each hold is logged and removed before the next one ends",
		edits: []edit{{"internal/lifetime", "lossNotices.deliver", "afterwards = append(afterwards, f)", "f()"}},
		tests: []test{queueTests},
	},
	{
		name:  "upkeep: syncs are out of step with the lag",
		edits: []edit{{"internal/liveness", "Proof.connected", "p.beat = beat(p.least, lag)", "p.beat = p.least / 8"}},
		tests: []test{connTests},
	},
	{
		name:  "pings: a request that the server shed is a sign of life",
		edits: []edit{{"internal/link", "Connection.take", "wire.FromTree(code) && ", ""}},
		tests: []test{connTests},
	},
	{
		name:  "reconnect: a client with holds has time",
		edits: []edit{{"internal/lifetime", "hurried.NextBackOff", "Report().Holds > 0", "Report().Holds < 0"}},
		tests: []test{connTests},
	},
	{
		name:  "client: who waits between two sessions is not told of Close",
		edits: []edit{{"internal/client", "Client.Close", "	c.core.broadcast() // the session may be over", "	// the session may be over"}},
		tests: []test{connTests},
	},
	{
		name:  "request: too large by half",
		edits: []edit{{"internal/session", "Ensemble.CheckSize", "most := e.opts.MaxRequest; size > most", "most := e.opts.MaxRequest; size > most*3/2"}},
		tests: []test{connTests},
	},
	{
		name:  "hold: one that has lapsed leaves its contender",
		edits: []edit{{".", "Hold.endIfDue", "if h.end(&LostError{Reason: LossDeadline, Path: h.backing.Path(), At: until}) {", "if h.end(&LostError{Reason: LossDeadline, Path: h.backing.Path(), At: until}) && false {"}},
		tests: []test{bubbles(".")},
	},
	{
		name:  "grant: one fault ends the watching",
		edits: []edit{{"internal/hold", "Grant.watchPath", "		case ctx.Err() != nil, ", "		case ctx.Err() != nil || err != nil, "}},
		tests: []test{mutexTests},
	},
	{
		name:  "grant: a downgrade has a token of its own",
		edits: []edit{{"internal/znode", "Queue.Downgrade", "w.grant(g.Token)", "w.grant(0 * g.Token)"}},
		tests: []test{bubbles("./recipes/rwlock")},
	},
	{
		name:  "node: one made by the same create is waited for",
		edits: []edit{{"internal/ephemeral", "Node.IsCopy", "return n.guid != \"\" && strings.", "return false && strings."}},
		tests: []test{mutexTests},
	},
	{
		name:  "node: leases that a late transaction made stay",
		edits: []edit{{"internal/ephemeral", "Parent.Create", "return c.fail(ErrGone)", "return nil, ErrGone"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "node: a door that was sent again and given up is not looked for",
		edits: []edit{{"internal/ephemeral", "Node.Removed", "if n.guid == \"\" {", "if true {"}},
		tests: []test{bubbles("./recipes/semaphore")},
	},
	{
		name:  "hold: the clock is not looked at",
		edits: []edit{{".", "Hold.endIfDue", "if time.Now().Before(until) {", "if true || time.Now().Before(until) {"}},
		tests: []test{bubbles(".")},
	},
	{
		name:  "body: its context does not look at the clock",
		edits: []edit{{"internal/hold", "bothContext.look", "		if ctx.Err() != nil {", "		if false && ctx.Err() != nil {"}},
		tests: []test{queueTests},
	},
	{
		name:  "election: an error that is joined with the end of the context is forgotten",
		edits: []edit{{"internal/hold", "SaysEnded", "	case interface{ Unwrap() []error }:\n", "	case interface{ Never() []error }:\n"}, {"internal/hold", "SaysEnded", "slices.ContainsFunc(e.Unwrap(), func(part", "slices.ContainsFunc(e.Never(), func(part"}},
		tests: []test{bubbles("./recipes/election")},
	},
	{
		name:  "grant: every op that fails on the contender is a loss",
		edits: []edit{{"internal/hold", "share.guarded", "if gone := sh.Check(ctx); errors.Is(gone, zkrecipes.ErrLost) {", "if gone := sh.deleted(); gone != nil {"}},
		tests: []test{queueTests},
	},
	{
		name:  "fence: a link that leads nowhere yet is taken for the file",
		edits: []edit{{"fence", "File.open", "if f.path, err = resolve(f.path); err != nil {", "if _, err = resolve(f.path); err != nil {"}},
		tests: []test{bubbles("./fence")},
	},
	{
		name:  "grant: equal paths of two ensembles are one",
		edits: []edit{{"internal/hold", "Above", "	for g := range allHeld(ctx, p, kind) {\n", "	for g := range allHeld(ctx, p, kind) {\n		if !g.Node.Parent.Client.Same(p.Client) {\n			break\n		}\n"}},
		tests: []test{mutexTests},
	},
	{
		name:  "queue: a contender waits for a hold of its own context",
		edits: []edit{{"internal/znode", "Queue.Acquire", "q.conflicting(e.Kind)); err != nil {", "q.conflicting(e.Kind)); false && err != nil {"}},
		tests: []test{mutexTests},
	},
	{
		name:  "body: a loss hides behind a cancellation",
		edits: []edit{{"internal/hold", "withLoss", "	case saysEnded && cancelled:\n", "	case false:\n"}},
		tests: []test{bubbles("./internal/hold")},
	},
	{
		name:  "body: the loss of an outer hold is not told",
		edits: []edit{{"internal/hold", "Under", "	if errors.Is(cause, zkrecipes.ErrLost) && SaysEnded(err, cause) {", "	if false {"}},
		tests: []test{bubbles("./internal/hold")},
	},
	{
		name:  "run: work that failed as its hold was lost begins again",
		edits: []edit{{"internal/hold", "Run", "errors.Is(lost, zkrecipes.ErrLost) && SaysEnded(err, lost), err", "errors.Is(lost, zkrecipes.ErrLost), err"}},
		tests: []test{bubbles(".")},
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
		name:  "election: terms that end at once follow at once",
		edits: []edit{{"internal/hold", "Repeat", "if time.Since(began) >= brief {", "if time.Since(began) >= 0 {"}},
		tests: []test{bubbles("./recipes/election")},
	},
	{
		name:  "hold: a deadline that was noticed late is a late one",
		edits: []edit{{".", "Hold.endIfDue", "Path: h.backing.Path(), At: until}) {", "Path: h.backing.Path(), At: time.Now()}) {"}},
		tests: []test{bubbles(".")},
	},
	{
		name:  "holds: the last deadline counts",
		edits: []edit{{"recipes/mutex", "Holds.ValidUntil", "until.Before(first)", "until.After(first)"}},
		tests: []test{mutexTests},
	},
	{
		name:  "holds: a transaction is guarded by the first hold alone",
		edits: []edit{{"recipes/mutex", "Holds.Txn", "		guards = append(guards, zkrecipes.OpCheck(path, -1))\n", "		_ = path\n"}},
		tests: []test{mutexTests},
	},
	{
		name:  "fence: a token is admitted without fsync",
		edits: []edit{{"fence", "File.append", "if err := f.log.Sync(); err != nil {", "if err := error(nil); err != nil {"}},
		tests: []test{bubbles("./fence")},
	},
	{
		name:  "semaphore: any limit is the one that was to be set",
		edits: []edit{{"internal/record", "Replacement.fate", "now.Exists && bytes.Equal(now.Data, w.data)", "now.Exists"}},
		tests: []test{bubbles("./recipes/semaphore"), valueTests},
	},
	{
		name:  "session: no hold is told when the proof runs out",
		edits: []edit{{"internal/lifetime", "Lifetime.collectIfDue", "if len(l.callbacks) == 0 || now.Before(until) {", "if true || now.Before(until) {"}},
		tests: []test{{args: []string{"-run=OnLoss", "./internal/lifetime"}}, connTests, isolation},
	},
	{
		name:  "session: watches are lost at a reconnect",
		edits: []edit{{"internal/session", "listener.Up", "	l.watches.fireAll()\n", ""}},
		tests: []test{connTests, chaos("cut,partition-short")},
	},
	{
		name:  "link: a caller waits until the connection takes its request",
		edits: []edit{{"internal/link", "room", "room = 4 << 10", "room = 1 << 40"}},
		tests: []test{connTests},
	},
	{
		name:  "link: no caller is told that an answer will not come",
		edits: []edit{{"internal/link", "Connection.Fail", "			r.done(Reply{Sent: r.sent}, zk.ErrConnectionClosed)\n", "			_ = zk.ErrConnectionClosed\n"}},
		tests: []test{{args: []string{"-run=AnswerLost", "./internal/session"}}},
	},
	{
		name:  "link: an answer that has come counts for nothing",
		edits: []edit{{"internal/link", "Connection.handle", "		r.done(Reply{h.Zxid, body, r.sent, now}, said)\n", ""}},
		tests: []test{{args: []string{"-run=AnswerLost", "./internal/session"}}},
	},
	{
		name:  "link: xids begin again with each connection",
		edits: []edit{{"internal/link", "Connection.Ask", "c.owner.NextXid()", "int32(c.queued + 1)"}},
		tests: []test{connTests},
	},
	{
		name:  "creation: the list goes ahead of the create",
		edits: []edit{{"internal/ephemeral", "creation.start", "	c.last, err = c.session.StartCreate(", "	if sent != nil {\n		sent()\n	}\n	c.last, err = c.session.StartCreate("}},
		tests: []test{{args: []string{"-run=OneRoundTrip", "./internal/znode"}}},
	},
	{
		name:  "children: a list that is lost is lost",
		edits: []edit{{"internal/session", "Session.firstAnswer", "if repeatable(err) && s.Go(", "if false && repeatable(err) && s.Go("}},
		tests: []test{connTests},
	},
	{
		name: "grant: without a proof that the session lives, in both places that ask",
		edits: []edit{
			{"internal/hold", "Grant.endOnLoss", "if err := s.Prove(ctx); err != nil {", "if err := s.Err(); err != nil {"},
			{"internal/lifetime", "Lifetime.OnLoss", "if l.lost != nil || !time.Now().Before(l.upkeep.ValidUntil()) || ", "if l.lost != nil || "},
		},
		tests: []test{{args: []string{"-run=OnLoss", "./internal/lifetime"}}, connTests},
	},
	{
		name:  "grant: a hold that is being lost holds on to its node",
		edits: []edit{{"internal/hold", "share.letGo", "len(g.holds) > 0 && !g.ended", "len(g.holds) > 0"}},
		tests: []test{bubbles("./internal/hold", "./internal/znode")},
	},
	{
		name:  "grant: our own node is not watched",
		edits: []edit{{"internal/hold", "Grant.watch", "g.Node.Session.Go(func(ctx context.Context) { g.watchPath(ctx, path, watch) })", "_, _ = path, watch"}},
		tests: []test{queueTests},
	},
	{
		name:  "grant: another hold on a contender without a proof",
		edits: []edit{{"internal/hold", "Grant.isProven", "return time.Now().Before(g.Node.Session.ValidUntil())", "return time.Now().Before(g.Node.Session.ValidUntil().Add(time.Hour))"}},
		tests: []test{queueTests},
	},
	{
		name:  "grant: a check of what a server has that lags behind",
		edits: []edit{{"internal/hold", "share.Check", "if err := n.Session.Sync(ctx, n.Paths[0]); err != nil {", "if err := n.Session.Err(); err != nil {"}},
		tests: []test{queueTests},
	},
	{
		name:  "grant: the heartbeat goes on after a hold",
		edits: []edit{{"internal/hold", "Grant.detach", "		g.Node.Session.EndRetention()\n", ""}},
		tests: []test{queueTests},
	},
	{
		name:  "wait: the heartbeat goes on after a call that ends without a grant",
		edits: []edit{{"internal/znode", "Waiter.leaveUnlessGranted", "	w.node.Remove()\n	w.relax()\n	_ = w.node", "	w.node.Remove()\n	_ = w.node"}},
		tests: []test{queueTests},
	},
	{
		name:  "election: an observer does not look again when an event is lost",
		edits: []edit{{"internal/client", "follower.wait", "time.After(s.RecheckAfter())", "time.After(100*24*time.Hour + s.RecheckAfter())"}},
		tests: []test{bubbles("./recipes/election")},
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
		name:  "election: the leader of a server that lags behind",
		edits: []edit{{"recipes/election", "Election.Leader", "if err := e.queue.Client().Sync(ctx, e.queue.Path()); err != nil {", "if err := ctx.Err(); err != nil {"}},
		tests: []test{bubbles("./recipes/election")},
	},
	{
		name:  "grant: a lost hold leaves its node",
		edits: []edit{{"internal/hold", "Grant.endHolds", "g.traceEnd() g.Node.Remove()", "g.traceEnd()"}},
		tests: []test{queueTests, mutexTests},
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
		name:  "armed: a new connection is a deletion",
		edits: []edit{{"internal/session", "watches.fireAll", "w.fireOne(key, a, false)", "w.fireOne(key, a, true)"}},
		tests: []test{queueTests, connTests},
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
		name:  "hold: never reads its node while the watch of the waiter is silent",
		edits: []edit{{"internal/hold", "Grant.watchPath", "s.AwaitChange(ctx, readAfter, ", "s.AwaitChange(ctx, s.RecheckAfter(), "}},
		tests: []test{queueTests},
	},
	{
		name:  "place: handed over though no deletion is on its way",
		edits: []edit{{"internal/hold", "share.Release", "sent && handsOver &&", "(sent || true) && handsOver &&"}},
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
		name:  "place: handed over by a hold that was lost",
		edits: []edit{{"internal/hold", "share.letGo", "handsOver = !g.ended &&", "handsOver = true &&"}},
		tests: []test{queueTests},
	},
	{
		name:  "armed: after a grant by an event, a server that lags is believed",
		edits: []edit{{"internal/lifetime", "Lifetime.connectionUp", "l.leans.Load() && l.lost == nil", "false && l.leans.Load() && l.lost == nil"}},
		tests: []test{connTests},
	},
	{
		name:  "armed: a request that was shed shows how far the server is",
		edits: []edit{{"internal/lifetime", "linkOwner.Answered", "	if wire.FromTree(code) {\n", "	o.leans.Store(false)\n	if wire.FromTree(code) {\n"}},
		tests: []test{connTests},
	},
	{
		name:  "place: handed over while a guarded write is on its way",
		edits: []edit{{"internal/hold", "share.letGo", " && g.open == 0", ""}},
		tests: []test{queueTests},
	},
	{
		name:  "place: a guarded write that may still come is over",
		edits: []edit{{"internal/hold", "share.endTxn", "if !errors.Is(err, zkrecipes.ErrUnknownOutcome) {", "{"}},
		tests: []test{queueTests},
	},
	{
		name:  "mutex: of several holds, only the first knows of a guarded write",
		edits: []edit{{"internal/hold", "Guard", "	if sh == nil || sh.hold != h {", "	if true {"}},
		tests: []test{mutexTests},
	},
	{
		name:  "grant: a node that was deleted while the proof was awaited",
		edits: []edit{{"internal/hold", "Give", "if turn.Watch.SaysDeleted() {", "if false {"}},
		tests: []test{bubbles("./internal/hold")},
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
		name:  "client: keeps what its objects have shared",
		edits: []edit{{"internal/client", "Shared", "	runtime.AddCleanup(v, sharedEntry.forget, sharedEntry{weak.Make(c.core), key, made})\n", "	runtime.KeepAlive(sharedEntry.forget)\n"}},
		tests: []test{bubbles("./internal/client")},
	},
	{
		name:  "client: forgets what was shared anew",
		edits: []edit{{"internal/client", "sharedEntry.forget", "if c.shared[e.key] == e.value {", "if e.value != nil {"}},
		tests: []test{bubbles("./internal/client")},
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
		name:  "shortcut: what was gone already has been deleted by us",
		edits: []edit{{"internal/ephemeral", "Node.Remove", "			if err == nil {\n				deleted()\n", "			if isDone(err) == nil {\n				deleted()\n"}},
		tests: []test{queueTests},
	},
	{
		name:  "queue: a call that ends without a grant leaves its contender",
		edits: []edit{{"internal/znode", "Waiter.leaveUnlessGranted", "	w.node.Remove()\n	w.relax()\n	_ = w.node", "	w.relax()\n	_ = w.node"}},
		tests: []test{queueTests},
	},
	{
		name:  "queue: no second look when an event is lost",
		edits: []edit{{"internal/session", "Session.RecheckAfter", "return 2*timeout + rand.N(timeout)", "return 100*24*time.Hour + 0*rand.N(timeout)"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "session: each of ten thousand looks again as soon as one alone",
		edits: []edit{{"internal/session", "Session.RecheckAfter", "time.Duration(s.awaiting.Load())", "0*time.Duration(s.awaiting.Load())"}},
		tests: []test{{args: []string{"-run=RecheckAfter", "./internal/session"}}},
	},
	{
		name:  "node: a create is repeated without looking for what the first has made",
		edits: []edit{{"internal/ephemeral", "Parent.Create", "n, findErr := p.find(ctx, s, c.guid)", "n, findErr := (*Node)(nil), error(nil)"}},
		tests: []test{queueTests},
	},
	{
		name:  "node: found by its GUID, of any owner",
		edits: []edit{{"internal/ephemeral", "Parent.find", "case exists && stat.EphemeralOwner == s.ID():", "case exists:"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "node: the search does not wait for what is on its way",
		edits: []edit{{"internal/ephemeral", "Parent.find", "	if err := s.Barrier(ctx); err != nil {\n		return nil, err\n	}\n	children", "	children"}}, tests: []test{queueTests, mutexTests},
	},
	{
		name:  "node: the search asks a leader that may have been replaced",
		edits: []edit{{"internal/ephemeral", "Parent.find", "if err := s.Barrier(ctx); err != nil {", "if err := s.Sync(ctx, p.Path); err != nil {"}},
		tests: []test{mutexTests},
	},
	{
		name:  "node: a create that was sent again leaves what the first made late",
		edits: []edit{{"internal/ephemeral", "Parent.Create", "				c.copies++\n", ""}},
		tests: []test{mutexTests},
	},
	{
		name:  "node: what a late copy has made is looked for once",
		edits: []edit{{"internal/ephemeral", "Parent.sweep", "			if err := n.delete(ctx); err != nil {\n				return err\n			}\n", "			return n.delete(ctx)\n"}},
		tests: []test{queueTests},
	},
	{
		name:  "node: one attempt to delete, and done",
		edits: []edit{{"internal/ephemeral", "Parent.untilDone", "if err == nil || ctx.Err() != nil {\n			return", "if true || err == nil || ctx.Err() != nil {\n			return"}},
		tests: []test{queueTests, mutexTests},
	},
	{
		name:  "node: the sequence number is the token",
		edits: []edit{{"internal/ephemeral", "Parent.newNode", "Paths: paths, Czxid: zxid,", "Paths: paths, Czxid: func() (n int64) {\nfor _, digit := range paths[0][len(paths[0])-10:] {\nn = n*10 + int64(digit-'0')\n}\nreturn n + 0*zxid\n}(),"}},
		tests: []test{queueTests, mutexTests, chaos("reap")},
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
		name:  "other servers: a create without a zxid is taken",
		edits: []edit{{"internal/ephemeral", "Parent.Create", "case err == nil && zxid <= 0:", "case false:"}},
		tests: []test{{args: []string{"-run=TestDeviations", "./internal/faults"}}},
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
		name:  "semaphore: a try waits at the door without a bound",
		edits: []edit{{"internal/znode", "Semaphore.Try", "return m.acquire(trying, s, want, a, tryAtDoor)", "return m.acquire(trying, s, want, a, 1000*tryAtDoor)"}},
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
		name:  "node: a removal that is not allowed is waited for",
		edits: []edit{{"internal/ephemeral", "Node.refuse", "	n.mu.Lock()\n", "	if true {\n		return\n	}\n	n.mu.Lock()\n"}},
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
		name:  "counter: a lost reply means that nothing was added",
		edits: []edit{{"internal/record", "Marked.updateIn", "told == applied {", "told == applied && false {"}},
		tests: []test{valueTests},
	},
	{
		name: "counter: the marker is read before the node",
		edits: []edit{
			{"internal/record", "Marked.updateIn", "		now, err := m.read(ctx, s)\n", "		told, unread := open, error(nil)\n		if w.doubt != nil {\n			told, unread = m.fate(ctx, s, &w, w.old)\n		}\n		now, err := m.read(ctx, s)\n		if told == open && err == nil && now.Stat.Version != w.old.Stat.Version {\n			told = refused\n		}\n"},
			{"internal/record", "Marked.updateIn", "			var told fate\n			if told, err = m.fate(ctx, s, &w, now); told", "			if err = unread; told"},
		},
		tests: []test{valueTests},
	},
	{
		name:  "counter: the marker has no number",
		edits: []edit{{"internal/record", "Marked.send", "[]byte(strconv.Itoa(m.number)), -1)", "nil, -1)"}},
		tests: []test{valueTests},
	},
	{
		name:  "counter: every update of a session has the same number",
		edits: []edit{{"internal/record", "Marked.updateIn", "	m.number++\n", "	m.number = 1\n"}},
		tests: []test{valueTests},
	},
	{
		name:  "counter: a node that was made again is the old one",
		edits: []edit{{"internal/record", "Marked.forget", "m.marker, m.left = nil, nil", "m.marker = nil"}, {"internal/record", "Marked.send", "	m.left = nil\n	switch", "	switch"}},
		tests: []test{valueTests},
	},
	{
		name:  "counter: no version is compared",
		edits: []edit{{"internal/record", "Marked.send", "w.data, w.old.Stat.Version)", "w.data, -1)"}},
		tests: []test{valueTests},
	},
	{
		name:  "counter: who was beaten tries again at once",
		edits: []edit{{"internal/record", "write.beaten", "longest := min(firstPause*took<<min(w.refusals, doublings), longestPause)", "longest := 0 * min(firstPause*took<<min(w.refusals, doublings), longestPause)"}},
		tests: []test{valueTests},
	},
	{
		name:  "counter: the client that is ahead never reads",
		edits: []edit{{"internal/record", "Marked.keep", "left.Stat.NumChildren == 1 || m.number%turn != 0", "true"}},
		tests: []test{valueTests},
	},
	{
		name:  "value: no version is compared",
		edits: []edit{{"internal/record", "Replacement.write", "data, now.Stat.Version)", "data, -1)"}},
		tests: []test{valueTests},
	},
	{
		name:  "value: compare and set looks at the data version alone",
		edits: []edit{{"recipes/value", "Value.CompareAndSet", "if versionOf(&now.Stat) != old {", "if now.Stat.Version != old.Data {"}},
		tests: []test{valueTests},
	},
	{
		name:  "value: after a lost reply it begins again, whatever the node holds",
		edits: []edit{{"internal/record", "Replacement.Do", "				return session.Node{}, w.doubt\n			}", "				w.doubt = nil\n			}"}},
		tests: []test{valueTests},
	},
	{
		name:  "value: a server that lags refuses",
		edits: []edit{{"internal/record", "Replacement.Do", "if err != nil && !synced { //", "if err != nil && !synced && err == nil { //"}},
		tests: []test{valueTests},
	},
	{
		name:  "value: a lost write makes the node again",
		edits: []edit{{"internal/record", "Replacement.fate", "case now.Exists && same && now.Stat.Version == w.old", "case same && now.Stat.Version == w.old"}},
		tests: []test{valueTests},
	},
	{
		name:  "value: SetHeld writes without a look at the hold",
		edits: []edit{{"recipes/value", "Value.SetHeld", "return v.set(ctx, x, h.Txn)", "_ = h\n	return v.set(ctx, x, nil)"}},
		tests: []test{valueTests},
	},
	{
		name:  "barrier: a waiter trusts the event",
		edits: []edit{{"recipes/barrier", "Barrier.wait", "			return b.failed(\"wait\", err)\n		}\n	}\n}", "			return b.failed(\"wait\", err)\n		}\n		return nil\n	}\n}"}},
		tests: []test{barrierTests},
	},
	{
		name:  "barrier: a server that lags says that it is down",
		edits: []edit{{"recipes/barrier", "Barrier.Wait", "func (b *Barrier) Wait(ctx context.Context) error {\n	if err := b.client.Sync(ctx, b.path); err != nil {", "func (b *Barrier) Wait(ctx context.Context) error {\n	if err := ctx.Err(); err != nil {"}},
		tests: []test{barrierTests},
	},
	{
		name:  "barrier: after a lost reply it is raised again",
		edits: []edit{{"recipes/barrier", "Barrier.raise", "			return b.settle(ctx, s, err)\n", "			if b.settle(ctx, s, err) == nil {\n				return nil\n			}\n"}},
		tests: []test{barrierTests},
	},
	{
		name: "double barrier: members that are in count for the next round",
		edits: []edit{
			{"recipes/barrier", "rounds.waiting", "data, stat.Version == 0}", "data, true}"},
			{"recipes/barrier", "rounds.letIn", "data, 0)", "data, -1)"},
		},
		tests: []test{barrierTests},
	},
	{
		name:  "double barrier: a late copy of a member that is in counts",
		edits: []edit{{"recipes/barrier", "rounds.waiting", "if !seen[made] && m.waits {", "if m.waits {"}},
		tests: []test{barrierTests},
	},
	{
		name:  "double barrier: the list alone lets in",
		edits: []edit{{"recipes/barrier", "rounds.await", "		if err == nil && !again {\n", "		if again {\n			return span{first: members[0].Key, last: members[len(members)-1].Key, zxid: stat.Czxid}, nil\n		}\n		if err == nil {\n"}},
		tests: []test{barrierTests},
	},
	{
		name:  "double barrier: a leaver waits for the next round, too",
		edits: []edit{{"recipes/barrier", "rounds.awaitLeftIn", "return c.Key < in.first || c.Key > in.last", "return c.Key < in.first"}},
		tests: []test{barrierTests},
	},
	{
		name:  "double barrier: no member looks again",
		edits: []edit{{"internal/znode", "Waiter.Pause", "	_, err := w.pause(w.ctx, changed.Fired())\n	return err\n", "	for again := true; again; {\n		var err error\n		if again, err = w.pause(w.ctx, changed.Fired()); err != nil {\n			return err\n		}\n	}\n	return nil\n"}},
		tests: []test{barrierTests},
	},
	{
		name:  "shard: the lock is released before the function has returned",
		edits: []edit{{"recipes/shard", "member.bound", "late := time.After(complaint)", "late := time.After(complaint)\n\t\t_ = h.Release(ctx)"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: the plan is written without the transaction of the term",
		edits: []edit{{"recipes/shard", "leader.write", "_, err = l.term.Txn(ctx, op)", "_, err = l.client.Multi(ctx, op)"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: everything stops at any change",
		edits: []edit{{"recipes/shard", "member.assign", "\tm.moved = nil\n", "\tfor shard := range m.at {\n\t\tdefer m.start(shard)\n\t\tm.at[shard].stop(ErrMoved)\n\t\tm.at[shard].stopped = true\n\t}\n\tm.moved = nil\n"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a plan does not follow on the last one",
		edits: []edit{{"recipes/shard", "newDivision", "byID[now.Owners[shard]]", "byID[\"\"]"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a loss waits for the members to settle",
		edits: []edit{{"recipes/shard", "roster.isUrgent", "\tif !serving {", "\tif serving || !serving {"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a balance does not wait for the members to settle",
		edits: []edit{{"recipes/shard", "leader.due", "\treturn soonest\n", "\treturn soonest.Add(-l.quiet)\n"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a member that leaves stops all functions at once",
		edits: []edit{{"recipes/shard", "member.handOver", "case <-time.After(patience):", "default:"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: one function that does not stop holds up all",
		edits: []edit{{"recipes/shard", "member.handOver", "case <-time.After(patience):", "case <-time.After(time.Hour):"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: the shards of a member that restarts do not wait",
		edits: []edit{{"recipes/shard", "roster.away", "if wait > 0 && !present[id]", "if wait < 0 && !present[id]"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: they wait for ever",
		edits: []edit{{"recipes/shard", "leader.roster", "r.over[id] = grace <= 0", "r.over[id] = false"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a leader without a plan does not ask who holds",
		edits: []edit{{"recipes/shard", "leader.recall", "owners[held[i]] = h.Name", "owners[held[i]] = h.Name[:0]"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a member goes to a lock although the plan is old",
		edits: []edit{{"recipes/shard", "member.knock", "return m.current && m.mine[shard]", "return true"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a member whose id is taken works on",
		edits: []edit{{"recipes/shard", "member.assign", "if !m.taken {", "if m.taken || !m.taken {"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a member that ends while it is cut off waits for the server",
		edits: []edit{{"recipes/shard", "member.announce", "for ctx.Err() == nil && m.await", "for m.await"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a shard whose function fails stays",
		edits: []edit{{"recipes/shard", "member.refuse", "p.Refuses = slices.Insert(p.Refuses, i, shard)", "p.Refuses = slices.Insert(p.Refuses, i, shard)[:i]"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a strategy may give a shard to nobody that is there",
		edits: []edit{{"recipes/shard", "roster.next", "if id := planned[shard]; candidates[id] {", "if id := planned[shard]; id != \"\" {"}},
		tests: []test{shardTests},
	},
	{
		name:  "election: a panic of the leader does not resign",
		edits: []edit{{"internal/hold", "Under", "if left := h.Release(waiting);", "if r := recover(); r != nil {\n			panic(r)\n		}\n		if left := h.Release(waiting);"}},
		tests: []test{bubbles("./recipes/election", "./recipes/mutex")},
	},
	{
		name:  "node: what is at the path is ours, of any owner",
		edits: []edit{{"recipes/node", "keeper.owns", "return stat.EphemeralOwner == k.session.ID() && (stat.Czxid == k.czxid || k.doubt)", "return stat.EphemeralOwner != 0"}},
		tests: []test{nodeTests},
	},
	{
		name:  "node: what is at the path is ours in this session, whichever create made it",
		edits: []edit{{"recipes/node", "keeper.owns", " && (stat.Czxid == k.czxid || k.doubt)", ""}},
		tests: []test{nodeTests},
	},
	{
		name:  "node: Close removes what is there",
		edits: []edit{{"recipes/node", "keeper.removeOnce", "if !exists || !k.owns(stat) && !k.client.WasOurs(stat.EphemeralOwner) {", "if !exists {"}},
		tests: []test{nodeTests},
	},
	{
		name:  "node: deleted in any version",
		edits: []edit{{"recipes/node", "keeper.removeOnce", "k.session.Delete(ctx, k.path, stat.Version)", "k.session.Delete(ctx, k.path, -1)"}},
		tests: []test{nodeTests},
	},
	{
		name: "node: created in whatever session there is",
		edits: []edit{{
			"recipes/node", "keeper.create", "		_, czxid, err := k.session.MultiZxid(ctx, ops...)\n",
			"		var czxid int64\n		live, err := k.client.Session(ctx)\n		if err == nil {\n			_, czxid, err = live.MultiZxid(ctx, ops...)\n		}\n",
		}},
		tests: []test{nodeTests},
	},
	{
		name:  "node: the node of our session before is waited for",
		edits: []edit{{"recipes/node", "keeper.meet", "if !k.client.WasOurs(stat.EphemeralOwner) && (k.replace", "if (k.replace"}},
		tests: []test{nodeTests},
	},
	{
		name:  "node: a server that is behind says that the node of our session before is there",
		edits: []edit{{"recipes/node", "keeper.isStill", "if err := k.session.Sync(ctx, k.path); err != nil {", "if err := ctx.Err(); err != nil {"}},
		tests: []test{nodeTests},
	},
	{
		name:  "node: made again at once, however often it is deleted",
		edits: []edit{{"recipes/node", "Node.sleep", "time.NewTimer(n.backOff.NextBackOff())", "time.NewTimer(time.Millisecond)"}},
		tests: []test{nodeTests},
	},
	{
		name: "node: a state is current until the next one is read",
		edits: []edit{
			{"internal/session", "Age.Current", "	case <-a.down:\n		return false\n", "	case <-a.down:\n		return true\n"},
			{"internal/session", "Age.Current", "return a.session.Hears()", "return true"},
		},
		tests: []test{{args: []string{"-timeout=20s", "-short", "-run=TestState", "./recipes/node"}}}, // a reader goes round and round
	},
	{
		name:  "node: removed, and not looked at again",
		edits: []edit{{"recipes/node", "keeper.removeOnce", "	return err == nil && !k.doubt, err\n", "	return err == nil, err\n"}},
		tests: []test{nodeTests},
	},
	{
		name:  "node: refused while a create may be on its way",
		edits: []edit{{"recipes/node", "Node.serve", "				if k.doubt {\n", "				if false {\n"}},
		tests: []test{nodeTests},
	},
	{
		name:  "node: a frozen process looks at the connection alone",
		edits: []edit{{"internal/session", "Age.Current", "return a.session.Hears()", "return true"}},
		tests: []test{connTests},
	},
	{
		name:  "node: removed without waiting for a create that is on its way",
		edits: []edit{{"recipes/node", "keeper.removeOnce", "		if err := k.session.Barrier(ctx); err != nil {\n			return false, err\n		}\n", ""}},
		tests: []test{nodeTests},
	},
	{
		name:  "group: a taken id is waited for",
		edits: []edit{{"recipes/group", "Group.Join", "if !cfg.wait {", "if false {"}},
		tests: []test{groupTests},
	},
	{
		name:  "group: members in the order of their names",
		edits: []edit{{"recipes/group", "reader.read", "cmp.Or(cmp.Compare(a.Czxid, b.Czxid), strings.Compare(a.Path, b.Path))", "cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Czxid, b.Czxid))"}},
		tests: []test{groupTests},
	},
	{
		name:  "group: a member that is known is not read again",
		edits: []edit{{"recipes/group", "reader.entries", "&& !e.doubtful && !e.watch.HasFired() {", "&& !e.doubtful {"}},
		tests: []test{groupTests},
	},
	{
		name:  "group: a member that was made anew after the list is in the view",
		edits: []edit{{"recipes/group", "reader.entries", "complete = complete && (!isNew || e.Czxid <= pzxid || e.Czxid == r.seen[name])", "_ = isNew"}},
		tests: []test{groupTests},
	},
	{
		name:  "group: members that have gone meanwhile are left out",
		edits: []edit{{"recipes/group", "reader.entries", "			complete = false\n			continue\n", "			entries[i] = &entry{watch: r.list}\n"}},
		tests: []test{groupTests},
	},
	{
		name:  "group: all members are read at once",
		edits: []edit{{"internal/session", "MostInFlight", "MostInFlight = 64", "MostInFlight = 100_000"}},
		tests: []test{groupTests},
	},
	{
		name:  "group: nothing is told while members come and go",
		edits: []edit{{"recipes/group", "watcher.due", "	if latest.Before(soonest) {\n", "	if false && latest.Before(soonest) {\n"}},
		tests: []test{groupTests},
	},
	{
		name:  "group: a view is told as current until the next one",
		edits: []edit{{"recipes/group", "watcher.next", "case t.current && (!known || !view.Current):", "case false:"}},
		tests: []test{groupTests},
	},
	{
		name:  "group: members as the nearest server knows them",
		edits: []edit{{"recipes/group", "Group.Members", "if err := g.client.Sync(ctx, g.path); err != nil {", "if err := ctx.Err(); err != nil {"}},
		tests: []test{groupTests},
	},
	{
		name:  "discovery: an instance whose data has changed is not decoded again",
		edits: []edit{{"recipes/discovery", "decoder.view", "!ok || e.Czxid != m.Czxid || !bytes.Equal(e.Data, m.Data)", "!ok || e.Czxid != m.Czxid"}},
		tests: []test{discoveryTests},
	},
	{
		name:  "discovery: the old node goes before the new one is there",
		edits: []edit{{"recipes/discovery", "Registration.replace", "	now, err := r.join(ctx, i.Service, n)\n", "	_ = member.Close(ctx)\n	now, err := r.join(ctx, i.Service, n)\n"}},
		tests: []test{discoveryTests},
	},
	{
		name:  "discovery: one instance that does not decode hides the others",
		edits: []edit{{"recipes/discovery", "decoder.view", "		if !errors.Is(e.Err, ErrNoInstance) {\n", "		if e.Err != nil && !errors.Is(e.Err, ErrNoInstance) {\n			return View{Service: d.service}\n		}\n		if !errors.Is(e.Err, ErrNoInstance) {\n"}},
		tests: []test{discoveryTests},
	},
	{
		name:  "discovery: JSON as Go escapes it",
		edits: []edit{{"recipes/discovery", "jackson.text", "		case c > 0xffff:\n", "		case false:\n"}},
		tests: []test{discoveryTests},
	},
	{
		name: "cache: versions are compared, not transactions",
		edits: []edit{
			{"recipes/cache", "nodes.got", "n.czxid == stat.Czxid && n.mzxid == stat.Mzxid", "n.version == stat.Version"},
			{"recipes/cache", "nodes.got", "first := !n.known || n.czxid != stat.Czxid", "first := !n.known"},
		},
		tests: []test{cacheTests},
	},
	{
		name:  "cache: a new connection is taken for the old one, with its watches",
		edits: []edit{{"recipes/cache", "engine.hear", "	case session.Up:\n		e.begin()\n", "	case session.Up:\n		e.connected, e.rounds.complete = true, true\n"}},
		tests: []test{cacheTests},
	},
	{
		name:  "cache: watches are set as of now, not as of the last reading",
		edits: []edit{{"recipes/cache", "engine.addRearm", "b.SetWatches(rearm.since, w.data", "b.SetWatches(1<<62, w.data"}},
		tests: []test{cacheTests},
	},
	{
		name:  "cache: a connection that was lost before all watches were set again is forgotten",
		edits: []edit{{"recipes/cache", "plan.restart", "		since = min(since, r.since)\n", "		_ = r\n"}, {"recipes/cache", "plan.restart", "		since = min(since, pl.since)\n", ""}},
		tests: []test{cacheTests},
	},
	{
		name:  "cache: what has changed while the connection was away belongs to the next round",
		edits: []edit{{"recipes/cache", "plan.rearmed", "pl.put(p, stale)", "pl.answered(p, s.parity()^1)"}},
		tests: []test{cacheTests},
	},
	{
		name:  "cache: what a server that is behind says counts",
		edits: []edit{{"recipes/cache", "engine.noteZxid", "		e.behind, e.rest = true, true\n		return true\n", "		return false\n"}},
		tests: []test{cacheTests},
	},
	{
		name:  "cache: a sync does not wait for what it has brought",
		edits: []edit{{"recipes/cache", "engine.answered", "r.waiters.synced(e.rounds.newest + 1)", "e.waiters.wakeAll()"}},
		tests: []test{cacheTests},
	},
	{
		name:  "cache: a sync asks no server",
		edits: []edit{{"recipes/cache", "engine.addSync", "asking = e.waiters.ask()", "e.waiters.ask().synced(e.rounds.newest + 1)"}},
		tests: []test{cacheTests},
	},
	{
		name:  "cache: what a list brings belongs to the next round",
		edits: []edit{{"recipes/cache", "engine.listed", "e.plan.spoil(p, in)", "e.plan.spoil(p, e.rounds.next())"}},
		tests: []test{cacheTests},
	},
	{
		name:  "cache: a part that was not answered stays asked for",
		edits: []edit{{"recipes/cache", "engine.unanswered", "		e.plan.retry(r.part)\n", ""}},
		tests: []test{cacheTests},
	},
	{
		name:  "cache: a loss of the connection is told when it is back",
		edits: []edit{{"internal/session", "listener.Down", "l.tell(News{Kind: Down, Heard: heard})", ""}},
		tests: []test{cacheTests},
	},
	{
		name:  "cache: pings prove a view although an event is in the queue",
		edits: []edit{{"internal/session", "Feed.Idle", "return len(f.news) == 0 && !f.taken", "return true"}},
		tests: []test{connTests},
	},
	{
		name:  "cache: watches stay after Close",
		edits: []edit{{"recipes/cache", "Cache.run", "			c.release(patience, s, f)\n", "			_ = patience\n"}},
		tests: []test{cacheTests},
	},
	{
		name:  "feed: watches of other waiters are taken away in silence",
		edits: []edit{{"internal/session", "session.watchesRemoved", "s.watches.fire(false, r.keys...)", ""}},
		tests: []test{connTests},
	},
}
