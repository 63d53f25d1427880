package chaos

import (
	"fmt"
	"strings"
)

// shards returns one group per shard lock, if g is a group of members, and none otherwise. What a member did with a
// shard is the history of a separate client in a separate group: "shards/p007".
func shards(g Group) []Group {
	if g.Recipe != "shards" {
		return nil
	}
	groups := make([]Group, g.Limit)
	for i := range groups {
		groups[i] = Group{Recipe: fmt.Sprintf("shards/p%03d", i), Clients: g.Clients, Limit: 1}
	}
	return groups
}

// process returns the process that reports for a client: "shards-0.1" for "shards-0.1/p007".
func process(client string) string {
	id, _, _ := strings.Cut(client, "/")
	return id
}

// recipe returns the recipe of a group.
func recipe(group string) string { return process(group) }

// idle returns the shards whose last update is older than the stamp.
func (h *history) idle(groups []Group, stamp int64) (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range groups {
		for _, s := range shards(g) {
			if h.used[s.Recipe] < stamp {
				names = append(names, s.Recipe)
			}
		}
	}
	return names
}
