package world

import "github.com/zkrecipes/zkrecipes"

// curator is the rule by which Curator reports LOST: a session timeout after it has reported SUSPENDED. It reports
// SUSPENDED when the connection ends, or when nothing was received for two thirds of the session timeout. It reports
// LOST at once if a server reports that the session has expired.
//
// The rule is worked out from the history of our process, so both meet the same faults. What it does not know is what a program on
// Curator would have done in our place: if our process gives up its node, the rule has no say any more.
//
// Sources: org.apache.zookeeper.ClientCnxn (readTimeout), and ConnectionStateManager.checkSessionExpiration of Curator 5.
type curator struct {
	heard     Moment // when a byte came from the server most lately
	suspended Moment // Open if it is not
	holds     []ruled
}

// ruled is a hold as the rule has it.
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

// ends ends the present hold for another reason than the rule.
func (c *curator) ends(now Moment) {
	c.settle(now)
	if h := c.present(); h != nil {
		h.To = now
	}
}

// present returns the hold that has not ended, if there is one.
func (c *curator) present() *ruled {
	if n := len(c.holds); n > 0 && c.holds[n-1].To == Open {
		return &c.holds[n-1]
	}
	return nil
}

// removed says that the client itself, or an operator, has removed a node.
func (c *curator) removed(now Moment, path string) {
	if h := c.present(); h != nil && h.path == path {
		c.ends(now)
	}
}

// hears says that bytes came in.
func (c *curator) hears(now Moment) {
	c.settle(now)
	c.heard, c.suspended = now, Open
}

// hangsUp says that the server has ended the connection.
func (c *curator) hangsUp(now Moment) {
	c.settle(now)
	if c.suspended == Open {
		c.suspended = now
	}
}

// settle applies what the rule says up to now.
func (c *curator) settle(now Moment) {
	if c.suspended == Open && now >= c.heard+silenceMs {
		c.suspended = c.heard + silenceMs
	}
	if h := c.present(); h != nil && now >= c.deadline() {
		h.To, h.Why = c.deadline(), "LOST"
	}
}

// deadline is when the rule says LOST if nothing more is heard.
func (c *curator) deadline() Moment {
	if c.suspended != Open {
		return c.suspended + timeoutMs
	}
	return c.heard + silenceMs + timeoutMs
}
