package main

// recipeMutants break recipes, the module itself, and fence.
var recipeMutants = []mutant{
	{
		name:  "fence: a link that leads nowhere yet is taken for the file",
		edits: []edit{{"fence", "File.open", "if f.path, err = resolve(f.path); err != nil {", "if _, err = resolve(f.path); err != nil {"}},
		tests: []test{bubbles("./fence")},
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
		name:  "election: the leader of a server that lags behind",
		edits: []edit{{"recipes/election", "Election.Leader", "if err := e.queue.Client().Sync(ctx, e.queue.Path()); err != nil {", "if err := ctx.Err(); err != nil {"}},
		tests: []test{bubbles("./recipes/election")},
	},
	{
		name:  "value: compare and set looks at the data version alone",
		edits: []edit{{"recipes/value", "Value.CompareAndSet", "if versionOf(&now.Stat) != old {", "if now.Stat.Version != old.Number {"}},
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
		edits: []edit{{"recipes/shard", "roster.isUrgent", "\tif !serving && (!r.complete || !able) {", "\tif serving || !serving {"}},
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
		name:  "shard: one error of a server ends a member",
		edits: []edit{{"recipes/shard", "member.survives", "\treturn true\n", "\treturn false\n"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a leader whose source fails plans nothing",
		edits: []edit{{"recipes/shard", "leader.awaitShards", "\tl.shards = names\n\treturn 0\n", "\treturn never\n"}},
		tests: []test{shardTests},
	},
	{
		name:  "shard: a plan on which servers hang up is sent again and again",
		edits: []edit{{"recipes/shard", "leader.write", "\t\terr = l.hangups.Judge(size, err)\n", ""}},
		tests: []test{shardTests},
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
		edits: []edit{{"recipes/node", "keeper.removeOnce", "k.session.DeleteRead(ctx, k.path, stat.Version)", "k.session.Delete(ctx, k.path, -1)"}},
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
		name:  "cache: watches stay after Close",
		edits: []edit{{"recipes/cache", "Cache.run", "			c.release(patience, s, f)\n", "			_ = patience\n"}},
		tests: []test{cacheTests},
	},
}
