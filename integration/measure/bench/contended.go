package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/zkrecipes/zkrecipes"
	"github.com/zkrecipes/zkrecipes/recipes/mutex"
)

// variant is the mutex with some options, as a contestant.
type variant struct {
	name string
	opts []mutex.Option
}

var (
	plainMutex = variant{"zkrecipes", nil}
	autoMutex  = variant{"zkrecipes, auto", []mutex.Option{mutex.WithHandOver(zkrecipes.HandOverAuto)}}
)

// wanted lists the required multiples of the rates of others, by the distance and the number of sessions.
type wanted map[time.Duration]map[int][]target

func ofCurator(ratio float64) target { return target{against: "Curator", ratio: ratio} }

func ofGoZookeeper(ratio float64) target { return target{against: "go-zookeeper Lock", ratio: ratio} }

var (
	ofPlain = wanted{
		0:                     {2: {ofCurator(1.3)}},
		10 * time.Millisecond: {2: {ofCurator(1.8)}},
	}
	ofAuto = wanted{
		0:                     {8: {ofCurator(1.3), ofGoZookeeper(1.1)}, 16: {ofCurator(1.25), ofGoZookeeper(1.08)}},
		10 * time.Millisecond: {8: {ofCurator(1.8)}},
	}
)

// contendedRows measure one lock that all want, at all distances.
func contendedRows(ctx context.Context, fields []*field) (rows []row) {
	for _, f := range fields {
		for _, n := range []int{2, 4, 8, 16} {
			rows = append(rows, f.contended(ctx, n, plainMutex, ofPlain), f.contended(ctx, n, autoMutex, ofAuto))
		}
		rows = append(rows, f.shared(ctx, 16, plainMutex, map[time.Duration]float64{10 * time.Millisecond: 360}))
	}
	return rows
}

// contended measures one lock of n clients, each with its own session.
func (f *field) contended(ctx context.Context, n int, v variant, want wanted) row {
	r := row{name: fmt.Sprintf("one mutex, %d sessions%s", n, f.where()), run: []contestant{
		looping(v.name, n, func(i int) section { return f.lock(ctx, i, "/bench/ours/mutex", v.opts...) }),
		f.curator.contestant("mutex", f.number, n),
		looping("go-zookeeper Lock", n, func(i int) section { return f.goZookeeperLock(i, "/bench/gozk/mutex") }),
	}}
	r.want = want[f.away][n]
	return f.distant(r)
}

// shared measures one lock of n callers in one session.
func (f *field) shared(ctx context.Context, n int, v variant, atLeast map[time.Duration]float64) row {
	one := f.lock(ctx, 0, "/bench/ours/shared", v.opts...) // all callers share the object
	r := row{name: fmt.Sprintf("one mutex, 1 session × %d callers%s", n, f.where()), run: []contestant{
		looping(v.name, n, func(int) section { return one }),
		f.curator.contestant("shared", f.number, n),
		looping("go-zookeeper Lock", n, func(int) section { return f.goZookeeperLock(0, "/bench/gozk/shared") }),
	}}
	if rate := atLeast[f.away]; rate > 0 {
		r.want = []target{{rate: rate}}
	}
	return f.distant(r)
}

func (f *field) where() string {
	if f.away == 0 {
		return ""
	}
	return fmt.Sprintf(", %v away", f.away)
}

// distant gives the contestants of a distant field more time, because they do less in it. The delays are made in this
// process, so its processor time means nothing.
func (f *field) distant(r row) row {
	if f.away == 0 {
		return r
	}
	for i, c := range r.run {
		r.run[i] = contestant{c.name, nil, func(ctx context.Context, slice time.Duration) (float64,
			error,
		) {
			return c.rate(ctx, 4*slice)
		}}
	}
	return r
}

// warmUp makes the contestants take turns, so that the server and the Curator program have compiled what they run
// often.
func (f *field) warmUp(ctx context.Context) error {
	const lasts = 20 * time.Second
	run := f.contended(ctx, most, plainMutex, wanted{}).run
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		for _, c := range run {
			if _, err := c.rate(ctx, lasts/20); err != nil {
				return err
			}
		}
	}
	return nil
}
