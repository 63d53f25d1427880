package wire

import (
	"encoding/binary"
	"io"
	"log"
	"net"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes"
)

// TestFrames_AreTheLibrarys compares our frames with what the library would have sent, byte for byte after the xid.
func TestFrames_AreTheLibrarys(t *testing.T) {
	acl := []zk.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}, {Perms: 1, Scheme: "digest", ID: "u:p"}}
	ops := []any{
		&zk.CreateRequest{Path: "/m-", Data: []byte("d"), Acl: acl, Flags: 3}, &zk.CreateRequest{Path: "/ü"},
		&zk.SetDataRequest{Path: "/s", Data: []byte{}, Version: 7}, &zk.SetDataRequest{Path: "/s", Version: -1},
		&zk.DeleteRequest{Path: "/d", Version: -1}, &zk.CheckVersionRequest{Path: "/c", Version: 2},
	}
	for name, test := range map[string]struct {
		ours []byte
		call func(*zk.Conn) error
	}{
		"create": {
			CreateFrame(OpCreate, &zk.CreateRequest{Path: "/a-", Data: []byte("data"), Acl: acl, Flags: 3}),
			func(z *zk.Conn) error { _, err := z.Create("/a-", []byte("data"), 3, acl); return err },
		},
		"create without data": {
			CreateFrame(OpCreate, &zk.CreateRequest{Path: "/a", Acl: acl}),
			func(z *zk.Conn) error { _, err := z.Create("/a", nil, 0, acl); return err },
		},
		"container": {
			CreateFrame(OpCreateContainer, &zk.CreateRequest{Path: "/a", Data: []byte{}, Acl: acl, Flags: 4}),
			func(z *zk.Conn) error { _, err := z.CreateContainer("/a", []byte{}, 4, acl); return err },
		},
		"time to live": {
			CreateTTLFrame(&zk.CreateRequest{Path: "/a", Data: []byte("x"), Acl: acl, Flags: 5}, 1500),
			func(z *zk.Conn) error {
				_, err := z.CreateTTL("/a", []byte("x"), 5, acl, 1500*time.Millisecond)
				return err
			},
		},
		"get":    {ReadFrame(OpGetData, "/a", true), func(z *zk.Conn) error { _, _, _, err := z.GetW("/a"); return err }},
		"exists": {ReadFrame(OpExists, "/a", false), func(z *zk.Conn) error { _, _, err := z.Exists("/a"); return err }},
		"set": {
			SetFrame("/a", []byte("x"), 3),
			func(z *zk.Conn) error { _, err := z.Set("/a", []byte("x"), 3); return err },
		},
		"sync":   {SyncFrame("/a"), func(z *zk.Conn) error { _, err := z.Sync("/a"); return err }},
		"delete": {DeleteFrame("/a", -1), func(z *zk.Conn) error { return z.Delete("/a", -1) }},
		"children": {
			ReadFrame(OpChildren, "/a", false),
			func(z *zk.Conn) error { _, _, err := z.Children("/a"); return err },
		},
		"acl":     {ACLFrame("/a"), func(z *zk.Conn) error { _, _, err := z.GetACL("/a"); return err }},
		"set acl": {SetACLFrame("/a", acl, 3), func(z *zk.Conn) error { _, err := z.SetACL("/a", acl, 3); return err }},
		"multi":   {MultiFrame(ops), func(z *zk.Conn) error { _, err := z.Multi(ops...); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z, far := library(t)
				go func() { _ = test.call(z) }() // there is no answer
				theirs := received(t, far)
				require.Len(t, test.ours, len(theirs))
				require.Equal(t, theirs[8:], test.ours[8:])
			})
		})
	}
}

// library returns a library object that takes the other side for its server.
func library(t *testing.T) (*zk.Conn, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	first := make(chan net.Conn, 1)
	first <- near
	z, _, err := zk.Connect([]string{"127.0.0.1"}, time.Minute, zk.WithLogger(log.New(io.Discard, "", 0)),
		zk.WithDialer(func(string, string, time.Duration) (net.Conn, error) {
			select {
			case c := <-first:
				return c, nil
			default:
				return nil, net.ErrClosed
			}
		}))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, far.Close())
		z.Close()
	})
	received(t, far)
	answer := appendInt32(appendInt32(make([]byte, PrefixSize), 0), 60_000)
	answer = appendBuffer(binary.BigEndian.AppendUint64(answer, 1), make([]byte, 16))
	_, err = far.Write(seal(answer))
	require.NoError(t, err)
	return z, far
}

func received(t *testing.T, c net.Conn) []byte {
	t.Helper()
	head := make([]byte, PrefixSize)
	_, err := io.ReadFull(c, head)
	require.NoError(t, err)
	frame := slices.Concat(head, make([]byte, int32At(head, 0)))
	_, err = io.ReadFull(c, frame[PrefixSize:])
	require.NoError(t, err)
	return frame
}

var (
	statOf2  = append(make([]byte, statSize-1), 2) // the last field is the pzxid
	dataOf3  = slices.Concat(appendString(nil, "xyz"), statOf2)
	eventOfA = appendString(appendInt32(appendInt32(nil, int32(zk.EventNodeDeleted)), 3), "/a")
	listOf2  = slices.Concat(appendString(appendString(appendInt32(nil, 2), "a"), "bc"), statOf2)
	multiOf3 = appendMultiHeader(slices.Concat(appendString(appendMultiHeader(nil, OpCreate, false), "/p"),
		appendMultiHeader(nil, OpDelete, false), appendMultiHeader(nil, OpSetData, false), statOf2), -1, true)
	multiError = appendMultiHeader(slices.Concat(
		appendInt32(appendMultiHeader(nil, -1, false), 0), appendInt32(appendMultiHeader(nil, -1, false), -101),
		appendInt32(appendMultiHeader(nil, -1, false), -2)), -1, true)
)

func TestReplies(t *testing.T) {
	path, err := CreateReply(appendString(nil, "/a"))
	require.NoError(t, err)
	require.Equal(t, "/a", path)
	path, err = CreateReply(slices.Concat(appendString(nil, "/a"), statOf2))
	require.NoError(t, err, "of a container")
	require.Equal(t, "/a", path)

	d, err := DataReply(dataOf3)
	require.NoError(t, err)
	require.Equal(t, "xyz", string(d.Bytes))
	require.EqualValues(t, 2, d.Stat.Pzxid)
	d, err = DataReply(slices.Concat(appendInt32(nil, -1), statOf2))
	require.NoError(t, err)
	require.Nil(t, d.Bytes)
	d, err = DataReply(slices.Concat(appendInt32(nil, 0), statOf2))
	require.NoError(t, err)
	require.Equal(t, []byte{}, d.Bytes, "which is not the same as none")
	stat, err := StatReply(statOf2)
	require.NoError(t, err)
	require.EqualValues(t, 2, stat.Pzxid)
	e, err := EventOf(eventOfA)
	require.NoError(t, err)
	require.Equal(t, zk.Event{Type: zk.EventNodeDeleted, State: 3, Path: "/a"}, e)

	f, err := ChildrenReply(listOf2)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "bc"}, f.Names)
	require.EqualValues(t, 2, f.Stat.Pzxid)
	f, err = ChildrenReply(slices.Concat(appendInt32(nil, -1), statOf2))
	require.NoError(t, err, "a vector that is null")
	require.Empty(t, f.Names)

	acl, err := ACLReply(slices.Concat(appendString(appendString([]byte{0, 0, 0, 1, 0, 0, 0, 31}, "sasl"), "bob"),
		statOf2))
	require.NoError(t, err)
	require.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "bob"}}, acl.List)
	require.EqualValues(t, 2, acl.Stat.Pzxid)

	responses, err := MultiReply(multiOf3, 3)
	require.NoError(t, err)
	require.Len(t, responses, 3)
	require.Equal(t, "/p", responses[0].String)
	require.EqualValues(t, 2, responses[2].Stat.Pzxid)
	responses, err = MultiReply(multiError, 3)
	require.ErrorIs(t, err, zk.ErrNoNode, "that of the culprit")
	require.NoError(t, responses[0].Error)
	require.ErrorIs(t, responses[1].Error, zk.ErrNoNode)
	require.ErrorIs(t, responses[2].Error, zkrecipes.Code(-2))
}

// A reply must not take many times its size in memory: absurd contents are refused while they are read.
func TestReplies_Absurd_AreRefusedWhileTheyAreRead(t *testing.T) {
	var results []byte
	for range 1_000_000 {
		results = appendMultiHeader(results, OpDelete, false)
	}
	names := append(appendInt32(nil, 2_000_000), make([]byte, 8_000_000)...)
	for name, read := range map[string]func() error{
		"more results than operations": func() error { _, err := MultiReply(results, 1); return err },
		"names without a letter":       func() error { _, err := ChildrenReply(names); return err },
		"more entries than fit":        func() error { _, err := ACLReply(names); return err },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.ErrorIs(t, read(), ErrGarbled, name)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(len(results)), name)
	}
}

// FuzzReplies searches for bodies that make a reply unreadable other than by an error, or that are decoded although
// they are incomplete.
func FuzzReplies(f *testing.F) {
	for _, body := range [][]byte{
		nil, appendString(nil, "/a"), listOf2, multiOf3, multiError, dataOf3, statOf2, eventOfA,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for name, read := range map[string]func([]byte) error{
			"create":   func(b []byte) error { _, err := CreateReply(b); return err },
			"children": func(b []byte) error { _, err := ChildrenReply(b); return err },
			"acl":      func(b []byte) error { _, err := ACLReply(b); return err },
			"data":     func(b []byte) error { _, err := DataReply(b); return err },
			"stat":     func(b []byte) error { _, err := StatReply(b); return err },
			"event":    func(b []byte) error { _, err := EventOf(b); return err },
			"multi": func(b []byte) error {
				responses, err := MultiReply(b, 3)
				if responses != nil {
					return nil // the error of an op
				}
				return err
			},
		} {
			if read(body) != nil {
				continue
			}
			if len(body) > 0 && name != "create" {
				require.ErrorIs(t, read(body[:len(body)-1]), ErrGarbled, name)
			}
			require.ErrorIs(t, read(append(slices.Clone(body), 0)), ErrGarbled, name)
		}
	})
}

func int32At(b []byte, at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }

// The library has no calls for these two.
func TestWatchFrames(t *testing.T) {
	require.Equal(t, []byte("\x00\x00\x00\x2e"+"\x00\x00\x00\x00"+"\x00\x00\x00\x65"+
		"\x00\x00\x00\x00\x00\x00\x01\x02"+"\x00\x00\x00\x02"+"\x00\x00\x00\x02/a"+"\x00\x00\x00\x02/b"+
		"\x00\x00\x00\x00"+"\x00\x00\x00\x01"+"\x00\x00\x00\x02/c"),
		SetWatchesFrame(0x102, []string{"/a", "/b"}, nil, []string{"/c"}))
	require.Equal(t,
		[]byte("\x00\x00\x00\x12"+"\x00\x00\x00\x00"+"\x00\x00\x00\x12"+"\x00\x00\x00\x02/a"+"\x00\x00\x00\x03"),
		RemoveWatchesFrame("/a", AnyWatch))
}

// A truncated reply is an error wherever it ends: what is missing must not read as zeros.
func TestReplies_CutOff_AreGarbled(t *testing.T) {
	connect := []byte{0, 0, 0, 0, 0, 0, 39, 16, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 2, 'p', 'w'}
	data := append([]byte{0, 0, 0, 2, 'h', 'i'}, make([]byte, statSize)...)
	one := appendString(appendString([]byte{0, 0, 0, 1, 0, 0, 0, 31}, "world"), "anyone")
	for name, tt := range map[string]struct {
		body   []byte
		decode func(body []byte) error
	}{
		"connect": {connect, func(b []byte) error { _, err := ConnectReply(b); return err }},
		"header":  {make([]byte, ReplyHeaderSize), func(b []byte) error { _, _, err := ReadHeader(b); return err }},
		"data":    {data, func(b []byte) error { _, err := DataReply(b); return err }},
		"stat":    {make([]byte, statSize), func(b []byte) error { _, err := StatReply(b); return err }},
		"create":  {[]byte{0, 0, 0, 2, '/', 'a'}, func(b []byte) error { _, err := CreateReply(b); return err }},
		"children": {
			append([]byte{0, 0, 0, 1, 0, 0, 0, 1, 'a'}, make([]byte, statSize)...),
			func(b []byte) error { _, err := ChildrenReply(b); return err },
		},
		"acl": {slices.Concat(one, make([]byte, statSize)), func(b []byte) error { _, err := ACLReply(b); return err }},
	} {
		require.NoError(t, tt.decode(tt.body), name)
		for n := range len(tt.body) {
			require.ErrorIs(t, tt.decode(tt.body[:n]), ErrGarbled, "%s: %d bytes", name, n)
		}
	}
}

// TestChildrenReply_NamesAreOneBlock: besides the reply, a list takes its names once, and their headers.
func TestChildrenReply_NamesAreOneBlock(t *testing.T) {
	const name, size = "_c_01234567-89ab-4cde-8f01-23456789abcd-lock-0000000000", 64 << 20
	n := size / (len(name) + 4)
	body := appendInt32(make([]byte, 0, size+statSize), int32(n))
	for range n {
		body = appendString(body, name)
	}
	body = append(body, make([]byte, statSize)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list, err := ChildrenReply(body)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Len(t, list.Names, n)
	require.Equal(t, name, list.Names[n-1])
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size)*7/5)
}
