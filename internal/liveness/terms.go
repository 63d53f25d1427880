package liveness

import "time"

// Terms are the options that the deadline rests on.
type Terms struct {
	Tick         time.Duration // of the ensemble; 0 is unknown
	LeastTimeout time.Duration // that a server may grant; 0 is the least that one has granted
	Margin       float64       // the part of the session timeout that is taken off every deadline
}

// lag is how much older than a request that the leader serves an answered contact must be to count. Half a tick is enough for
// a follower to report the contact. A tick and a half is for a leader that was replaced and does not know it for so long.
//
// Source: Leader.lead of ZooKeeper counts its followers once a tick. A leader that was frozen notices at the first count that
// they are gone. A leader that is cut off counts syncLimit ticks from the beginning of the next tick; the followers count
// from its last ping, half a tick earlier.
func (t Terms) lag(timeout time.Duration) time.Duration {
	if t.Tick > 0 {
		return max(t.Tick/2, min(t.Tick*3/2, timeout/4))
	}
	return timeout / 4
}

func (t Terms) margin(timeout time.Duration) time.Duration {
	return time.Duration(t.Margin * float64(timeout))
}

// leastGrant is the least timeout that a server may grant to a session which was granted timeout before; see [Proof].
func (t Terms) leastGrant(timeout time.Duration) time.Duration {
	if t.LeastTimeout > 0 {
		return min(timeout, t.LeastTimeout)
	}
	return timeout
}
