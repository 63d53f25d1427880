package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// statusMap maps exit statuses to other numbers.
type statusMap map[int]int

func (m *statusMap) Set(text string) error {
	parsed := statusMap{}
	for pair := range strings.SplitSeq(text, ",") {
		from, to, _ := strings.Cut(pair, "=")
		a, errA := strconv.ParseUint(from, 10, 8)
		b, errB := strconv.ParseUint(to, 10, 8)
		if errA != nil || errB != nil || a == 0 {
			return fmt.Errorf("%q: want pairs of statuses such as 64=193,79=194", text)
		}
		parsed[int(a)] = int(b)
	}
	*m = parsed
	return nil
}

// ownStatus extracts the map from the environment, or from a command line that is otherwise invalid, up to the "--".
func ownStatus(args []string) (m statusMap) {
	text := os.Getenv("ZKR_OWN_STATUS")
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if value, typed := strings.CutPrefix(arg, "--own-status="); typed {
			text = value
		} else if arg == "--own-status" && i+1 < len(args) {
			text = args[i+1]
		}
	}
	_ = m.Set(text) // an invalid value maps nothing
	return m
}

func (m *statusMap) String() string { return "" }

// Type returns the name that help shows for the value.
func (m *statusMap) Type() string { return "statuses" }
