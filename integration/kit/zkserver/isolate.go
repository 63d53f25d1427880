package zkserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/zkrecipes/zkrecipes/internal/testkit/need"
)

// Isolates reports whether servers can be isolated on this machine. If not, it ends the test when REQUIRE_REAL=1.
func Isolates(tb testing.TB) bool {
	tb.Helper()
	_, err := exec.LookPath("iptables")
	can := err == nil && os.Geteuid() == 0
	if !can && need.All() {
		tb.Fatal("isolation takes root and iptables: apt-get install iptables")
	}
	return can
}

// Isolate drops every packet between a server and its peers, as a failed switch does. Clients stay connected to the
// server. The servers notice after syncLimit ticks. Isolate needs root, iptables and WithOwnUsers. Rejoin ends it.
func (e *Ensemble) Isolate(s *Server) error {
	for _, p := range e.Servers {
		if p == s {
			continue
		}
		if err := errors.Join(e.Mute(s, p), e.Mute(p, s)); err != nil {
			return err
		}
	}
	return nil
}

// Mute drops every packet that one server sends to another, but not those in the opposite direction. The deaf server
// opens no new connections to the mute one. Otherwise it is like Isolate.
//
// A rule recognizes a packet by the user that sends it and by the ports of the ensemble. Connections that the deaf
// server opened earlier are recognized by their local ports, which /proc/net/tcp lists for each user.
func (e *Ensemble) Mute(mute, deaf *Server) error {
	if mute.uid == 0 {
		return errors.New("isolate: servers share a user, start them WithOwnUsers")
	}
	if err := e.drop(
		fmt.Sprintf("-m owner --uid-owner %d -d %s -m multiport --dports %s", mute.uid, deaf.host, deaf.peer.ports()),
		fmt.Sprintf("-m owner --uid-owner %d -d %s -m multiport --dports %s --syn", deaf.uid, mute.host, mute.peer.ports()),
	); err != nil {
		return err
	}
	opened, err := openedBy(deaf.uid)
	if err != nil {
		return err
	}
	for _, port := range opened[mute.host] {
		if err := e.drop(fmt.Sprintf("-s %s --dport %d", mute.host, port)); err != nil {
			return err
		}
	}
	return nil
}

func (e *Ensemble) drop(rules ...string) error {
	for _, rule := range rules {
		if err := iptables("-A", rule); err != nil {
			return err
		}
		e.rules = append(e.rules, rule)
	}
	return nil
}

// Rejoin ends every isolation.
func (e *Ensemble) Rejoin() error {
	var err error
	for _, rule := range e.rules {
		err = errors.Join(err, iptables("-D", rule))
	}
	e.rules = nil
	return err
}

func (p peer) ports() string { return fmt.Sprintf("%d,%d", p.quorum, p.election) }

func iptables(verb, rule string) error {
	args := append([]string{"-w", verb, "OUTPUT", "-p", "tcp"}, strings.Fields(rule)...)
	if out, err := exec.Command("iptables", append(args, "-j", "DROP")...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %s %s: %w: %s", verb, rule, err, out)
	}
	return nil
}

// openedBy lists the local ports of a user's TCP connections by remote host.
func openedBy(uid int) (map[string][]int, error) {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return nil, err
	}
	opened := map[string][]int{}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line) // sl local remote st queues timer retransmits uid …
		if len(fields) < 8 || fields[7] != strconv.Itoa(uid) {
			continue
		}
		local, err := endpoint(fields[1])
		if err != nil {
			return nil, err
		}
		remote, err := endpoint(fields[2])
		if err != nil {
			return nil, err
		}
		host := remote.Addr().String()
		opened[host] = append(opened[host], int(local.Port()))
	}
	return opened, nil
}

// endpoint parses an address in the format of /proc/net/tcp: 0100007F:0050 is 127.0.0.1:80.
func endpoint(text string) (netip.AddrPort, error) {
	var ip, port uint32
	if _, err := fmt.Sscanf(text, "%08X:%04X", &ip, &port); err != nil {
		return netip.AddrPort{}, fmt.Errorf("/proc/net/tcp: %q: %w", text, err)
	}
	var host [4]byte
	binary.NativeEndian.PutUint32(host[:], ip)
	return netip.AddrPortFrom(netip.AddrFrom4(host), uint16(port)), nil
}
