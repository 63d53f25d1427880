package main

// clientMutants break the client: connection, session, proof of liveness, identity.
var clientMutants = []mutant{
	{
		name:  "session: a create in doubt does not count at its end",
		edits: []edit{{"internal/session", "ephemerals.created", "	case outcomeOf(err) == unknown:\n		e.doubt(node)\n", ""}},
		tests: []test{connTests},
	},
	{
		name:  "session: any number of ephemeral nodes",
		edits: []edit{{"internal/session", "session.admit", "if now > limit {", "if now < 0 {"}},
		tests: []test{connTests},
	},
	{
		name:  "session: the data version -1 that was read is any",
		edits: []edit{{"internal/session", "versioned", "		case r.Version == anyVersion && exact:\n", "		case false:\n"}},
		tests: []test{connTests, valueTests},
	},
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
		edits: []edit{{"internal/lifetime", "Lifetime.authenticate", "shown.Scheme, code)", "string(shown.Credential), code)"}},
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
		edits: []edit{{"internal/client", "Client.inSession", " || errors.Is(err, zkrecipes.ErrUnknownOutcome)", ""}},
		tests: []test{connTests, valueTests},
	},
	{
		name:  "client: an answer is forgotten with its session",
		edits: []edit{{"internal/client", "Client.inSession", "ended == nil || !errors.Is(err, ended) || ", "ended == nil || err == nil || "}},
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
		name:  "hold: the clock is not looked at",
		edits: []edit{{".", "Hold.endIfDue", "if time.Now().Before(until) {", "if true || time.Now().Before(until) {"}},
		tests: []test{bubbles(".")},
	},
	{
		name:  "hold: a deadline that was noticed late is a late one",
		edits: []edit{{".", "Hold.endIfDue", "Path: h.backing.Path(), At: until}) {", "Path: h.backing.Path(), At: time.Now()}) {"}},
		tests: []test{bubbles(".")},
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
		name:  "children: a list that is lost is lost",
		edits: []edit{{"internal/session", "Session.firstAnswer", "if repeatable(err) && s.Go(", "if false && repeatable(err) && s.Go("}},
		tests: []test{connTests},
	},
	{
		name:  "election: an observer does not look again when an event is lost",
		edits: []edit{{"internal/client", "follower.wait", "time.After(s.RecheckAfter())", "time.After(100*24*time.Hour + s.RecheckAfter())"}},
		tests: []test{bubbles("./recipes/election")},
	},
	{
		name:  "armed: a new connection is a deletion",
		edits: []edit{{"internal/session", "watches.fireAll", "w.fireOne(key, a, false)", "w.fireOne(key, a, true)"}},
		tests: []test{queueTests, connTests},
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
		name: "node: a state is current until the next one is read",
		edits: []edit{
			{"internal/session", "Age.Current", "	case <-a.down:\n		return false\n", "	case <-a.down:\n		return true\n"},
			{"internal/session", "Age.Current", "return a.session.Hears()", "return true"},
		},
		tests: []test{{args: []string{"-timeout=20s", "-short", "-run=TestState", "./recipes/node"}}}, // a reader goes round and round
	},
	{
		name:  "node: a frozen process looks at the connection alone",
		edits: []edit{{"internal/session", "Age.Current", "return a.session.Hears()", "return true"}},
		tests: []test{connTests},
	},
	{
		name:  "group: all members are read at once",
		edits: []edit{{"internal/session", "MostInFlight", "MostInFlight = 64", "MostInFlight = 100_000"}},
		tests: []test{groupTests},
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
		name:  "feed: watches of other waiters are taken away in silence",
		edits: []edit{{"internal/session", "session.watchesRemoved", "s.watches.fire(false, r.keys...)", ""}},
		tests: []test{connTests},
	},
}
