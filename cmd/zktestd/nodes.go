package main

import (
	"fmt"
	"unicode/utf8"

	"github.com/zkrecipes/zkrecipes/zktest"
)

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
	return err
}

func set(c *call) error { return c.srv.Set(c.args[0], []byte(c.args[1])) }

func remover(remove func(*zktest.Server, string) error) func(*call) error {
	return func(c *call) error { return remove(c.srv, c.args[0]) }
}

func get(c *call) error {
	n, ok := c.srv.Node(c.args[0])
	if !ok {
		return noNode(c.args[0])
	}
	c.reply(show(n))
	return nil
}

func tree(c *call) error {
	path := c.arg(0, "/")
	list := c.srv.Tree(path)
	if len(list) == 0 {
		return noNode(path)
	}
	for _, n := range list {
		c.reply(show(n))
	}
	return nil
}

// node is the JSON form of a node.
type node struct {
	Path      string `json:"path"`
	Data      string `json:"data"`             // empty if it is not UTF-8
	Base64    []byte `json:"base64,omitempty"` // data that is not UTF-8
	Version   int32  `json:"version"`
	Czxid     string `json:"czxid"`
	Owner     string `json:"owner,omitempty"` // session of an ephemeral node
	Container bool   `json:"container,omitempty"`
	TTL       string `json:"ttl,omitempty"`
}

// show returns the JSON form of n.
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

func noNode(path string) error { return fmt.Errorf("%s: %w", path, zktest.CodeNoNode) }
