package conn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLists plays what happens to requests for the children of one path: + begins, > passes the link, whichever it is,
// . is answered, x comes back without an answer. A digit is how many have been told so far that theirs has passed.
func TestLists(t *testing.T) {
	for _, script := range []string{
		"+0>1.1",
		"+>1.+1>2.2",
		"++>0>2..",   // the first that passes may be either
		"++>0.0>2.",  // the one that is told last began first
		"+>1+1.1>2.", // answered while another begins
		"+x0",        // never sent
		"+>1x1+>2.2", // sent, and lost
		"++x0>0.0+>1.1",
		"++>0x0>0x0+>1.",
		"+++>>0x0>0..0+>1.1",
	} {
		t.Run(script, func(t *testing.T) {
			s := &session{lists: map[string]*lists{}}
			told := 0
			var under []*lists
			for i, step := range script {
				switch step {
				case '+':
					under = append(under, s.listBegins("/a", func() { told++ }))
				case '>':
					s.listPassed("/a")
				case '.', 'x':
					s.listEnds("/a", under[0], step == '.')
					under = under[1:]
				default:
					require.Equal(t, int(step-'0'), told, "after %s", script[:i])
				}
			}
			require.Empty(t, s.lists)
			s.listPassed("/a") // of nobody
			require.Empty(t, s.lists)
		})
	}
}
