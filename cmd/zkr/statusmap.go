package main

import (
	"fmt"
	"strconv"
	"strings"
)

// statusMap has other numbers for exit statuses.
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

func (m *statusMap) String() string { return "" }

// Type is how help calls the value.
func (m *statusMap) Type() string { return "statuses" }
