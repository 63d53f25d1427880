package world

import "github.com/zkrecipes/zkrecipes"

// curator is Curator's rule for LOST. Curator reports SUSPENDED when the connection ends, or when nothing has been
// received for two thirds of the session timeout, and LOST one session timeout after that. It reports LOST immediately
// if a server reports that the session has expired.
//
// The rule is computed from the history of our process, so both face the same faults. It cannot know what a program
// that uses Curator would have done in our place: once our process gives up its node, the rule no longer applies.
//
// Sources: org.apache.zookeeper.ClientCnxn (readTimeout), and ConnectionStateManager.checkSessionExpiration of Curator
// 5.
type curator struct {
	heard     Moment // when the last byte came from the server
	suspended Moment // Open while it is not suspended
	holds     []ruled
}

// ruled is a hold according to the rule.
type ruled struct {
	Span
	path string
}

const (
	timeoutMs = Moment(Timeout / 1e6)
	silenceMs = timeoutMs * 2 / 3
)

func (c *curator) begins(now Moment) { c.heard, c.suspended = now, Open }

func (c *curator) granted(now Moment, path string, token zkrecipes.Token) {
	c.ends(now)
	c.holds = append(c.holds, ruled{Span{Kind: "rule", From: now, To: Open, Token: token}, path})
}

// ends ends the current hold for a reason other than the rule.
func (c *curator) ends(now Moment) {
	c.settle(now)
	if h := c.present(); h != nil {
		h.To = now
	}
}

// present returns the hold that has not ended, or nil.
func (c *curator) present() *ruled {
	if n := len(c.holds); n > 0 && c.holds[n-1].To == Open {
		return &c.holds[n-1]
	}
	return nil
}

// removed records that the client itself, or an operator, removed a node.
func (c *curator) removed(now Moment, path string) {
	if h := c.present(); h != nil && h.path == path {
		c.ends(now)
	}
}

// hears records that bytes were received.
func (c *curator) hears(now Moment) {
	c.settle(now)
	c.heard, c.suspended = now, Open
}

// hangsUp records that the server closed the connection.
func (c *curator) hangsUp(now Moment) {
	c.settle(now)
	if c.suspended == Open {
		c.suspended = now
	}
}

// settle applies the rule up to now.
func (c *curator) settle(now Moment) {
	if c.suspended == Open && now >= c.heard+silenceMs {
		c.suspended = c.heard + silenceMs
	}
	if h := c.present(); h != nil && now >= c.deadline() {
		h.To, h.Why = c.deadline(), "LOST"
	}
}

// deadline returns when the rule reports LOST if nothing more is received.
func (c *curator) deadline() Moment {
	if c.suspended != Open {
		return c.suspended + timeoutMs
	}
	return c.heard + silenceMs + timeoutMs
}
