package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func sessions(c *call) error {
	for _, s := range c.srv.Sessions() {
		c.reply(map[string]any{
			"id": hex(s.ID), "label": s.Client, "timeout": s.Timeout.String(), "connected": s.Connected,
			"ephemerals": append([]string{}, s.Ephemerals...),
		})
	}
	return nil
}

func watchers(c *call) error {
	for _, id := range c.srv.Watchers(c.args[0]) {
		c.reply(map[string]string{"session": hex(id)})
	}
	return nil
}

func history(c *call) error {
	list := c.srv.History()
	if len(c.args) > 0 {
		n, err := strconv.Atoi(c.args[0])
		if err != nil || n < 0 {
			return fmt.Errorf("number %q: want a number of transactions", c.args[0])
		}
		list = list[max(0, len(list)-n):]
	}
	for _, t := range list {
		changes := []map[string]string{}
		for _, x := range t.Changes {
			changes = append(changes, map[string]string{"kind": x.Kind.String(), "path": x.Path})
		}
		x := map[string]any{
			"zxid": hex(t.Zxid), "time": t.Time.Format(time.RFC3339Nano), "session": hex(t.Session), "label": t.Client,
			"op": t.Op.String(), "path": t.Path, "changes": changes,
		}
		if t.Err != zktest.CodeOK {
			x["error"] = t.Err.Error()
		}
		c.reply(x)
	}
	return nil
}

func violations(c *call) error {
	for _, err := range c.srv.Violations() {
		c.reply(map[string]any{"violation": err.Error(), "misuse": errors.Is(err, zktest.ErrMisuse)})
	}
	return nil
}

func addresses(c *call) error {
	if fronts := c.srv.Fronts(); len(fronts) > 1 {
		for i, f := range fronts {
			c.reply(map[string]any{"front": i + 1, "address": f.Addr(), "leads": f.Leads()})
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.doors {
		c.reply(map[string]any{"label": x.label, "address": x.addr, "listening": x.listening()})
	}
	return nil
}
