package zkserver

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// FourLetter sends one of ZooKeeper's four-letter words, such as "wchs", and returns the answer.
func (s *Server) FourLetter(word string) (string, error) {
	first, _, _ := strings.Cut(s.Addr(), ",")
	conn, err := net.DialTimeout("tcp", first, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// Figures returns the numbers that the server reports about itself, as mntr names them.
func (s *Server) Figures() (map[string]int, error) {
	answer, err := s.FourLetter("mntr")
	if err != nil {
		return nil, err
	}
	figures := map[string]int{}
	for line := range strings.Lines(answer) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			figures[name] = int(n)
		}
	}
	if len(figures) == 0 {
		return nil, fmt.Errorf("not serving: %s", strings.TrimSpace(answer))
	}
	return figures, nil
}

// Version returns the version that the server reports: the number of its release, a hyphen, and the commit that it was
// built from.
func (s *Server) Version() (string, error) {
	answer, err := s.FourLetter("srvr")
	if err != nil {
		return "", err
	}
	version, _, _ := strings.Cut(answer, ",")
	version, found := strings.CutPrefix(version, "Zookeeper version: ")
	if !found {
		return "", fmt.Errorf("not serving: %s", strings.TrimSpace(answer))
	}
	return version, nil
}

// Mode returns "standalone", "leader" or "follower". It returns an error if the server does not serve.
func (s *Server) Mode() (string, error) {
	answer, err := s.FourLetter("srvr")
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(answer, "\nMode: ")
	if !ok {
		return "", fmt.Errorf("not serving: %s", strings.TrimSpace(answer))
	}
	mode, _, _ := strings.Cut(rest, "\n")
	return mode, nil
}
