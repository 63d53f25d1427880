package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes/zktest"
)

// rule is a rule of the server together with the command that created it.
type rule struct {
	*zktest.Rule
	text  string
	times int // number of requests that it is for; below 0 for all
}

// action parses the arguments before the RULE and returns the remaining words.
type action func(args []string) (a zktest.Action, rest []string, err error)

func plain(a zktest.Action) action {
	return func(args []string) (zktest.Action, []string, error) { return a, args, nil }
}

func lasting(of func(time.Duration) zktest.Action) action {
	return func(args []string) (zktest.Action, []string, error) {
		d, err := duration(args[0])
		return of(d), args[1:], err
	}
}

func duration(word string) (time.Duration, error) {
	d, err := time.ParseDuration(word)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("duration %q: want one such as 200ms or 1.5s", word)
	}
	return d, nil
}

func failure(args []string) (zktest.Action, []string, error) {
	code, err := readCode(args[0])
	if err != nil {
		return zktest.Action{}, nil, err
	}
	return zktest.Fail(code), args[1:], nil
}

// readCode parses an error code: its number, or its name with dashes.
func readCode(word string) (zktest.Code, error) {
	if n, err := strconv.ParseInt(word, 10, 32); err == nil && n < 0 {
		return zktest.Code(n), nil
	}
	var known []string
	for n := zktest.Code(-1); n > -200; n-- {
		name, _, _ := strings.Cut(n.Error(), " (")
		name = strings.ToLower(strings.ReplaceAll(name, " ", "-"))
		if name == word {
			return n, nil
		}
		if name != "error" {
			known = append(known, name)
		}
	}
	return 0, fmt.Errorf("code %q: want a number below 0, or one of %s", word, strings.Join(known, ", "))
}

// ruled turns an action into a command whose further words select the requests.
func ruled(of action) func(*call) error {
	return func(c *call) error {
		a, rest, err := of(c.args)
		if err != nil {
			return err
		}
		m, err := c.match(rest)
		if err != nil {
			return err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.rules = append(c.rules, &rule{c.srv.Intercept(m, a), c.line, cmp.Or(m.Times, 1)})
		c.reply(map[string]int{"rule": len(c.rules)})
		return nil
	}
}

// match parses which requests a rule is for: create path=^/a from=LABEL skip=1 times=2.
func (d *daemon) match(words []string) (m zktest.Match, err error) {
	for i, word := range words {
		key, value, set := strings.Cut(word, "=")
		switch {
		case !set && i == 0:
			err = matchOp(&m, word)
		case key == "path":
			m.Path = value
			if _, err = regexp.Compile(value); err != nil {
				err = fmt.Errorf("path %q: %w", value, err)
			}
		case key == "from":
			m.From, err = d.who(value)
		case key == "skip":
			m.Skip, err = number(value)
		case key == "times" && value == "all":
			m.Times = -1
		case key == "times":
			if m.Times, err = strconv.Atoi(value); err != nil || m.Times < 1 {
				err = fmt.Errorf("times %q: want a number from 1, or all", value)
			}
		default:
			err = fmt.Errorf("%q is not part of a RULE: want [OPERATION] [path=REGEXP] [from=WHO] [skip=N] [times=N|all]", word)
		}
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

func number(word string) (int, error) {
	n, err := strconv.Atoi(word)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("number %q: want 0 or more", word)
	}
	return n, nil
}

// families are operations among which a client chooses by what else it wants to know; tests mean all of them.
var families = map[zktest.Op][]zktest.Op{
	zktest.OpCreate:      {zktest.OpCreate2, zktest.OpCreateContainer, zktest.OpCreateTTL},
	zktest.OpGetChildren: {zktest.OpGetChildren2},
	zktest.OpSetWatches:  {zktest.OpSetWatches2},
}

// matchOp parses the name of an operation as in ZooKeeper's sources, ignoring case, and adds it to the match.
func matchOp(m *zktest.Match, word string) error {
	var known []string
	for n := zktest.OpCloseSession; n < 200; n++ {
		name := n.String()
		if strings.HasPrefix(name, "op ") || name == "error" {
			continue
		}
		known = append(known, name)
		if !strings.EqualFold(name, word) {
			continue
		}
		if family, ok := families[n]; ok {
			m.Where = func(r zktest.Request) bool { return r.Op == n || slices.Contains(family, r.Op) }
		} else {
			m.Op = n
		}
		return nil
	}
	return fmt.Errorf("operation %q: want one of %s", word, strings.Join(known, ", "))
}

func listRules(c *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range c.rules {
		c.reply(map[string]any{"rule": i + 1, "asked": r.text, "hits": r.Hits(), "done": r.over()})
	}
	return nil
}

// over reports whether a rule is no longer in effect.
func (r *rule) over() bool {
	select {
	case <-r.Done():
		return true
	default:
		return false
	}
}

func (d *daemon) rule(word string) (*rule, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 || n > len(d.rules) {
		return nil, fmt.Errorf("no rule %s: the command rules lists all rules", word)
	}
	return d.rules[n-1], nil
}

func await(c *call) error {
	r, err := c.rule(c.args[0])
	if err != nil {
		return err
	}
	limit, err := duration(c.arg(1, "10s"))
	if err != nil {
		return err
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-r.Done():
		if hits := r.Hits(); hits < r.times {
			return fmt.Errorf("rule %s was removed after %d of %d hits", c.args[0], hits, r.times)
		}
		return nil
	case <-late.C:
		err := fmt.Errorf("rule %s has matched %d times in %v", c.args[0], r.Hits(), limit)
		if r.times < 0 {
			err = fmt.Errorf("%w: with times=all, it never ends", err)
		}
		return err
	case <-c.quit:
		return errors.New("the server is stopping")
	}
}

func remove(c *call) error {
	if c.args[0] == "all" {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, r := range c.rules {
			r.Remove()
		}
		return nil
	}
	r, err := c.rule(c.args[0])
	if err == nil {
		r.Remove()
	}
	return err
}
