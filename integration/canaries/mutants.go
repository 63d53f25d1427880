package main

import "slices"

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
var mutants = slices.Concat(clientMutants, queueMutants, holdMutants, nodeMutants, recipeMutants)
