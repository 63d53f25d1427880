package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// command is something that a line can ask for. Its arguments are named in args: those in brackets may be left out, and
// the last may be repeated if it ends in dots.
type command struct {
	name, args, help string
	run              func(c *call) error
}

// text is an answer for people.
type text string

const where = `
  FRONT is a number from 1, with the flag -fronts.
  WHO is all, a label, or the id of a session: 0x100019d2f4c0000. Without one, all are meant.
  RULE says which requests: [OPERATION] [path=REGEXP] [from=WHO] [skip=N] [times=N|all]. Without one, it is the next
  request; pings and handshakes only if the operation is ping or connect. create stands for all kinds of it.
  A word with blanks or control characters is written as a string of Go: "a b", "\x00".`

// call is a command that is being carried out.
type call struct {
	*daemon
	line  string
	args  []string
	reply func(any) // adds a line to the answer: JSON, or text
}

// arg returns an argument, or what stands for it if it was left out.
func (c *call) arg(i int, otherwise string) string {
	if i < len(c.args) {
		return c.args[i]
	}
	return otherwise
}

var commands []command

func init() { // help lists them
	commands = []command{
		{"stop", "[LABEL|FRONT]", "refuse connections and end those there are; data and sessions stay", stop},
		{"start", "[LABEL|FRONT]", "listen again, on the same port; every session gets its full timeout", startAgain},
		{"restart", "", "stop and start", restart},
		{"listen", "LABEL [ADDRESS]", "open another address; faults find its clients by the label", listen},
		{"isolate", "FRONT", "cut a front off from the others: it serves no more", fronted((*zktest.Front).Isolate)},
		{"rejoin", "FRONT", "end isolate", fronted((*zktest.Front).Rejoin)},
		{"lag", "FRONT", "let a front fall behind the others", fronted((*zktest.Front).Lag)},
		{"catch-up", "FRONT", "end lag", fronted((*zktest.Front).CatchUp)},
		{"freeze", "", "accept connections and answer nothing, as a stopped process does", freeze},
		{"thaw", "", "end freeze", thaw},
		{"expire", "WHO", "end sessions now: a session's id, a label, or all", expire},
		{"cut", "[WHO]", "close connections as a reset does", cut},
		{"stall", "[WHO] [DIRECTION]", "swallow what is sent: to-server, from-server or both", stall},
		{"heal", "[WHO]", "end stall", heal},
		{"latency", "DURATION", "make every request wait before it is served", slow((*zktest.Server).SetLatency)},
		{"write-latency", "DURATION", "make writes wait longer still", slow((*zktest.Server).SetWriteLatency)},
		{"refuse", "[LABEL]", "close new connections at once", refuse},
		{"accept", "[LABEL]", "end refuse", accept},

		{"drop-reply", "[RULE...]", "apply a request and close the connection without an answer", ruled(plain(zktest.DropReply()))},
		{"drop-request", "[RULE...]", "close the connection before a request is applied", ruled(plain(zktest.DropRequest()))},
		{"ignore", "[RULE...]", "neither apply nor answer a request", ruled(plain(zktest.Ignore()))},
		{"forbid", "[RULE...]", "serve a request and report a violation", ruled(plain(zktest.Forbid()))},
		{"count", "[RULE...]", "serve a request as always", ruled(plain(zktest.Proceed()))},
		{"fail", "CODE [RULE...]", "answer a request with an error: no-node, -101", ruled(failure)},
		{"delay", "DURATION [RULE...]", "apply a request later", ruled(lasting(zktest.Delay))},
		{"hold-reply", "DURATION [RULE...]", "apply a request now and answer later", ruled(lasting(zktest.HoldReply))},
		{"rules", "", "list what drop-reply and its like have asked for, and how often it hit", listRules},
		{"await", "RULE [DURATION]", "wait until a rule has hit as often as it should; 10s at most", await},
		{"remove", "RULE", "end a rule: its number, or all", remove},

		{"reap", "", "remove empty containers and nodes whose time to live is over", reap},
		{"lose-watch", "PATH [WHO]", "forget watches on a path, which no real server does", loseWatch},
		{"event", "KIND PATH [WHO]", "send an event that nothing has caused: created, deleted, changed, children", event},
		{"sequence", "PATH NUMBER", "set the number of the next sequential child", sequence},
		{"zxid", "[NUMBER]", "tell or set the number of the last transaction", zxid},

		{"create", "PATH [DATA] [MODE]", "make a node: persistent, sequential, container", create},
		{"set", "PATH DATA", "set the data of a node", set},
		{"delete", "PATH", "delete a node of any owner", remover((*zktest.Server).Delete)},
		{"delete-all", "PATH", "delete a node and all below it", remover((*zktest.Server).DeleteAll)},
		{"get", "PATH", "show a node", get},
		{"tree", "[PATH]", "show a node and all below it", tree},

		{"sessions", "", "list the live sessions with their nodes", sessions},
		{"watchers", "PATH", "list the sessions that watch a path", watchers},
		{"history", "[NUMBER]", "list the newest transactions; all without a number", history},
		{"violations", "", "list what the server found wrong", violations},
		{"addresses", "", "list the addresses", addresses},
		{"help", "", "list the commands", help},
		{"quit", "", "end", quit},
	}
}

// do carries out a line.
func (d *daemon) do(line string, reply func(any)) error {
	words, err := split(line)
	if err != nil || len(words) == 0 {
		return err
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == words[0] })
	if i < 0 {
		return fmt.Errorf("no command %q: help lists them", words[0])
	}
	c := commands[i]
	least, most := c.arity()
	if n := len(words) - 1; n < least || n > most {
		return fmt.Errorf("%d arguments: want %s", n, strings.TrimSpace(c.name+" "+c.args))
	}
	return c.run(&call{d, line, words[1:], reply})
}

// arity returns how many arguments a command takes at least and at most.
func (c command) arity() (least, most int) {
	for arg := range strings.FieldsSeq(c.args) {
		most++
		if arg[0] != '[' {
			least++
		}
		if strings.HasSuffix(arg, "...]") {
			most += 1 << 10
		}
	}
	return least, most
}

// split returns the words of a line. A word may be quoted as a string of Go: "a b", "\x00".
func split(line string) ([]string, error) {
	var words []string
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		if rest[0] != '"' {
			end := strings.IndexAny(rest, " \t")
			if end < 0 {
				end = len(rest)
			}
			words, rest = append(words, rest[:end]), rest[end:]
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, fmt.Errorf("bad quotes in %s: want a string of Go", rest)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("bad quotes in %s: %w", quoted, err)
		}
		words, rest = append(words, word), rest[len(quoted):]
	}
	return words, nil
}

// who reads all, a label, or the id of a session.
func (d *daemon) who(word string) (zktest.Who, error) {
	if word == "all" {
		return zktest.Everyone, nil
	}
	d.mu.Lock()
	known := slices.ContainsFunc(d.doors, func(x *door) bool { return x.label == word && word != "" })
	d.mu.Unlock()
	if known {
		return zktest.Label(word), nil
	}
	id, err := strconv.ParseInt(word, 0, 64)
	if err != nil {
		return zktest.Who{}, noLabel(word)
	}
	if !slices.ContainsFunc(d.srv.Sessions(), func(s zktest.SessionInfo) bool { return s.ID == id }) {
		return zktest.Who{}, fmt.Errorf("no session %s: the command sessions lists them", word)
	}
	return zktest.Session(id), nil
}

// hex is how ids and zxids are written.
func hex(n int64) string { return fmt.Sprintf("%#x", n) }

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
	if _, err := strconv.ParseInt(label, 0, 64); err == nil || label == "all" || label == "" {
		return fmt.Errorf("label %q: want a name that is no number and not all", label)
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

func stall(c *call) error {
	who, err := c.who(c.arg(0, "all"))
	if err != nil {
		return err
	}
	directions := map[string]zktest.Direction{"both": zktest.Both, "to-server": zktest.ToServer, "from-server": zktest.FromServer}
	direction, ok := directions[c.arg(1, "both")]
	if !ok {
		return fmt.Errorf("direction %q: want to-server, from-server or both", c.args[1])
	}
	c.srv.Stall(who, direction)
	return nil
}

func heal(c *call) error {
	who, err := c.who(c.arg(0, "all"))
	if err == nil {
		c.srv.Heal(who)
	}
	return err
}

func refuse(c *call) error {
	who, err := c.who(c.arg(0, "all"))
	if err == nil {
		c.srv.Refuse(who)
	}
	return err
}

func accept(c *call) error {
	who, err := c.who(c.arg(0, "all"))
	if err == nil {
		c.srv.Accept(who)
	}
	return err
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
		return fmt.Errorf("number %q: want one of 32 bits", c.args[1])
	}
	return at(c.args[0], c.srv.SetCversion(c.args[0], int32(n)))
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

// at adds the path of the node to an error.
func at(path string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func create(c *call) error {
	modes := map[string]zktest.Mode{
		"persistent": zktest.Persistent, "sequential": zktest.PersistentSequential, "container": zktest.Container,
	}
	mode, ok := modes[c.arg(2, "persistent")]
	if !ok {
		return fmt.Errorf("mode %q: want persistent, sequential or container", c.args[2])
	}
	path, err := c.srv.Create(c.args[0], []byte(c.arg(1, "")), mode)
	if err == nil {
		c.reply(map[string]string{"path": path})
	}
	return at(c.args[0], err)
}

func set(c *call) error {
	return at(c.args[0], c.srv.Set(c.args[0], []byte(c.args[1])))
}

func remover(remove func(*zktest.Server, string) error) func(*call) error {
	return func(c *call) error { return at(c.args[0], remove(c.srv, c.args[0])) }
}

// node is how a node is shown.
type node struct {
	Path      string `json:"path"`
	Data      string `json:"data"`             // empty if it is not UTF-8
	Base64    []byte `json:"base64,omitempty"` // the data that is not UTF-8
	Version   int32  `json:"version"`
	Czxid     string `json:"czxid"`
	Owner     string `json:"owner,omitempty"` // session of an ephemeral node
	Container bool   `json:"container,omitempty"`
	TTL       string `json:"ttl,omitempty"`
}

func show(n zktest.Node) node {
	x := node{Path: n.Path, Version: n.Stat.Version, Czxid: hex(n.Stat.Czxid), Container: n.Container}
	if utf8.Valid(n.Data) {
		x.Data = string(n.Data)
	} else {
		x.Base64 = n.Data
	}
	if n.TTL != 0 {
		x.TTL = n.TTL.String()
	} else if n.Stat.EphemeralOwner != 0 && !n.Container {
		x.Owner = hex(n.Stat.EphemeralOwner)
	}
	return x
}

func get(c *call) error {
	n, ok := c.srv.Node(c.args[0])
	if !ok {
		return at(c.args[0], zktest.CodeNoNode)
	}
	c.reply(show(n))
	return nil
}

func tree(c *call) error {
	path := c.arg(0, "/")
	list := c.srv.Tree(path)
	if len(list) == 0 {
		return at(path, zktest.CodeNoNode)
	}
	for _, n := range list {
		c.reply(show(n))
	}
	return nil
}

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
			return fmt.Errorf("number %q: want how many transactions", c.args[0])
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
		c.reply(map[string]any{"label": x.label, "address": x.addr, "listening": x.listener != nil})
	}
	return nil
}

func help(c *call) error {
	for _, x := range commands {
		c.reply(text(fmt.Sprintf("  %-35s %s", x.name+" "+x.args, x.help)))
	}
	c.reply(text(where))
	return nil
}

func quit(c *call) error {
	c.last.Store(true)
	return nil
}
