package conn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// sentinel is never created. A watch on it makes the library send its watches at every connection, see link.Write.
const sentinel = "/zookeeper/zkrecipes-sentinel"

// prologueSession is the session that the library believes to have after the prologue. The link replaces it by a
// request for a new one.
const prologueSession = 1

// prologue is the first connection of every session, to nowhere: we answer it ourselves, and only to give the library
// the sentinel watch before it meets a server. For the library every connection to a server is then a reconnect, with
// watches to send, and the link can tell from their passing when it is safe to let requests through. Were the watch set
// on the first connection to a server, the library could be just about to look for watches to send, and read what
// replies to the requests behind are changing: nothing that can be seen from outside says when it is past that.
func (s *session) prologue() (net.Conn, error) {
	ours, theirs := net.Pipe()
	if !s.core.start(func() { s.serve(ours) }) || !s.core.start(s.setSentinel) {
		return nil, errors.Join(errors.New("the client is closed"), ours.Close(), theirs.Close())
	}
	return theirs, nil
}

func (s *session) setSentinel() {
	<-s.zkOK
	if _, _, _, err := s.zk.ExistsW(sentinel); err != nil {
		s.core.opts.log.Debug("zookeeper: set the sentinel watch", "error", err) // the session is over
	}
}

// serve answers the connect request, and the one request that follows, as if the node did not exist.
func (s *session) serve(c net.Conn) {
	defer func() { _ = c.Close() }() // nothing was on its way
	if err := c.SetDeadline(time.Now().Add(s.core.opts.connectTimeout)); err != nil {
		return
	}
	if _, err := readFrame(c); err != nil {
		return
	}
	connected := make([]byte, prefixSize)
	connected = appendInt32(connected, 0)
	connected = appendInt32(connected, int32(s.core.opts.sessionTimeout/time.Millisecond))
	connected = binary.BigEndian.AppendUint64(connected, prologueSession)
	connected = appendBuffer(connected, make([]byte, 16))
	if _, err := c.Write(seal(connected)); err != nil {
		return
	}
	request, err := readFrame(c)
	if err != nil {
		return
	}
	const noNode = -101
	missing := make([]byte, prefixSize)
	missing = appendInt32(missing, int32At(request, 0))
	missing = binary.BigEndian.AppendUint64(missing, 0)
	missing = appendInt32(missing, noNode)
	if _, err := c.Write(seal(missing)); err != nil {
		return
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var prefix [prefixSize]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return nil, err
	}
	size := int32At(prefix[:], 0)
	if size < 0 || size > maxConnectReply {
		return nil, fmt.Errorf("a frame of %d bytes", size)
	}
	frame := make([]byte, size)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

// asNew returns a connect request as one for a new session.
func asNew(frame []byte) []byte {
	frame = append([]byte(nil), frame...)
	clear(frame[prefixSize+16 : prefixSize+24])
	return frame
}
