package main

import (
	"cmp"
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

// ownStatus extracts the map from a command line that is otherwise invalid, or from the environment.
func ownStatus(args []string) (m statusMap) {
	_ = m.Set(cmp.Or(typedFlag(args, "own-status"), os.Getenv("ZKR_OWN_STATUS"))) // an invalid value maps nothing
	return m
}

// typedFlag extracts the value of a flag from a command line that is otherwise invalid, up to the "--". Without one, it
// returns "".
func typedFlag(args []string, flag string) (value string) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if after, is := strings.CutPrefix(arg, "--"+flag+"="); is {
			value = after
		} else if arg == "--"+flag && i+1 < len(args) {
			value = args[i+1]
		}
	}
	return value
}

func (m *statusMap) String() string { return "" }

// Type returns the name that help shows for the value.
func (m *statusMap) Type() string { return "statuses" }
