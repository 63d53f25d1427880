package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/recipes/shard"
)

// shardsView is the status of the shards below a path.
type shardsView struct {
	Path       string       `json:"path"`
	Verdict    string       `json:"verdict"`
	Words      string       `json:"words"`
	Generation int64        `json:"generation,string"`
	Shards     []shardView  `json:"shards"`
	Members    []memberView `json:"members"`
}

type shardView struct {
	Shard   string    `json:"shard"`
	State   string    `json:"state"`
	Member  string    `json:"member,omitempty"` // according to the plan
	Holder  string    `json:"holder,omitempty"` // of its lock
	Since   time.Time `json:"since,omitzero"`   // when the holder joined the queue, see survey.Reader.Ahead
	Token   int64     `json:"token,string,omitempty"`
	Session string    `json:"session,omitempty"`
}

type memberView struct {
	ID         string    `json:"id"`
	Weight     int       `json:"weight"`
	Shards     int       `json:"shards"` // number of shards it holds
	Leaving    bool      `json:"leaving,omitempty"`
	Restarting bool      `json:"restarting,omitempty"`
	Refuses    []string  `json:"refuses,omitempty"` // because they have failed there
	Since      time.Time `json:"since"`
}

// The states of a shard, from worst to best.
const (
	shardNobody  = "nobody"
	shardWaiting = "waiting"
	shardAway    = "away"
	shardMoving  = "moving"
	shardOwned   = "owned"
)

var shardStates = []string{shardNobody, shardWaiting, shardAway, shardMoving, shardOwned}

// stateOf returns the state of a shard.
func stateOf(o shard.Owner) string {
	switch {
	case o.Moving():
		return shardMoving
	case o.Holder.Path != "":
		return shardOwned
	case o.Member == "":
		return shardNobody
	case o.Away:
		return shardAway
	}
	return shardWaiting
}

// readShards reads the owners of the shards. ahead is how far the servers' clock is ahead of the local one.
func readShards(ctx context.Context, client *conn.Client, path string, ahead time.Duration) (shardsView, error) {
	v := shardsView{Path: path, Shards: []shardView{}, Members: []memberView{}}
	all, err := shard.New(client, path)
	if err != nil {
		return v, err
	}
	now, err := all.Owners(ctx)
	if err != nil {
		return v, err
	}
	v.Generation = now.Generation
	held, states := map[string]int{}, map[string]int{}
	for _, o := range now.Shards {
		s := shardView{Shard: o.Shard, State: stateOf(o), Member: o.Member}
		if h := o.Holder; h.Path != "" {
			s.Holder, s.Since, s.Token, s.Session = survey.Printable(h.Name), h.Since.Add(-ahead), int64(h.Token),
				fmt.Sprintf("0x%x", uint64(h.Session))
			held[h.Name]++
		}
		states[s.State]++
		v.Shards = append(v.Shards, s)
	}
	for _, m := range now.Members {
		v.Members = append(v.Members, memberView{
			m.ID, m.Weight, held[m.ID], m.Leaving, m.Restarting, m.Refuses,
			m.Since.Add(-ahead),
		})
	}
	v.judge(states, now.Err)
	return v, nil
}

// judge derives the verdict from the number of shards in each state. unread is the error that explains why there are
// none.
func (v *shardsView) judge(states map[string]int, unread error) {
	said := []string{fmt.Sprintf("%d shards, %d members", len(v.Shards), len(v.Members))}
	for _, state := range shardStates {
		if n := states[state]; n > 0 {
			said = append(said, fmt.Sprintf("%d %s", n, state))
			if v.Verdict == "" {
				v.Verdict = state
			}
		}
	}
	switch {
	case unread != nil:
		v.Verdict, said = "no plan", append(said, "cannot read the plan: "+unread.Error())
	case len(v.Shards) == 0:
		v.Verdict, said = "no plan", append(said, "no plan")
	}
	v.Words = strings.Join(said, ", ")
}

// tells reports whether the view fully covers a queue: that of the path itself, of its leader, or of the lock of a
// shard.
func (v *shardsView) tells(q *survey.Queue) bool {
	below := strings.TrimSuffix(v.Path, "/") + "/"
	own := q.Path == v.Path || q.Path == below+"election" || strings.HasPrefix(q.Path, below+"own/")
	return own && (q.Verdict == survey.Held || q.Verdict == survey.Free)
}

// write writes the view for people.
func (v *shardsView) write(w io.Writer, now time.Time) {
	// Errors are ignored here and below, because w is a buffer.
	_, _ = fmt.Fprintf(w, "%s: %s\n", v.Path, v.Words)
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(v.Shards) > 0 {
		_, _ = fmt.Fprintln(columns, "  SHARD\tSTATE\tMEMBER\tHOLDER\tAGE\tSINCE\tTOKEN")
	}
	for _, s := range v.Shards {
		age, since, token := "-", "-", "-"
		if s.Holder != "" || s.Token != 0 {
			age, since, token = survey.Round(now.Sub(s.Since)).String(), s.Since.UTC().Format(time.RFC3339),
				strconv.FormatInt(s.Token, 10)
		}
		_, _ = fmt.Fprintln(columns,
			"  "+strings.Join([]string{s.Shard, s.State, orDash(s.Member), orDash(s.Holder), age, since, token}, "\t"))
	}
	_ = columns.Flush()
	if len(v.Members) == 0 {
		return
	}
	_, _ = fmt.Fprintln(columns, "  MEMBER\tWEIGHT\tSHARDS\tAGE\tSINCE\tSAYS")
	for _, m := range v.Members {
		_, _ = fmt.Fprintln(columns, "  "+strings.Join([]string{
			m.ID, strconv.Itoa(m.Weight), strconv.Itoa(m.Shards), survey.Round(now.Sub(m.Since)).String(),
			m.Since.UTC().Format(time.RFC3339), orDash(m.says()),
		}, "\t"))
	}
	_ = columns.Flush()
}

// says returns the wishes of a member.
func (m *memberView) says() string {
	var said []string
	if m.Leaving {
		said = append(said, "leaving")
	}
	if m.Restarting {
		said = append(said, "restarting")
	}
	if len(m.Refuses) > 0 {
		said = append(said, "gave away "+strings.Join(m.Refuses, " "))
	}
	return strings.Join(said, ", ")
}
