package main

// nodeMutants break kept nodes, and writes in doubt.
var nodeMutants = []mutant{
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
		name:  "semaphore: any limit is the one that was to be set",
		edits: []edit{{"internal/record", "Replacement.fate", "now.Exists && bytes.Equal(now.Data, w.data)", "now.Exists"}},
		tests: []test{bubbles("./recipes/semaphore"), valueTests},
	},
	{
		name:  "creation: the list goes ahead of the create",
		edits: []edit{{"internal/ephemeral", "creation.start", "	c.last, err = c.session.StartCreate(", "	if sent != nil {\n		sent()\n	}\n	c.last, err = c.session.StartCreate("}},
		tests: []test{{args: []string{"-run=OneRoundTrip", "./internal/znode"}}},
	},
	{
		name:  "shortcut: what was gone already has been deleted by us",
		edits: []edit{{"internal/ephemeral", "Node.Remove", "			if err == nil {\n				deleted()\n", "			if isDone(err) == nil {\n				deleted()\n"}},
		tests: []test{queueTests},
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
		name:  "other servers: a create without a zxid is taken",
		edits: []edit{{"internal/ephemeral", "Parent.Create", "case err == nil && zxid <= 0:", "case false:"}},
		tests: []test{{args: []string{"-run=TestDeviations", "./internal/faults"}}},
	},
	{
		name:  "node: a removal that is not allowed is waited for",
		edits: []edit{{"internal/ephemeral", "Node.refuse", "	n.mu.Lock()\n", "	if true {\n		return\n	}\n	n.mu.Lock()\n"}},
		tests: []test{queueTests},
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
}
