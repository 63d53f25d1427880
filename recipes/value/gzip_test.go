package value_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zktest"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	require.NoError(t, err)
	return b
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(data)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

// The bytes are those of GzipCompressionProvider of Curator 5.9.0.
func TestGzip_ReadsCurators(t *testing.T) {
	for want, data := range map[string]string{
		"":             "1f8b08000000000000ff03000000000000000000",
		`{"limit":10}`: "1f8b08000000000000ffab56cac9cccd2c51b23234a805007d2559fe0c000000",
	} {
		got, err := value.Gzip(value.Text()).Decode(unhex(t, data))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestGzip_Decode(t *testing.T) {
	codec := value.Gzip(value.Text())
	good, largest := zipped(t, []byte("hello")), zipped(t, make([]byte, 16<<20))
	for name, tt := range map[string]struct {
		data []byte
		want string
		err  string
	}{
		"no data":          {nil, "", ""},
		"one member":       {good, "hello", ""},
		"two members":      {append(bytes.Clone(good), good...), "hellohello", ""},
		"plain":            {[]byte("hello world"), "", "want gzip"},
		"cut off":          {good[:len(good)-1], "", "want gzip"},
		"header alone":     {good[:10], "", "want gzip"},
		"something behind": {append(bytes.Clone(good), "something that is no gzip"...), "", "want gzip"},
		"wrong sum":        {append(bytes.Clone(good[:len(good)-8]), 0, 0, 0, 0, 5, 0, 0, 0), "", "want gzip"},
		"the largest":      {largest, strings.Repeat("\x00", 16<<20), ""},
		"too large":        {zipped(t, make([]byte, 16<<20+1)), "", "exceeds 16777216 bytes"},
		"too large in two": {append(bytes.Clone(largest), good...), "", "exceeds 16777216 bytes"},
	} {
		got, err := codec.Decode(tt.data)
		if tt.err != "" {
			require.ErrorContains(t, err, tt.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.True(t, tt.want == got, name)
	}
	number, err := value.Gzip(value.AtomicLong()).Decode(nil)
	require.NoError(t, err)
	require.Zero(t, number)
	_, err = value.Gzip(value.JSON[int]()).Decode(nil)
	require.ErrorContains(t, err, "the node is empty")
}

func TestGzip_Encode(t *testing.T) {
	text := value.Gzip(value.Text())
	_, err := text.Encode(strings.Repeat("x", 16<<20+1))
	require.ErrorContains(t, err, "want at most 16777216")
	why := errors.New("no")
	_, err = value.Gzip(value.Codec[int]{
		Encode: func(int) ([]byte, error) { return nil, why }, Decode: value.JSON[int]().Decode,
	}).Encode(1)
	require.ErrorIs(t, err, why)
	first, err := text.Encode("hello")
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			again, err := text.Encode("hello")
			require.NoError(t, err)
			require.Equal(t, first, again, "equal values are equal bytes, by which a lost reply is resolved")
		})
	}
	all.Wait()
}

// A megabyte that would become a gigabyte takes a few times the limit.
func TestGzip_SmallNode_TakesLittleMemory(t *testing.T) {
	var megabyte bytes.Buffer
	z := gzip.NewWriter(&megabyte)
	_, err := z.Write(make([]byte, 1<<20))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	bomb := bytes.Repeat(megabyte.Bytes(), 1<<10) // the format allows for several streams, one after the other
	require.Less(t, len(bomb), 1100<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = value.Gzip(value.Bytes()).Decode(bomb)
	runtime.ReadMemStats(&after)
	require.ErrorContains(t, err, "exceeds")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128<<20))
}

// A value that would not fit in a node is shared, and read through a cache.
func TestGzip_ValueAndCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.Run(t, zktest.InMemory())
		c := bubble.Dial(t, srv, "a")
		codec := value.Gzip(value.JSON[map[string]string]())
		v, err := value.New(c, "/app/config", codec)
		require.NoError(t, err)
		_, err = value.New(c, "/x", value.Gzip(value.Codec[int]{}))
		require.ErrorContains(t, err, "lacks a function")
		want := map[string]string{"long": strings.Repeat("text ", 1<<20)}
		_, err = v.Set(t.Context(), want)
		require.NoError(t, err)
		n, _ := srv.Node("/app/config")
		require.Less(t, len(n.Data), 32<<10)
		got, _, err := v.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)

		settings := decoded(t, c, codec)
		e, ok := settings.Get("/app/config")
		require.True(t, ok)
		require.NoError(t, e.Err)
		require.Equal(t, want, e.Value)
	})
}

func decoded(t *testing.T, c *conn.Client, codec value.Codec[map[string]string]) *cache.Typed[map[string]string] {
	t.Helper()
	tree, err := cache.Tree(c, "/app")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tree.Close(context.Background())) })
	require.NoError(t, tree.Ready(t.Context()))
	typed, err := cache.As(tree, func(e cache.Entry) (map[string]string, error) { return codec.Decode(e.Data) })
	require.NoError(t, err)
	return typed
}

// FuzzGzip checks that reading foreign bytes yields an error or a value within the limit, and never panics.
func FuzzGzip(f *testing.F) {
	f.Add(zipped(f, []byte("hello")))
	f.Add(unhex(f, "1f8b08000000000000ff03000000000000000000"))
	f.Fuzz(func(t *testing.T, data []byte) {
		codec := value.Gzip(value.Text())
		x, err := codec.Decode(data)
		if err != nil {
			return
		}
		encoded, err := codec.Encode(x)
		require.NoError(t, err)
		again, err := codec.Decode(encoded)
		require.NoError(t, err)
		require.Equal(t, x, again)
	})
}
