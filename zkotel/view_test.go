package zkotel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/cache"
	"github.com/zkrecipes/zkrecipes/recipes/group"
	"github.com/zkrecipes/zkrecipes/recipes/node"
	"github.com/zkrecipes/zkrecipes/recipes/value"
	"github.com/zkrecipes/zkrecipes/zkotel"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// collect returns the values of all metrics, by the metric's name, the recipe and the view's name.
func collect(t *testing.T, reader sdkmetric.Reader) map[string]float64 {
	t.Helper()
	synctest.Wait()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	values := map[string]float64{}
	key := func(name string, of attribute.Set) string {
		recipe, _ := of.Value("zkrecipes.recipe")
		view, _ := of.Value("zkrecipes.name")
		return name + " " + recipe.AsString() + " " + view.AsString()
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					values[key(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[key(m.Name, p.Attributes)] = p.Value
				}
			}
		}
	}
	return values
}

func TestViews_OfACacheAndANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, path := range []string{"/app", "/app/a", "/app/b"} {
			_, err := w.srv.Create(path, []byte("x"), zktest.Persistent)
			require.NoError(t, err)
		}
		w.srv.Intercept(zktest.Match{Op: zktest.OpGetData, Path: "^/app/b$", Times: -1}, zktest.Fail(zktest.CodeNoAuth))
		c, err := cache.Tree(w.client, "/app")
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close(context.WithoutCancel(t.Context()))) }()
		n, err := node.New(w.client, "/w1", nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, n.Close(context.WithoutCancel(t.Context()))) }()
		reader := sdkmetric.NewManualReader()
		meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("program")
		ofCache, err := zkotel.Cache(meter, "settings", c)
		require.NoError(t, err)
		_, err = zkotel.Node(meter, "w1", n)
		require.NoError(t, err)
		require.NoError(t, c.Ready(t.Context()))
		require.NoError(t, n.Ready(t.Context()))
		require.Equal(t, map[string]float64{
			"zkrecipes.view.current cache settings": 1, "zkrecipes.view.age cache settings": 0,
			"zkrecipes.cache.nodes cache settings": 3, "zkrecipes.cache.size cache settings": 4,
			"zkrecipes.cache.pending cache settings": 0, "zkrecipes.cache.failed cache settings": 1,
			"zkrecipes.view.current node w1": 1, "zkrecipes.view.age node w1": 0, "zkrecipes.node.present node w1": 1,
		}, collect(t, reader))
		w.srv.Refuse(zktest.Label("a"))
		w.srv.Cut(zktest.Label("a"))
		time.Sleep(5 * time.Second)
		got := collect(t, reader)
		require.Zero(t, got["zkrecipes.view.current cache settings"])
		require.Equal(t, 5.0, got["zkrecipes.view.age cache settings"])
		require.NoError(t, ofCache.Unregister())
		got = collect(t, reader)
		require.NotContains(t, got, "zkrecipes.view.current cache settings")
		require.Contains(t, got, "zkrecipes.view.current node w1")
		w.srv.Accept(zktest.Label("a"))
		time.Sleep(time.Minute)
	})
}

func TestGroup_Metrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		workers, err := group.New(w.client, "/app")
		require.NoError(t, err)
		for _, id := range []string{"x", "y"} {
			_, err := workers.Join(t.Context(), id, nil)
			require.NoError(t, err)
		}
		reader := sdkmetric.NewManualReader()
		meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("program")
		ctx, stop := context.WithCancel(t.Context())
		registration, views, err := zkotel.Group(meter, "workers", workers.Watch(ctx))
		require.NoError(t, err)
		const current, age, members = "zkrecipes.view.current group workers",
			"zkrecipes.view.age group workers", "zkrecipes.group.members group workers"
		require.Equal(t, map[string]float64{current: 0}, collect(t, reader), "nothing is known yet")
		seen := 0
		go func() {
			for view, err := range views {
				if err == nil {
					seen = len(view.Members)
				}
			}
		}()
		time.Sleep(3 * time.Second)
		require.Equal(t, map[string]float64{current: 1, age: 0, members: 2}, collect(t, reader))
		require.Equal(t, 2, seen)
		w.srv.Refuse(zktest.Label("a"))
		w.srv.Cut(zktest.Label("a"))
		time.Sleep(5 * time.Second)
		got := collect(t, reader)
		require.Zero(t, got[current])
		require.NotZero(t, got[age])
		require.Equal(t, 2.0, got[members])
		w.srv.Accept(zktest.Label("a"))
		time.Sleep(time.Minute)
		require.Equal(t, 1.0, collect(t, reader)[current])
		stop()
		require.Zero(t, collect(t, reader)[current], "the loop is over")
		require.NoError(t, registration.Unregister())
		require.Empty(t, collect(t, reader))
	})
}

// After an error, the metrics keep the last view, whose age counts from the end of the loop.
func TestGroup_ALoopThatEndsWithAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdkmetric.NewManualReader()
		meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("program")
		_, views, err := zkotel.Group(meter, "workers", func(yield func(group.View, error) bool) {
			yield(group.View{Members: make([]group.Member, 2), Freshness: zkrecipes.Freshness{AsOf: time.Now(), Current: true}},
				nil)
			time.Sleep(3 * time.Second)
			yield(group.View{}, zkrecipes.ErrClosed)
		})
		require.NoError(t, err)
		for _, err := range views {
			if err != nil {
				require.ErrorIs(t, err, zkrecipes.ErrClosed)
			}
		}
		time.Sleep(time.Second)
		require.Equal(t, map[string]float64{
			"zkrecipes.view.current group workers": 0, "zkrecipes.view.age group workers": 1,
			"zkrecipes.group.members group workers": 2,
		}, collect(t, reader))
	})
}

func TestValue_Metrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		v, err := value.New(w.client, "/app", value.JSON[int]())
		require.NoError(t, err)
		reader := sdkmetric.NewManualReader()
		meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("program")
		_, views, err := zkotel.Value(meter, "limit", v.Watch(t.Context()))
		require.NoError(t, err)
		for range views { //nolint:errcheck // only the metrics matter
			require.Equal(t, map[string]float64{
				"zkrecipes.view.current value limit": 1, "zkrecipes.view.age value limit": 0,
			}, collect(t, reader))
			break
		}
		require.Zero(t, collect(t, reader)["zkrecipes.view.current value limit"])
	})
}

func TestViews_BadInput(t *testing.T) {
	meter := sdkmetric.NewMeterProvider().Meter("program")
	_, err := zkotel.Cache(meter, "a", nil)
	require.ErrorContains(t, err, "the cache is nil")
	_, err = zkotel.Node(meter, "a", nil)
	require.ErrorContains(t, err, "the node is nil")
	_, err = zkotel.Node(nil, "a", new(node.Node))
	require.ErrorContains(t, err, "the meter is nil")
	_, _, err = zkotel.Group(meter, "a", nil)
	require.ErrorContains(t, err, "the views of the group are nil")
	_, _, err = zkotel.Value(nil, "a", func(func(value.View[int], error) bool) {})
	require.ErrorContains(t, err, "the meter is nil")
}
