package zkserver

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// superUser may do anything on servers that run WithReconfig, under the scheme "digest".
const superUser = "super:secret"

// WithReconfig allows Join and Leave to change an ensemble while it runs.
func WithReconfig() Option {
	hash := sha1.Sum([]byte(superUser)) // ZooKeeper's default
	digest := WithProperty("zookeeper.DigestAuthenticationProvider.superDigest",
		"super:"+base64.StdEncoding.EncodeToString(hash[:]))
	return func(c *config) {
		c.reconfig = true
		digest(c)
	}
}

// member returns the line of a configuration that defines the server.
func (s *Server) member() string {
	line := fmt.Sprintf("server.%d=%s:%d:%d", s.peer.id, s.host, s.peer.quorum, s.peer.election)
	if s.cfg.reconfig {
		line += ":participant;" + s.Addr()
	}
	return line
}

// Join starts another server and makes it a member of the ensemble, which must run WithReconfig.
func (e *Ensemble) Join() (*Server, error) {
	var members strings.Builder
	for _, s := range e.Servers {
		if s.Running() {
			members.WriteString(s.member() + "\n")
		}
	}
	s, err := e.add()
	if err != nil {
		return nil, err
	}
	// It must not vote until it is a member, so it starts as an observer.
	members.WriteString(strings.Replace(s.member(), ":participant;", ":observer;", 1) + "\n")
	if err := s.configure(members.String()); err != nil {
		return nil, err
	}
	if err := s.Restart(); err != nil {
		return nil, err
	}
	if err := e.reconfigure([]string{s.member()}, nil); err != nil {
		return nil, err
	}
	return s, e.WaitReady()
}

// Leave removes a server from the members of the ensemble. The server keeps serving, without a vote, until it is
// stopped.
func (e *Ensemble) Leave(s *Server) error {
	if err := e.reconfigure(nil, []string{fmt.Sprint(s.peer.id)}); err != nil {
		return err
	}
	return e.WaitReady()
}

// reconfigure changes the members. It retries until the servers that join have caught up. Repeating a change that was
// already made is not an error.
func (e *Ensemble) reconfigure(joining, leaving []string) error {
	var addresses []string
	for _, s := range e.Servers {
		if s.Running() && !slices.Contains(leaving, fmt.Sprint(s.peer.id)) {
			addresses = append(addresses, s.Addr())
		}
	}
	c, _, err := zk.Connect(addresses, 10*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.AddAuth("digest", []byte(superUser)); err != nil {
		return err
	}
	for deadline := time.Now().Add(most); ; time.Sleep(20 * time.Millisecond) {
		if _, err = c.IncrementalReconfig(joining, leaving, -1); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("reconfig %v, without %v: %w", joining, leaving, err)
		}
	}
}
