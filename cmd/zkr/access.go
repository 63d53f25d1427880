package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	gopath "path"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
)

// judgeAccess reports who may delete the contenders of a queue. Servers check the ACL of the parent, not of the
// contender, so an ACL on the contender adds no protection. Deleting the contender of a holder grants the lock to the
// next in the queue while the holder still works, until it notices the deletion.
func (a *app) judgeAccess(ctx context.Context, client *conn.Client, d *diagnosis, path string, queue *survey.Queue) {
	parents := map[string]bool{path: true}
	for _, c := range queue.Contenders() {
		parents[gopath.Dir(c.Node)] = true
	}
	for _, parent := range slices.Sorted(maps.Keys(parents)) {
		list, _, err := client.ACL(ctx, parent)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			d.Access = append(d.Access, fmt.Sprintf("access: cannot read who may delete contenders below %s: %v", parent, err))
			continue
		}
		able, open := deleters(list)
		if open && a.connect.identified() {
			d.find("access: %s may delete the contenders below %s, not only the user of zkr: "+
				"others can take the lock away while its holder works; set the ACL of this node in zkCli (setAcl), "+
				"and pass --acl to zkr", strings.Join(able, ", "), parent)
			continue
		}
		d.Access = append(d.Access, fmt.Sprintf("access: %s may delete the contenders below %s", orNobody(able), parent))
	}
}

// deleters returns the identities that an ACL allows to delete children or to change the ACL. open reports whether one
// of them needs no authentication.
func deleters(list []zk.ACL) (able []string, open bool) {
	for _, entry := range list {
		if entry.Perms&(zk.PermDelete|zk.PermAdmin) == 0 {
			continue
		}
		who, _, _ := strings.Cut(entry.ID, ":") // for the digest scheme, the rest is a hash
		if entry.Scheme != "digest" {
			who = entry.ID
		}
		able = append(able, entry.Scheme+":"+who)
		open = open || entry.Scheme == "world" || entry.Scheme == "ip"
	}
	return able, open
}

func orNobody(able []string) string {
	if len(able) == 0 {
		return "no client"
	}
	return strings.Join(able, ", ")
}

// identified reports whether zkr authenticates.
func (c *connectFlags) identified() bool { return c.authFile != "" || c.kerberos || c.tlsCert != "" }
