package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

func stop(c *call) error       { return c.set(c.arg(0, ""), false) }
func startAgain(c *call) error { return c.set(c.arg(0, ""), true) }

func restart(c *call) error {
	if err := c.setAll(false); err != nil {
		return err
	}
	return c.setAll(true)
}

func listen(c *call) error {
	label := c.args[0]
	_, err := strconv.ParseInt(label, 0, 64)
	if _, taken := directions[label]; err == nil || taken || label == "all" || label == "" {
		return fmt.Errorf("label %q: want a name other than all, a number, or a direction of stall", label)
	}
	x, err := c.listen(label, c.arg(1, "127.0.0.1:0"))
	if err == nil {
		c.reply(map[string]string{"label": x.label, "address": x.addr})
	}
	return err
}

func fronted(do func(*zktest.Front)) func(*call) error {
	return func(c *call) error {
		f, err := c.front(c.args[0])
		if err == nil {
			do(f)
		}
		return err
	}
}

func freeze(c *call) error { c.srv.Freeze(); return nil }
func thaw(c *call) error   { c.srv.Thaw(); return nil }

func expire(c *call) error {
	who, err := c.who(c.args[0])
	if err != nil {
		return err
	}
	for _, s := range c.srv.Sessions() {
		if who != zktest.Everyone && who != zktest.Session(s.ID) && who != zktest.Label(s.Client) {
			continue
		}
		if c.srv.Expire(s.ID) {
			c.reply(map[string]string{"expired": hex(s.ID)})
		}
	}
	return nil
}

func cut(c *call) error {
	who, err := c.who(c.arg(0, "all"))
	if err == nil {
		c.reply(map[string]int{"connections": c.srv.Cut(who)})
	}
	return err
}

var directions = map[string]zktest.Direction{
	"both": zktest.Both, "to-server": zktest.ToServer, "from-server": zktest.FromServer,
}

func stall(c *call) error {
	if _, alone := directions[c.arg(0, "")]; alone && len(c.args) == 1 {
		c.args = append([]string{"all"}, c.args...)
	}
	who, err := c.who(c.arg(0, "all"))
	if err != nil {
		return err
	}
	direction, ok := directions[c.arg(1, "both")]
	if !ok {
		return fmt.Errorf("direction %q: want to-server, from-server or both", c.args[1])
	}
	c.srv.Stall(who, direction)
	return nil
}

// barring returns a command that affects new connections, which have a label at most, and no session yet.
func barring(do func(*zktest.Server, zktest.Who)) func(*call) error {
	return func(c *call) error {
		who, err := c.label(c.arg(0, "all"))
		if err == nil {
			do(c.srv, who)
		}
		return err
	}
}

// aimed returns a command that affects all clients, a label or a session.
func aimed(do func(*zktest.Server, zktest.Who)) func(*call) error {
	return func(c *call) error {
		who, err := c.who(c.arg(0, "all"))
		if err == nil {
			do(c.srv, who)
		}
		return err
	}
}

func slow(set func(*zktest.Server, time.Duration)) func(*call) error {
	return func(c *call) error {
		d, err := duration(c.args[0])
		if err == nil {
			set(c.srv, d)
		}
		return err
	}
}

func reap(c *call) error {
	for _, path := range c.srv.Reap() {
		c.reply(map[string]string{"removed": path})
	}
	return nil
}

func loseWatch(c *call) error {
	who, err := c.who(c.arg(1, "all"))
	if err == nil {
		c.reply(map[string]int{"watches": c.srv.LoseWatch(who, c.args[0])})
	}
	return err
}

func event(c *call) error {
	kinds := map[string]zktest.Event{
		"created": zktest.NodeCreated, "deleted": zktest.NodeDeleted,
		"changed": zktest.NodeDataChanged, "children": zktest.NodeChildrenChanged,
	}
	kind, ok := kinds[c.args[0]]
	if !ok {
		return fmt.Errorf("event %q: want created, deleted, changed or children", c.args[0])
	}
	who, err := c.who(c.arg(2, "all"))
	if err == nil {
		c.reply(map[string]int{"connections": c.srv.SendEvent(who, kind, c.args[1])})
	}
	return err
}

func sequence(c *call) error {
	n, err := strconv.ParseInt(c.args[1], 0, 32)
	if err != nil {
		return fmt.Errorf("number %q: want a 32-bit number", c.args[1])
	}
	return c.srv.SetCversion(c.args[0], int32(n))
}

func zxid(c *call) error {
	if len(c.args) > 0 {
		n, err := strconv.ParseInt(c.args[0], 0, 64)
		if err != nil {
			return fmt.Errorf("number %q: want one such as 12 or 0xc", c.args[0])
		}
		c.srv.SetZxid(n)
	}
	c.reply(map[string]string{"zxid": hex(c.srv.Zxid())})
	return nil
}
