package supervise

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/cmd/zkr/internal/survey"
	"github.com/zkrecipes/zkrecipes/conn"
)

// Variables are the variables that zkr sets for the program.
var Variables = []string{
	"ZKR_PATH", "ZKR_NODE", "ZKR_TOKEN", "ZKR_SESSION", outer, "ZKR_KIND", "ZKR_ID", "ZKR_VALID_UNTIL", "ZKR_DEPTH",
	"ZKR_STATE", "ZKR_SHARD",
}

// outer is the variable with the sessions of all zkr processes above the program that wait for it to end.
const outer = "ZKR_OUTER"

// notForTheProgram are flags that only apply to this zkr: a zkr below it has a different descriptor, address and file.
var notForTheProgram = []string{"ZKR_EVENTS", "ZKR_METRICS_HTTP", "ZKR_METRICS_FILE", "ZKR_OWN_STATUS"}

// environment returns the program's environment: that of zkr, plus variables that describe the lock. Values inherited
// from an outer zkr are removed.
func (r *Runner) environment(t *Target, g *Grant, session *conn.Session, statePath string, more ...string) []string {
	var nodes, tokens []string
	for _, h := range g.parts {
		nodes, tokens = append(nodes, h.Path()), append(tokens, h.Token().String())
	}
	above := os.Getenv(outer)
	if r.options.Leftovers != "ignore" {
		above = strings.TrimSpace(fmt.Sprintf("%s 0x%x", above, uint64(session.ID())))
	}
	depth, _ := strconv.Atoi(os.Getenv("ZKR_DEPTH")) // 0 without an outer zkr
	own := append([]string{
		"ZKR_PATH=" + strings.Join(t.Paths, "\n"),
		"ZKR_NODE=" + strings.Join(nodes, "\n"),
		"ZKR_TOKEN=" + strings.Join(tokens, "\n"),
		fmt.Sprintf("ZKR_SESSION=0x%x", uint64(session.ID())),
		outer + "=" + above,
		"ZKR_KIND=" + t.Kind,
		"ZKR_ID=" + survey.NameOf(zkrecipes.Participant{Name: r.client.Identity()}),
		"ZKR_VALID_UNTIL=" + g.ValidUntil().UTC().Format(time.RFC3339Nano),
		"ZKR_DEPTH=" + strconv.Itoa(depth+1),
		"ZKR_STATE=" + statePath,
	}, more...)
	inherited := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(notForTheProgram, name) ||
			slices.ContainsFunc(own, func(told string) bool { return strings.HasPrefix(told, name+"=") })
	})
	return append(inherited, own...)
}
