// Package chaos breaks a real ensemble while client processes acquire locks on it, and follow and write nodes. It
// judges what they observed.
//
// A run is a series of rounds. Each round injects one fault, lets it last, and heals it. Then every client must be
// served within three session timeouts. Clients that follow nodes pause for a moment, and must then show what the
// servers have. After the run, everything they reported is compared with the logs of the servers. A seed determines the
// kinds, victims and durations, so a run can be repeated, except for the interleaving of processes and packets.
package chaos

import (
	"iter"
	"math/rand/v2"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults. Victims are one client of each group, and they hold their lock when the fault strikes.
const (
	KillLeader      Kind = "kill-leader"          // kill -9 and a restart
	KillFollower    Kind = "kill-follower"        //
	PauseLeader     Kind = "pause-leader"         // SIGSTOP and SIGCONT
	PauseFollower   Kind = "pause-follower"       //
	RollingRestart  Kind = "rolling-restart"      // of all servers, one after another
	OutageShort     Kind = "outage-short"         // all servers killed and restarted at once
	OutageLong      Kind = "outage-long"          // the same, but down for more than a session timeout
	IsolateFollower Kind = "isolate-follower"     // from its peers, while the victims stay attached to it
	IsolateLeader   Kind = "isolate-leader"       // the same with the leader
	PauseClient     Kind = "pause-client"         // SIGSTOP and SIGCONT of the victims
	KillClient      Kind = "kill-client"          // kill -9 of the victims, which are replaced
	Partition       Kind = "partition"            // of the victims, both ways
	RequestsLost    Kind = "partition-requests"   // what the victims send is lost
	RepliesLost     Kind = "partition-replies"    // what is sent to the victims is lost
	Blink           Kind = "partition-short"      // both ways, for less than a session timeout
	Cut             Kind = "cut"                  // all connections, repeatedly
	LoseAnswers     Kind = "lose-answers"         // to writes that are executed
	DeleteHolders   Kind = "operator-deletes"     // the nodes of the victims
	DeleteAll       Kind = "operator-deletes-all" // everything below the locks, repeatedly
	Reap            Kind = "reap"                 // all clients rest until the server has removed the empty containers
)

// Kinds returns all kinds. Those that isolate servers need root.
func Kinds(root bool) []Kind {
	kinds := []Kind{
		KillLeader, KillFollower, PauseLeader, PauseFollower, RollingRestart, OutageShort, OutageLong, PauseClient,
		KillClient, Partition, RequestsLost, RepliesLost, Blink, Cut, LoseAnswers, DeleteHolders, DeleteAll, Reap,
	}
	if root {
		kinds = append(kinds, IsolateFollower, IsolateLeader)
	}
	return kinds
}

// lasts is the least and the longest duration of a kind of fault, in session timeouts. Kinds without an entry end by
// themselves.
var lasts = map[Kind][2]float64{
	KillLeader: {0.3, 1.2}, KillFollower: {0.3, 1.2}, PauseLeader: {0.5, 1.5}, PauseFollower: {0.5, 1.5},
	OutageLong: {1.2, 1.6}, IsolateFollower: {1.7, 2.2}, IsolateLeader: {1.7, 2.2}, PauseClient: {1.4, 2},
	KillClient: {1.4, 1.6}, Partition: {1.4, 2}, RequestsLost: {1.4, 2}, RepliesLost: {1.4, 2}, Blink: {0.1, 0.3},
	Cut: {0.3, 0.6}, LoseAnswers: {0.3, 0.6}, DeleteHolders: {0.3, 0.4}, DeleteAll: {0.3, 0.4},
}

// needsVictims lists the kinds that hit clients in the middle of a section.
var needsVictims = map[Kind]bool{
	OutageShort: true, OutageLong: true, IsolateFollower: true, IsolateLeader: true, PauseClient: true, KillClient: true,
	Partition: true, RequestsLost: true, RepliesLost: true, Blink: true, DeleteHolders: true,
}

// hitsServers lists the kinds after which a server may lag behind, or may not know that it was replaced.
var hitsServers = map[Kind]bool{
	KillLeader: true, KillFollower: true, PauseLeader: true, PauseFollower: true, RollingRestart: true, OutageShort: true,
	OutageLong: true, IsolateFollower: true, IsolateLeader: true,
}

// Step is one fault of a schedule.
type Step struct {
	Kind   Kind
	Server int // index among the servers that the kind applies to
	Victim int // index in each group
	Lasts  time.Duration
}

// Schedule returns the endless series of faults of a seed. Each cycle has every kind once, in a different order.
func Schedule(seed uint64, kinds []Kind, session time.Duration) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for {
			for _, i := range rng.Perm(len(kinds)) {
				s := Step{Kind: kinds[i], Server: rng.IntN(1 << 16), Victim: rng.IntN(1 << 16)}
				between := lasts[s.Kind]
				share := between[0] + rng.Float64()*(between[1]-between[0])
				s.Lasts = time.Duration(share * float64(session)).Round(time.Millisecond)
				if !yield(s) {
					return
				}
			}
		}
	}
}
