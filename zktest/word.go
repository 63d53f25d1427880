package zktest

import (
	"fmt"
	"strings"
)

// knownWords are the four-letter words of ZooKeeper. Those that [Server.answerWord] does not know are answered as by a
// server that does not have them on its whitelist.
var knownWords = map[string]bool{
	"conf": true, "cons": true, "crst": true, "dirs": true, "dump": true, "envi": true, "gtmk": true, "hash": true,
	"isro": true, "lsnp": true, "mntr": true, "ruok": true, "srst": true, "srvr": true, "stat": true, "stmk": true,
	"wchc": true, "wchp": true, "wchs": true,
}

// answerWord answers an administrator and closes the connection.
func (s *Server) answerWord(c *conn, word string) {
	s.lock()
	defer s.unlock()
	if c.dead {
		return
	}
	switch word {
	case "ruok":
		c.sendText("imok")
	case "isro":
		c.sendText("rw")
	case "srvr":
		c.sendText("Zookeeper version: " + s.version() + "\n" + s.summary())
	case "envi": // where kazoo looks for the version
		c.sendText("Environment:\nzookeeper.version=" + s.version() + "\n")
	case "wchs":
		w := s.dataWatches
		c.sendText(fmt.Sprintf("%d connections watching %d paths\nTotal watches:%d\n",
			len(w.conns), len(w.paths), w.count()))
	default:
		c.sendText(word + " is not executed because it is not in the whitelist.\n")
	}
	s.release(c, flush)
}

func (s *Server) version() string {
	return s.cfg.traits.number + "-zktest, built on 01/01/2000 00:00 UTC"
}

// summary is what srvr says after the version, line for line as ZooKeeper writes it.
func (s *Server) summary() string {
	connections := 0
	for c := range s.conns {
		if !c.dead {
			connections++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\n",
		s.received, s.received, connections)
	fmt.Fprintf(&b, "Outstanding: 0\nZxid: %#x\nMode: standalone\nNode count: %d\n", s.zxid, len(s.tree.nodes)+1)
	return b.String()
}
