package check

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Leftovers checks that nothing is left below root in a listing of absolute paths, which may be in any order. Nodes
// whose last path element is listed in keep may remain, as long as nothing else is below them. For example, keep a
// semaphore's "locks" and "leases", because these are containers, which the server removes at its own pace. The root
// itself may also remain.
//
// Errors: the paths that are left.
func Leftovers(root string, listing []string, keep ...string) error {
	below := strings.TrimSuffix(root, "/") + "/"
	var left []string
	for _, p := range listing {
		if len(p) > len(below) && strings.HasPrefix(p, below) && !slices.Contains(keep, path.Base(p)) {
			left = append(left, p)
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	const shown = 5
	more := ""
	if len(left) > shown {
		more = fmt.Sprintf(" and %d more", len(left)-shown)
	}
	return fmt.Errorf("leftovers below %s: %d nodes: %s%s", root, len(left),
		strings.Join(left[:min(shown, len(left))], ", "), more)
}
