package main

// holdMutants break holds.
var holdMutants = []mutant{
	{
		name:  "grant: one fault ends the watching",
		edits: []edit{{"internal/hold", "Grant.watchPath", "		case ctx.Err() != nil, ", "		case ctx.Err() != nil || err != nil, "}},
		tests: []test{mutexTests},
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
		name:  "grant: equal paths of two ensembles are one",
		edits: []edit{{"internal/hold", "Above", "	for g := range allHeld(ctx, p, kind) {\n", "	for g := range allHeld(ctx, p, kind) {\n		if !g.Node.Parent.Client.Same(p.Client) {\n			break\n		}\n"}},
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
		name:  "election: terms that end at once follow at once",
		edits: []edit{{"internal/hold", "Repeat", "if time.Since(began) >= brief {", "if time.Since(began) >= 0 {"}},
		tests: []test{bubbles("./recipes/election")},
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
		name:  "grant: a lost hold leaves its node",
		edits: []edit{{"internal/hold", "Grant.endHolds", "g.traceEnd() g.Node.Remove()", "g.traceEnd()"}},
		tests: []test{queueTests, mutexTests},
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
		name:  "place: handed over by a hold that was lost",
		edits: []edit{{"internal/hold", "share.letGo", "handsOver = !g.ended &&", "handsOver = true &&"}},
		tests: []test{queueTests},
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
		edits: []edit{{"internal/hold", "Turn.confirm", "if t.Watch.SaysDeleted() {", "if false {"}, {"internal/hold", "Grant.endOnLoss", "if turn.isInDoubt() || ", "if "}},
		tests: []test{bubbles("./internal/hold")},
	},
	{
		name:  "grant: a node that was deleted before the connection came up on which the proof came",
		edits: []edit{{"internal/hold", "Grant.endOnLoss", "if turn.isInDoubt() || ", "if turn.Watch.SaysDeleted() || "}},
		tests: []test{bubbles("./internal/znode")},
	},
	{
		name:  "grant: an unwatched node that was deleted while the proof was awaited",
		edits: []edit{{"internal/hold", "Grant.endOnLoss", " || waits && turn.isUnwatched()", " || waits && false"}},
		tests: []test{bubbles("./internal/hold")},
	},
	{
		name:  "grant: an unwatched node that was deleted before the connection came up on which the proof came",
		edits: []edit{{"internal/hold", "Turn.isInDoubt", "return t.Since.HasFired()", "return false"}},
		tests: []test{bubbles("./internal/znode")},
	},
	{
		name:  "election: a panic of the leader does not resign",
		edits: []edit{{"internal/hold", "Under", "if left := h.Release(waiting);", "if r := recover(); r != nil {\n			panic(r)\n		}\n		if left := h.Release(waiting);"}},
		tests: []test{bubbles("./recipes/election", "./recipes/mutex")},
	},
}
