package proto

import (
	"fmt"
	"strconv"
	"strings"
)

// Traits are the differences between releases.
type Traits struct {
	Number            string // of the release, in full
	Create2InMulti    bool
	FailsWithBody     bool // a multi on which the server breaks
	ExistsNeedsRead   bool
	EventsNeedRead    bool
	MissedNeedRead    bool // events that setWatches reports
	NoCheck           bool // outside a multi
	EventZxid         bool
	DeletesContainers bool // for clients
	ShunsReapers      bool // clients that send deleteContainer
	WatchesAddUp      bool // watches of one connection on one path
	ReadsFirst        bool // reads a write before it takes a zxid
	ReadOnlyFlagEver  bool // even for clients that send none
	IPv6              bool
}

// Debian is the package of 3.8.0 in Debian 12.
const Debian = "3.8.0-11+deb12u2"

// newest maps minor versions to the patch numbers of the newest releases that zktest was compared with.
var newest = map[int]int{8: 7, 9: 6}

// TraitsOf returns the traits of a release.
//
// Errors: the release is not known.
func TraitsOf(release string) (Traits, error) {
	number := release
	if release == Debian {
		number = "3.8.0"
	}
	minor, patch, ok := parseRelease(number)
	if !ok {
		return Traits{}, fmt.Errorf("zktest: release %q is not known: want 3.8, 3.9 or a number such as 3.9.2", release)
	}
	since := func(in38, in39 int) bool { return minor == 8 && patch >= in38 || minor == 9 && patch >= in39 }
	const never = 1 << 16
	return Traits{
		Number:            fmt.Sprintf("3.%d.%d", minor, patch),
		Create2InMulti:    since(2, 0),
		FailsWithBody:     !since(never, 0),
		ExistsNeedsRead:   since(4, 2),
		EventsNeedRead:    since(4, 2) || release == Debian,
		MissedNeedRead:    since(7, 6),
		NoCheck:           since(5, 3),
		EventZxid:         since(never, 0),
		DeletesContainers: since(never, 0) && !since(never, 6),
		ShunsReapers:      since(7, 6),
		WatchesAddUp:      since(never, 0),
		ReadsFirst:        since(never, 0),
		ReadOnlyFlagEver:  since(never, 0) && !since(never, 3),
		IPv6:              since(never, 4),
	}, nil
}

func parseRelease(number string) (minor, patch int, ok bool) {
	major, rest, _ := strings.Cut(number, ".")
	first, second, three := strings.Cut(rest, ".")
	minor, ok = digits(first)
	patch, known := newest[minor]
	if three && ok {
		patch, ok = digits(second)
	}
	return minor, patch, major == "3" && known && ok
}

// digits parses a number without a sign.
func digits(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err == nil
}
