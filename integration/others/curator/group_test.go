package curator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/group"
)

// shown formats the members of a view as the peer formats them.
func shown(v group.View) string {
	var list []string
	for _, m := range v.Members {
		list = append(list, m.ID+"="+string(m.Data))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// Curator's GroupMember and ours are members of one group, with their payloads, and each sees the other join and leave.
func TestGroup(t *testing.T) {
	const path = "/groups/workers"
	s := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	g, err := group.New(s.clients[0], path)
	must(t, err)
	var views []string
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for v, err := range g.Watch(watching, group.WithPayloads()) {
			if err != nil {
				t.Error(err)
			} else if v.Current {
				views = append(views, shown(v))
			}
		}
	}()
	members := func(want ...string) {
		t.Helper()
		poll(t, "both see "+strings.Join(want, " "), func() bool {
			ours, err := g.Members(ctx)
			must(t, err)
			theirs, err := s.peer.Ask(ctx, "members", "m")
			must(t, err)
			return shown(ours) == strings.Join(want, " ") && theirs == shown(ours)
		})
	}
	ours, err := g.Join(ctx, "go", []byte("1"))
	must(t, err)
	_, err = s.peer.Ask(ctx, "join", "m", path, "java", "1")
	must(t, err)
	members("go=1", "java=1")
	must(t, ours.Set(ctx, []byte("2")))
	members("go=2", "java=1")
	_, err = s.peer.Ask(ctx, "payload", "m", "3")
	must(t, err)
	members("go=2", "java=3")
	v, err := g.Members(ctx)
	must(t, err)
	if v.Members[0].ID != "go" {
		t.Errorf("the oldest is %q", v.Members[0].ID)
	}

	_, err = g.Join(ctx, "java", nil)
	var taken *zkrecipes.TakenError
	if !errors.As(err, &taken) || taken.Session != v.Members[1].Session || string(taken.Data) != "3" {
		t.Errorf("the id of the Java member: %v", err)
	}
	members("go=2", "java=3")
	must(t, ours.Close(ctx))
	members("java=3")
	ours, err = g.Join(ctx, "go", []byte("4"))
	must(t, err)
	members("go=4", "java=3")
	_, err = s.peer.Ask(ctx, "leave", "m")
	must(t, err)
	poll(t, "the Java member has left", func() bool {
		v, err := g.Members(ctx)
		must(t, err)
		return shown(v) == "go=4"
	})
	must(t, ours.Close(ctx))
	stop()
	<-watched
	if len(views) == 0 || !slices.Contains(views, "go=2 java=3") {
		t.Errorf("Watch told %q", views)
	}
}
