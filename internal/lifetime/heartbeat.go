package lifetime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/link"
	"github.com/zkrecipes/zkrecipes/internal/liveness"
)

// runHeartbeat ends whatever has run out, and keeps the proof fresh, until the session ends. Each step works out from
// scratch what is due, so an extra step does no harm and no step is ever canceled. Pings are sent by
// link.Connection.keepAlive.
func (l *Lifetime) runHeartbeat(context.Context) {
	timer := time.NewTimer(time.Until(l.heartbeat(time.Now())))
	for {
		select {
		case <-timer.C:
		case <-l.wake:
		case <-l.done:
			return
		}
		timer.Reset(time.Until(l.heartbeat(time.Now())))
	}
}

// wakeHeartbeat makes the heartbeat take a step now.
func (l *Lifetime) wakeHeartbeat() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// wakeHeartbeatBefore makes the heartbeat take a step no later than due. If an earlier step is already planned, it
// works out what is due then, so a short hold costs no step of its own. The caller holds mu.
func (l *Lifetime) wakeHeartbeatBefore(due time.Time) {
	if due.Before(l.nextHeartbeat) {
		l.wakeHeartbeat()
	}
}

// heartbeat does what is due, and returns when the next step is due.
func (l *Lifetime) heartbeat(now time.Time) time.Time {
	l.endIfDue(now)
	l.mu.Lock()
	step := l.upkeep.Step(now, len(l.callbacks) > 0, l.connState())
	planned := l.nextHeartbeat
	if planned.IsZero() {
		planned = now
	}
	l.nextHeartbeat = step.Next
	c, least := l.connection, l.upkeep.Least()
	l.mu.Unlock()
	for _, f := range step.Warn {
		f()
	}

	if !now.Before(step.Silent) {
		l.end(lost(zkrecipes.LossDeadline, step.Silent,
			link.Overdue(errors.New("no answer for a whole session timeout"), planned, now)))
		<-l.done // another goroutine may be delivering the end
		return now
	}
	if step.Drop {
		c.Fail(link.Overdue(fmt.Errorf("no answer to a sync for %v: trying another server", link.Rounded(least/4)), planned,
			now))
	}
	if step.Sync {
		l.client.Start(l.ctx, l.sendSync)
	}
	return step.Next
}

// connState returns what the heartbeat needs to know about the connection. The caller holds mu.
func (l *Lifetime) connState() liveness.Conn {
	if l.connection == nil {
		return liveness.Conn{}
	}
	state := liveness.Conn{Up: l.isUp(), OldestSync: l.connection.OldestSync(), Arrived: l.connection.Arrived()}
	if l.arrived.After(state.Arrived) {
		state.Arrived = l.arrived
	}
	return state
}

// sendSync sends a sync, and with it a barrier if a hold needs one; see [liveness.Proof]. The connection records the
// answers as proof.
func (l *Lifetime) sendSync(ctx context.Context) {
	requests := []Request{SyncRequest("/", "/", func(err error) {
		if err != nil {
			l.opts.Log.Debug("zookeeper: sync", "error", err)
		}
		l.mu.Lock()
		l.upkeep.SyncDone()
		l.mu.Unlock()
		l.wakeHeartbeat()
	})}
	l.mu.Lock()
	c, barrier := l.connection, l.wantsResumptionProof()
	if barrier {
		l.provingOn = c
	}
	l.mu.Unlock()
	if barrier {
		requests = append(requests, BarrierRequest(func(err error) {
			if err != nil {
				l.barrierRefused(c)
				l.opts.Log.Debug("zookeeper: barrier", "error", err)
			}
		}))
	}
	l.Send(ctx, nil, requests)
}

// wantsResumptionProof reports whether a barrier must prove that the connection resumed the session: there is a hold,
// the resumption is not proven yet, the connection is up, and sendSync has sent no barrier on it that was not refused.
// The caller holds mu.
func (l *Lifetime) wantsResumptionProof() bool {
	return len(l.callbacks) > 0 && l.upkeep.ResumptionUnproven() && l.isUp() && l.provingOn != l.connection
}

// barrierRefused makes another barrier due on the connection.
func (l *Lifetime) barrierRefused(c *link.Connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.provingOn == c {
		l.provingOn = nil
	}
}

// hurryResumptionProof makes a sync due now if a hold needs the barrier that goes with it. The caller holds mu.
func (l *Lifetime) hurryResumptionProof() {
	if l.wantsResumptionProof() {
		l.upkeep.HurrySync()
		l.wakeHeartbeat()
	}
}

// Retain keeps the proof fresh until release is called: it sends a sync about every eleventh of the timeout. If a sync
// is unanswered for a quarter of the timeout, the connection is dropped, so that another server is tried in good time.
func (l *Lifetime) Retain() (release func()) {
	l.BeginRetention()
	return sync.OnceFunc(l.EndRetention)
}

// BeginRetention is Retain for a caller that calls EndRetention once.
func (l *Lifetime) BeginRetention() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.upkeep.BeginRetention(time.Now()) {
		l.wakeHeartbeatBefore(l.upkeep.SyncDue())
	}
}

// EndRetention ends what one call of BeginRetention began.
func (l *Lifetime) EndRetention() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.upkeep.EndRetention()
}
