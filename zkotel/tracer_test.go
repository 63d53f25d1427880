package zkotel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/conn"
	"github.com/zkrecipes/zkrecipes/internal/testkit/bubble"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
	"github.com/zkrecipes/zkrecipes/zkotel"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// world is a client with a tracer whose spans are recorded.
type world struct {
	srv    *zktest.Server
	client *conn.Client
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer // of the program

	provider *sdk.TracerProvider
}

func newWorld(t *testing.T, opts ...zkotel.Option) *world {
	t.Helper()
	w := &world{srv: zktest.Run(t, zktest.InMemory()), spans: tracetest.NewSpanRecorder()}
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(w.spans))
	w.provider, w.tracer = provider, provider.Tracer("program")
	tracer, err := zkotel.New(append(opts, zkotel.WithTracerProvider(provider))...)
	require.NoError(t, err)
	w.client = bubble.Dial(t, w.srv, "a", conn.WithTracer(tracer))
	return w
}

func (w *world) mutex(t *testing.T) *mutex.Mutex {
	t.Helper()
	m, err := mutex.New(w.client, "/lock", mutex.WithTracerName("invoices"))
	require.NoError(t, err)
	return m
}

// ended returns the ended spans with a name, once all goroutines are idle.
func (w *world) ended(name string) (spans []sdk.ReadOnlySpan) {
	synctest.Wait()
	for _, s := range w.spans.Ended() {
		if s.Name() == name {
			spans = append(spans, s)
		}
	}
	return spans
}

func TestTracer_HoldIsLinkedToItsAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, caller := w.tracer.Start(t.Context(), "caller")
		h, err := w.mutex(t).Lock(ctx)
		require.NoError(t, err)
		require.Empty(t, w.ended("hold mutex"))
		_, work := w.tracer.Start(h.Context(), "work")
		work.End()
		time.Sleep(3 * time.Second)
		require.NoError(t, h.Release(ctx))
		caller.End()

		acquire, hold := w.ended("acquire mutex"), w.ended("hold mutex")
		require.Len(t, acquire, 1)
		require.Len(t, hold, 1)
		of := []attribute.KeyValue{
			attribute.String("zkrecipes.recipe", "mutex"), attribute.String("zkrecipes.name", "invoices"),
			attribute.String("zkrecipes.path", "/lock"), attribute.Int64("zkrecipes.token", int64(h.Token())),
		}
		require.ElementsMatch(t, append(of, attribute.Bool("zkrecipes.try", false),
			attribute.String("zkrecipes.outcome", "granted"),
			attribute.Int("zkrecipes.position", 1)), acquire[0].Attributes())
		require.ElementsMatch(t, append(of, attribute.String("zkrecipes.contender", h.Path()),
			attribute.String("zkrecipes.outcome", "released")), hold[0].Attributes())
		require.Equal(t, 3*time.Second, hold[0].EndTime().Sub(hold[0].StartTime()))
		for _, s := range []sdk.ReadOnlySpan{acquire[0], hold[0]} {
			require.Equal(t, caller.SpanContext().SpanID(), s.Parent().SpanID())
			require.Equal(t, codes.Unset, s.Status().Code)
		}
		require.Len(t, hold[0].Links(), 1)
		require.Equal(t, acquire[0].SpanContext(), hold[0].Links()[0].SpanContext)
		require.Equal(t, hold[0].SpanContext().SpanID(), w.ended("work")[0].Parent().SpanID())
	})
}

func TestTracer_WithoutASpanOfTheCaller_BeginsTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, err := w.mutex(t).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		hold := w.ended("hold mutex")[0]
		require.False(t, hold.Parent().IsValid())
		require.Equal(t, w.ended("acquire mutex")[0].SpanContext(), hold.Links()[0].SpanContext)
	})
}

// The spans of two holders, usually in two processes, can be ordered by their tokens.
func TestTracer_HandOver_TokensGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.mutex(t)
		h, err := m.Lock(t.Context())
		require.NoError(t, err)
		next := make(chan *zkrecipes.Hold, 1)
		go func() {
			h, _ := m.Lock(t.Context())
			next <- h
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		require.NoError(t, h.Release(t.Context()))
		require.NoError(t, (<-next).Release(t.Context()))
		holds := w.ended("hold mutex")
		require.Len(t, holds, 2)
		require.Less(t, attributes(holds[0])["zkrecipes.token"].AsInt64(), attributes(holds[1])["zkrecipes.token"].AsInt64())
		waited := w.ended("acquire mutex")[1]
		require.Equal(t, int64(2), attributes(waited)["zkrecipes.position"].AsInt64())
		require.Equal(t, time.Second, waited.EndTime().Sub(waited.StartTime()))
	})
}

func attributes(s sdk.ReadOnlySpan) map[attribute.Key]attribute.Value {
	found := map[attribute.Key]attribute.Value{}
	for _, a := range s.Attributes() {
		found[a.Key] = a.Value
	}
	return found
}

func TestTracer_Loss_IsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, err := w.mutex(t).Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()                              // the watch is set
		w.srv.LoseWatch(zktest.Label("a"), h.Path()) // or the server may report the deletion first
		w.srv.Expire(w.srv.SessionOf("a"))
		<-h.Done()
		hold := w.ended("hold mutex")[0]
		require.Equal(t, codes.Error, hold.Status().Code)
		require.Contains(t, hold.Status().Description, "lost (expired)")
		require.Equal(t, "expired", attributes(hold)["zkrecipes.outcome"].AsString())
	})
}

func TestTracer_Outcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.mutex(t)
		_, err := m.Lock(t.Context())
		require.NoError(t, err)
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrLocked)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = m.Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, w.client.Close())
		_, err = m.Lock(t.Context())
		require.ErrorIs(t, err, zkrecipes.ErrClosed)
		spans := w.ended("acquire mutex")
		for i, want := range []struct {
			outcome string
			status  codes.Code
		}{{"granted", codes.Unset}, {"busy", codes.Unset}, {"canceled", codes.Unset}, {"closed", codes.Error}} {
			require.Equal(t, want.outcome, attributes(spans[i])["zkrecipes.outcome"].AsString())
			require.Equal(t, want.status, spans[i].Status().Code)
		}
		require.True(t, attributes(spans[1])["zkrecipes.try"].AsBool())
	})
}

func TestTracer_Requests_AreBelowWhatSendsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zkotel.WithRequests())
		w.srv.SetWriteLatency(10 * time.Millisecond)
		h, err := w.mutex(t).Lock(t.Context())
		require.NoError(t, err)
		_, err = h.Txn(h.Context())
		require.NoError(t, err)
		_, _, err = w.client.Get(h.Context(), "/none")
		require.Error(t, err)
		_, _, err = w.client.Get(t.Context(), "/none") // without a span
		require.Error(t, err)
		w.srv.Intercept(zktest.Match{Op: zktest.OpSetData, Times: 1}, zktest.DropReply())
		_, err = w.client.Set(h.Context(), "/lock", nil, -1)
		require.ErrorIs(t, err, zkrecipes.ErrUnknownOutcome)
		time.Sleep(time.Minute) // with heartbeats
		require.NoError(t, h.Release(t.Context()))

		acquire, hold := w.ended("acquire mutex")[0].SpanContext().SpanID(), w.ended("hold mutex")[0].SpanContext().SpanID()
		create := w.ended("zookeeper create")
		require.NotEmpty(t, create)
		for _, s := range create {
			require.Equal(t, acquire, s.Parent().SpanID())
			require.Equal(t, 10*time.Millisecond, s.EndTime().Sub(s.StartTime()))
			require.Equal(t, trace.SpanKindClient, s.SpanKind())
			require.Equal(t, "zookeeper", attributes(s)["db.system.name"].AsString())
		}
		first := attributes(create[0]) // the parent was missing
		require.Equal(t, "no-node", first["error.type"].AsString())
		require.Equal(t, codes.Unset, create[0].Status().Code)
		multis := w.ended("zookeeper multi") // the transaction, and the barrier before Set reads
		require.Len(t, multis, 2)
		for _, s := range multis {
			require.Equal(t, hold, s.Parent().SpanID())
		}
		gets := w.ended("zookeeper get")
		require.Len(t, gets, 1)
		require.Equal(t, hold, gets[0].Parent().SpanID())
		require.Equal(t, "/none", attributes(gets[0])["zkrecipes.path"].AsString())
		set := w.ended("zookeeper set")[0]
		require.Equal(t, codes.Error, set.Status().Code)
		require.Equal(t, "connection-loss", attributes(set)["error.type"].AsString())
		require.Empty(t, w.ended("zookeeper sync"), "those of the heartbeat")
	})
}

// The heartbeat has the context of Dial. A program may pass one whose span lasts.
func TestTracer_Heartbeat_IsBelowTheSpanOfDial_WhileThatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, zkotel.WithRequests())
		tracer, err := zkotel.New(zkotel.WithRequests(), zkotel.WithTracerProvider(w.provider))
		require.NoError(t, err)
		ctx, dialing := w.tracer.Start(t.Context(), "dialing")
		client, err := conn.Dial(ctx, w.srv.Addr(), conn.WithDialer(w.srv.DialAs("b")), conn.WithTracer(tracer))
		require.NoError(t, err)
		t.Cleanup(func() { _ = client.Close() }) // always nil
		m, err := mutex.New(client, "/lock")
		require.NoError(t, err)
		_, err = m.Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		beats := w.ended("zookeeper sync")
		require.Equal(t, dialing.SpanContext().SpanID(), beats[len(beats)-1].Parent().SpanID())
		dialing.End()
		time.Sleep(time.Minute)
		require.Len(t, w.ended("zookeeper sync"), len(beats))
	})
}

func TestTracer_WithoutWithRequests_MakesNoSpansOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		h, err := w.mutex(t).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, h.Release(t.Context()))
		synctest.Wait()
		require.Len(t, w.spans.Ended(), 2)
	})
}

func TestNew_BadOptions(t *testing.T) {
	_, err := zkotel.New(zkotel.WithTracerProvider(nil))
	require.ErrorContains(t, err, "tracer provider: nil")
	_, err = zkotel.New(nil)
	require.ErrorContains(t, err, "option 0 is nil")
	_, err = zkotel.New()
	require.NoError(t, err)
}
