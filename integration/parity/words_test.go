package parity

import (
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// The answers to four-letter words are compared with numbers, build names and addresses masked. The words in this table
// are compared up to the mask; of mntr, each line of zktest must be one of the real server's.
var wordMasks = map[string][]string{
	"ruok": nil, "isro": nil, "crst": nil, "srst": nil, "gtmk": nil, "wchs": nil,
	"srvr": {`version: .*`, `max: .*`, `Received: .*`, `Sent: .*`},
	"stat": {`version: .*`, `max: .*`, `Received: .*`, `Sent: .*`, `recved=\d+`, `sent=\d+`, `:\d+`, ` /127.*\[0\].*\n`},
	"conf": {`clientPort=.*`, `Dir=.*`, `Size=.*`},
	"cons": {
		`:\d+`, `0x1[0-9a-f]{14}`, `lresp=\d+`, `est=\d+`, `(min|max|avg|l)lat=\d+`, `recved=\d+`, `sent=\d+`,
		` /127.*\[0\].*\n`,
	},
	"wchp": {`0x1[0-9a-f]{14}`},
	"wchc": {`0x1[0-9a-f]{14}`},
	"dump": {`0x1[0-9a-f]{14}`, `\d+ expire at .*\n`, `Sets .*`, `\tip: .*\n`},
}

func TestWords_ZktestAgreesWithReal(t *testing.T) {
	s := zkserver.Start(t, zkserver.WithTickTime(2*time.Second))
	addrs := [2]string{s.Addr(), zktest.Run(t, zktest.WithTickTime(2*time.Second),
		zktest.WithRelease(release(t, s))).Addr()}
	for _, addr := range addrs {
		r := newRun(addr)
		t.Cleanup(r.finish)
		if err := r.makeRoot(); err != nil {
			t.Fatal(err)
		}
		for _, o := range []Op{
			{Code: stepConnect, Timeout: 30_000},
			{Code: opCreate, Path: "!/e", Flags: 1},
			{Code: opExists, Path: "!/e", Watch: true},
			{Code: opGetData, Path: "!/", Watch: true},
		} {
			var got []string
			if err := r.perform([]Op{o}, &got); err != nil {
				t.Fatal(err)
			}
		}
	}
	roots := regexp.MustCompile(`/d\d{8}`)
	for _, word := range slices.Sorted(maps.Keys(wordMasks)) {
		var got [2]string
		// On a busy machine, the server may not have turned to a connection again after its latest request.
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			for i, addr := range addrs {
				answer := roots.ReplaceAllString(fourLetter(t, addr, word), "/dN")
				for _, mask := range wordMasks[word] {
					answer = regexp.MustCompile(mask).ReplaceAllString(answer, "")
				}
				lines := strings.Split(answer, "\n")
				slices.Sort(lines) // watches and sessions are in a hash table
				got[i] = strings.Join(lines, "\n")
			}
			if got[0] == got[1] || time.Now().After(end) {
				break
			}
		}
		if got[0] != got[1] {
			t.Errorf("%s:\nzookeeper\n%s\nzktest\n%s", word, got[0], got[1])
		}
	}
	for _, word := range []string{"stmk\x00\x00\x00\x00\x00\x00\x00\x07", "gtmk"} {
		for _, addr := range addrs {
			if answer := fourLetter(t, addr, word); answer != "7" {
				t.Errorf("%.4s of %s: %q", word, addr, answer)
			}
		}
	}
	theirs := fourLetter(t, addrs[0], "mntr")
	for line := range strings.Lines(fourLetter(t, addrs[1], "mntr")) {
		if key, _, _ := strings.Cut(line, "\t"); !strings.Contains(theirs, key+"\t") {
			t.Errorf("mntr of zktest has a line of its own: %s", line)
		}
	}
	for _, line := range []string{
		"zk_server_state\tstandalone\n", "zk_ephemerals_count\t1\n", "zk_znode_count\t7\n",
		"zk_watch_count\t2\n",
	} {
		for _, addr := range addrs {
			if answer := fourLetter(t, addr, "mntr"); !strings.Contains(answer, line) {
				t.Errorf("mntr of %s lacks %q:\n%s", addr, line, answer)
			}
		}
	}
}

func fourLetter(t *testing.T, addr, word string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprint(c, word); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
