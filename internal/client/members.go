package client

import (
	"errors"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/internal/lifetime"
	"github.com/zkrecipes/zkrecipes/internal/session"
)

// configPath is the node with the configuration of the ensemble. It is never below a chroot.
const configPath = "/zookeeper/config"

// unreadable is how long a configuration that could not be watched is left alone.
const unreadable = time.Minute

// followMembers adopts the servers in the configuration of the ensemble whenever it changes, until the client is
// closed.
func (c *core) followMembers() {
	root := &Client{core: c, isSub: true}
	var read []byte
	failed := false
	for c.ctx.Err() == nil {
		for view, err := range root.Watch(c.ctx, configPath) {
			switch {
			case errors.Is(err, zkrecipes.ErrClosed):
				return
			case err != nil && !failed:
				c.opts.Log.Warn("zookeeper: cannot follow the configuration of the ensemble", "path", configPath, "error", err)
				failed = true
			case err == nil && view.Current && (read == nil || string(read) != string(view.Value.Data)):
				read, failed = append([]byte{}, view.Value.Data...), false
				c.takeMembers(read)
			}
		}
		_ = session.Sleep(c.ctx, unreadable) // the loop checks the context
	}
}

// takeMembers adopts the servers of a configuration. Versions are zxids, so a smaller one is from a server that lags
// behind, or from another ensemble. An ensemble without dynamic configuration names no servers.
func (c *core) takeMembers(config []byte) {
	version, servers, err := c.opts.Members(config)
	if err != nil {
		c.opts.Log.Warn("zookeeper: some servers cannot be used", "source", configPath, "error", err)
	}
	h := c.hosts
	judged := h.judge(servers)
	h.mu.Lock()
	was, newest := h.members, h.version
	fresh := version >= newest && len(servers) > 0
	if fresh {
		h.members, h.version = servers, version
		for _, name := range was {
			h.left[name] = true
		}
		for _, name := range servers {
			delete(h.left, name)
		}
		maps.Copy(h.preferred, judged)
		h.forget()
		h.redraw(was, servers)
		// A client that found no quiet moment when its server left gets another chance.
		if h.seeksFavorite() || h.target == (lifetime.Server{}) && h.left[h.good.Name] {
			some := h.liked(h.kin())
			h.moveTo(lifetime.Server{Name: some[rand.N(len(some))]}) // a new one has no address until the next round
		}
	}
	h.mu.Unlock()
	switch {
	case version < newest && len(servers) > 0:
		c.opts.Log.Warn("zookeeper: ignored an outdated configuration of the ensemble", "path", configPath,
			"version", version, "newest", newest)
	case fresh && !sameNames(servers, was):
		c.opts.Log.Info("zookeeper: the list of servers has changed", "source", configPath, "servers", listed(servers),
			"were", listed(was))
	}
}
