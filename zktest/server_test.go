package zktest

import (
	"io"
	"math"
	"net"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRun_OnTheLoopback_ServesAndAnswersWords(t *testing.T) {
	s := Run(t)
	r := attachTCP(t, s.Addr())
	_, code := r.create("/a", Persistent)
	require.Equal(t, CodeOK, code)
	r.run(OpExists, watchBody("/a", true))
	for word, want := range map[string]string{
		"ruok": "^imok$",
		"isro": "^rw$",
		"envi": "zookeeper.version=3.9.6-zktest, built on 2000-01-01 00:00 UTC\njava.version=none\n$",
		"srvr": "^Zookeeper version: (?s:.*)\nMode: standalone\nNode count: 6\n$",
		"stat": `Clients:\n /127.0.0.1:\d+\[1\]\(queued=0,recved=\d+,sent=\d+\)\n`,
		"wchs": "^1 connections watching 1 paths\nTotal watches:1\n$",
		"wchp": "^/a\n\t0x[0-9a-f]+\n\n$",
		"wchc": "^0x[0-9a-f]+\n\t/a\n\n$",
		"conf": "\ntickTime=2000\nmaxClientCnxns=0\nminSessionTimeout=4000\nmaxSessionTimeout=40000\n",
		"mntr": "\nzk_ephemerals_count\t0\n(?s:.*)\nzk_znode_count\t6\n(?s:.*)\nzk_watch_count\t1\n",
		"dump": `^SessionTracker dump:\nSession Sets \(1\)/\(1\):\n1 expire at .*:\n\t0x[0-9a-f]+\nephemeral nodes ` +
			`dump:\nSessions with Ephemerals \(0\):\n`,
		"cons": `sid=0x[0-9a-f]+,lop=EXIS,est=\d+,to=10000,lcxid=0x2,lzxid=0x2,lresp=\d+,llat=0,`,
	} {
		require.Regexp(t, want, askWord(t, s, word), word)
	}
	require.Equal(t, "Connection stats reset.\n", askWord(t, s, "crst"))
	require.Regexp(t, `\[1\]\(queued=0,recved=0,sent=0,sid=0x[0-9a-f]+,lop=NA,`, askWord(t, s, "cons"))
	require.Equal(t, "7", askWord(t, s, "stmk\x00\x00\x00\x00\x00\x00\x00\x07"))
	require.Equal(t, "7", askWord(t, s, "gtmk"))
	require.Equal(t, "Server stats reset.\n", askWord(t, s, "srst"))
	require.Contains(t, askWord(t, s, "srvr"), "\nReceived: 1\nSent: 0\n")
}

func TestFourLetterWords_NotOnTheList_AreRefused(t *testing.T) {
	s := Run(t, WithFourLetterWords("ruok"))
	require.Equal(t, "imok", askWord(t, s, "ruok"))
	require.Contains(t, askWord(t, s, "srvr"), "Mode: standalone\n")
	for _, word := range []string{"mntr", "isro", "stmk"} {
		require.Equal(t, word+" is not executed because it is not in the whitelist.\n", askWord(t, s, word))
	}
	require.Equal(t, "imok", askWord(t, Run(t, WithFourLetterWords("*")), "ruok"), "as in zoo.cfg")
	require.Equal(t, "rw", askWord(t, Run(t, WithFourLetterWords(), WithReadOnlyMode()), "isro"),
		"read-only mode allows it")
}

func askWord(t *testing.T, s *Server, word string) string {
	t.Helper()
	return askWordAt(t, s.Addr(), word)
}

func askWordAt(t *testing.T, addr, word string) string {
	t.Helper()
	nc := dialTCP(t, addr)
	_, err := nc.Write([]byte(word))
	require.NoError(t, err)
	p, err := io.ReadAll(nc)
	require.NoError(t, err)
	return string(p)
}

func TestAddr_InMemory_RefusesRealConnections(t *testing.T) {
	s := Run(t, InMemory())
	_, err := net.Dial("tcp", s.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestServe_EndsWithTheServer(t *testing.T) {
	s, err := Start()
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.ServeAs("a", l) }()
	r := attachTCP(t, l.Addr().String())
	require.Equal(t, "a", s.Sessions()[0].Client)
	s.Refuse(Label("a"))
	nc, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	_, err = nc.Read(make([]byte, 1))
	require.Error(t, err)
	s.Close()
	require.NoError(t, <-served)
	r.closed()
	require.NoError(t, s.Serve(l), "closed already")
}

func TestStart_BadOptions_AreErrors(t *testing.T) {
	for want, o := range map[string]Option{
		"option 0 is nil":                         nil,
		"tick time 0s: want 1ms to 298h":          WithTickTime(0),
		"interval 0s is not positive":             WithContainerCheck(0),
		"never used for -1s: want 0 or more":      WithMaxNeverUsed(-time.Second),
		"0 bytes: want 1 to 2147483647":           WithMaxBuffer(0),
		"-5 bytes: want 1 to 2147483647":          WithMaxBuffer(-5),
		"latency -1ns, write latency 0s: want 0":  WithLatency(-1),
		"latency 0s, write latency -1ns: want 0":  WithWriteLatency(-1),
		"a history of -1 transactions: want 0":    WithHistory(-1),
		"timeouts of 2s to 1s: want the shortest": WithSessionTimeouts(2*time.Second, time.Second),
		"timeouts of -2s to -1s: want":            WithSessionTimeouts(-2*time.Second, -time.Second),
		"timeouts of 1µs to 1s: want":             WithSessionTimeouts(time.Microsecond, time.Second),
		"timeouts of 4s to 1s: want":              WithSessionTimeouts(0, time.Second),
		"tick time 720h0m0s: want 1ms to 298h":    WithTickTime(30 * 24 * time.Hour),
		"timeouts of 720h0m0s to 1440h0m0s: want": WithSessionTimeouts(30*24*time.Hour, 60*24*time.Hour),
		"super user \"root\": want user:password": WithSuperUser("root"),
		"256 fronts: want 1 to 255":               WithFronts(256),
		"the address to listen on is empty: want": WithListener(""),
		"missing port in address":                 WithListener("nonsense"),
	} {
		_, err := Start(o)
		require.ErrorContains(t, err, want)
	}
	_, err := Start(InMemory(), nil)
	require.ErrorContains(t, err, "option 1 is nil")
	if tooLarge := int64(math.MaxInt32) + 1; strconv.IntSize == 64 {
		_, err := Start(InMemory(), WithMaxBuffer(int(tooLarge)))
		require.ErrorContains(t, err, "2147483648 bytes: want 1 to 2147483647")
	}
}

func TestHistory_KeepsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory(), WithHistory(3))
		r := attachRaw(t, s, "me", 10*time.Second)
		for _, path := range []string{"/a", "/b", "/c"} {
			r.make(path, Ephemeral)
		}
		r.run(OpCreate, createBody("/c", Persistent))
		h := s.History()
		require.Len(t, h, 3)
		require.Equal(t, Txn{
			Zxid: 4, Time: h[1].Time, Session: r.session, Client: "me", Op: OpCreate, Path: "/c",
			Changes: []Change{{Kind: ChangeCreate, Path: "/c", Owner: r.session}},
		}, h[1])
		require.Equal(t, CodeNodeExists, h[2].Err)
		require.Equal(t, "create", h[1].Changes[0].Kind.String())
	})
}

func TestInspect_ShowsTreeSessionsAndNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Run(t, InMemory())
		r := attachRaw(t, s, "me", 10*time.Second)
		r.make("/a", Persistent)
		r.make("/a/e", Ephemeral)
		r.make("/ab", Persistent)
		var paths []string
		for _, n := range s.Tree("/") {
			paths = append(paths, n.Path)
		}
		require.Equal(t, []string{"/", "/a", "/a/e", "/ab"}, paths)
		require.Len(t, s.Tree("/a"), 2)
		require.Len(t, s.Tree("/zookeeper"), 3)
		require.Equal(t, []string{"/a/e"}, s.Ephemerals(r.session))
		require.Equal(t, r.session, s.SessionOf("me"))
		require.Zero(t, s.SessionOf("you"))
		require.Equal(t, []string{"e"}, s.Children("/a"))
		_, ok := s.Node("/none")
		require.False(t, ok)
		require.Empty(t, s.Violations())
	})
}
