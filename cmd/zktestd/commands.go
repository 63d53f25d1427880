package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// command is something that a line can request. Its arguments are named in args: those in brackets are optional, and
// the last one may be repeated if it ends with dots.
type command struct {
	name, args, help string
	run              func(c *call) error
}

// text is an answer for people.
type text string

const where = `
  FRONT is a number from 1, with the flag -fronts.
  WHO is all, a label, or the id of a session: 0x100019d2f4c0000. The default is all.
  RULE selects requests: [OPERATION] [path=REGEXP] [from=WHO] [skip=N] [times=N|all]. The default is the next
  request other than a ping or handshake, which only ping and connect match. create matches every kind of create.
  Write a word with spaces or control characters as a Go string literal: "a b", "\x00".`

// call is a running command.
type call struct {
	*daemon
	line  string
	args  []string
	reply func(any) // adds a line to the answer: JSON, or text
}

// arg returns an argument, or its default if it was omitted.
func (c *call) arg(i int, otherwise string) string {
	if i < len(c.args) {
		return c.args[i]
	}
	return otherwise
}

var commands []command

func init() { // in init, because help lists the commands
	commands = []command{
		{"stop", "[LABEL|FRONT]", "refuse connections and close existing ones; data and sessions remain", stop},
		{
			"start", "[LABEL|FRONT]", "listen again, on the same port; without an argument, every session gets its full timeout",
			startAgain,
		},
		{"restart", "", "stop and start", restart},
		{"listen", "LABEL [ADDRESS]", "open another address; faults find its clients by the label", listen},
		{
			"isolate", "FRONT", "cut a front off from the others: it stops serving, except reads to clients that accept that",
			fronted((*zktest.Front).Isolate),
		},
		{"rejoin", "FRONT", "end isolate", fronted((*zktest.Front).Rejoin)},
		{"lag", "FRONT", "make a front lag behind the others", fronted((*zktest.Front).Lag)},
		{"catch-up", "FRONT", "end lag", fronted((*zktest.Front).CatchUp)},
		{"freeze", "", "accept connections but answer nothing, like a stopped process", freeze},
		{"thaw", "", "end freeze", thaw},
		{"expire", "WHO", "end sessions now: a session's id, a label, or all", expire},
		{"cut", "[WHO]", "close connections immediately; what is queued for them is lost", cut},
		{"stall", "[WHO] [DIRECTION]", "hold back what is sent until heal: to-server, from-server or both", stall},
		{"heal", "[WHO]", "end stall", aimed((*zktest.Server).Heal)},
		{"latency", "DURATION", "delay every request before it is served", slow((*zktest.Server).SetLatency)},
		{"write-latency", "DURATION", "delay writes further", slow((*zktest.Server).SetWriteLatency)},
		{"refuse", "[LABEL]", "close new connections immediately", barring((*zktest.Server).Refuse)},
		{"accept", "[LABEL]", "end refuse", barring((*zktest.Server).Accept)},

		{
			"drop-reply", "[RULE...]", "apply a request and close the connection without an answer",
			ruled(plain(zktest.DropReply())),
		},
		{"drop-request", "[RULE...]", "close the connection before a request is applied", ruled(plain(zktest.DropRequest()))},
		{"ignore", "[RULE...]", "neither apply nor answer a request", ruled(plain(zktest.Ignore()))},
		{"forbid", "[RULE...]", "serve a request and report a violation", ruled(plain(zktest.Forbid()))},
		{"count", "[RULE...]", "serve a request as usual", ruled(plain(zktest.Proceed()))},
		{"fail", "CODE [RULE...]", "answer a request with an error: no-node, -101", ruled(failure)},
		{"delay", "DURATION [RULE...]", "apply a request later", ruled(lasting(zktest.Delay))},
		{"hold-reply", "DURATION [RULE...]", "apply a request now and answer later", ruled(lasting(zktest.HoldReply))},
		{"rules", "", "list rules such as those of drop-reply, and how often each has matched", listRules},
		{"await", "RULE [DURATION]", "wait until a rule has matched as often as requested; 10s at most", await},
		{"remove", "RULE", "remove a rule: its number, or all", remove},

		{"reap", "", "remove empty containers and nodes whose time to live has elapsed", reap},
		{"lose-watch", "PATH [WHO]", "drop watches on a path, which no real server does", loseWatch},
		{"event", "KIND PATH [WHO]", "send an event without a cause: created, deleted, changed, children", event},
		{"sequence", "PATH NUMBER", "set the number of the next sequential child", sequence},
		{"zxid", "[NUMBER]", "show or set the number of the last transaction", zxid},

		{"create", "PATH [DATA] [MODE]", "create a node: persistent, sequential, container", create},
		{"set", "PATH DATA", "set the data of a node", set},
		{"delete", "PATH", "delete a node of any owner", remover((*zktest.Server).Delete)},
		{"delete-all", "PATH", "delete a node and all below it", remover((*zktest.Server).DeleteAll)},
		{"get", "PATH", "show a node", get},
		{"tree", "[PATH]", "show a node and all below it", tree},

		{"sessions", "", "list the live sessions with their nodes", sessions},
		{"watchers", "PATH", "list the sessions that watch a path", watchers},
		{"history", "[NUMBER]", "list the latest transactions; without a number, the 65,536 that are kept", history},
		{"violations", "", "list the violations that the server has found", violations},
		{"addresses", "", "list the addresses", addresses},
		{"help", "", "list the commands", help},
		{"quit", "", "end", quit},
	}
}

// do runs the command in a line.
func (d *daemon) do(line string, reply func(any)) error {
	words, err := split(line)
	if err != nil || len(words) == 0 {
		return err
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == words[0] })
	if i < 0 {
		return fmt.Errorf("unknown command %q: help lists all commands", words[0])
	}
	c := commands[i]
	least, most := c.arity()
	if n := len(words) - 1; n < least || n > most {
		return fmt.Errorf("%d arguments: want %s", n, strings.TrimSpace(c.name+" "+c.args))
	}
	return c.run(&call{d, line, words[1:], reply})
}

// arity returns the minimum and maximum number of arguments of a command.
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

// split returns the words of a line. A word may be quoted as a Go string: "a b", "\x00".
func split(line string) ([]string, error) {
	const blanks = " \t\r"
	var words []string
	for rest := strings.Trim(line, blanks); rest != ""; rest = strings.Trim(rest, blanks) {
		if rest[0] != '"' {
			end := strings.IndexAny(rest, blanks)
			if end < 0 {
				end = len(rest)
			}
			words, rest = append(words, rest[:end]), rest[end:]
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, fmt.Errorf("bad quotes in %s: want a Go string literal", rest)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("bad quotes in %s: %w", quoted, err)
		}
		words, rest = append(words, word), rest[len(quoted):]
	}
	return words, nil
}

// label parses all or a label.
func (d *daemon) label(word string) (zktest.Who, error) {
	if word == "all" {
		return zktest.Everyone, nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.ContainsFunc(d.doors, func(x *door) bool { return x.label == word && word != "" }) {
		return zktest.Who{}, noLabel(word)
	}
	return zktest.Label(word), nil
}

// who parses all, a label, or the id of a session.
func (d *daemon) who(word string) (zktest.Who, error) {
	who, noLabel := d.label(word)
	if noLabel == nil {
		return who, nil
	}
	number, err := strconv.ParseUint(word, 0, 64)
	id := int64(number) //nolint:gosec // ids of 2^63 and more are negative as int64
	if err != nil {
		return who, noLabel
	}
	if !slices.ContainsFunc(d.srv.Sessions(), func(s zktest.SessionInfo) bool { return s.ID == id }) {
		return zktest.Who{}, fmt.Errorf("no session %s: the command sessions lists all sessions", word)
	}
	return zktest.Session(id), nil
}

// hex formats an id or zxid.
func hex(n int64) string { return fmt.Sprintf("%#x", uint64(n)) }

// help lists the commands.
func help(c *call) error {
	for _, x := range commands {
		c.reply(text(fmt.Sprintf("  %-35s %s", x.name+" "+x.args, x.help)))
	}
	c.reply(text(where))
	return nil
}

// quit ends the program after the answer to it.
func quit(c *call) error {
	c.last.Store(true)
	return nil
}
