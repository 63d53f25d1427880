package parity

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zkrecipes/zkrecipes/integration/kit/zkserver"
	"github.com/zkrecipes/zkrecipes/zktest"
)

// Quotas are counted and enforced alike. The scripts change nodes under two nested quotas, change the limits, and read
// what the server has counted.
func TestQuotas_ZktestAgreesWithReal(t *testing.T) {
	for _, enforced := range []bool{true, false} {
		s := zkserver.Start(t, zkserver.WithProperty("zookeeper.enforceQuota", fmt.Sprint(enforced)))
		opts := []zktest.Option{zktest.WithRelease(release(t, s))}
		if enforced {
			opts = append(opts, zktest.WithQuotas())
		}
		a, b := Target{Name: "zookeeper", Addr: s.Addr()}, Target{Name: "zktest", Addr: zktest.Run(t, opts...).Addr()}
		for seed := range uint64(6) {
			d, err := Compare(a, b, quotaScript(seed, 300))
			if err != nil || d != nil {
				t.Fatalf("enforced %v, seed %d: %v\n%v", enforced, seed, err, d)
			}
		}
	}
}

func quotaScript(seed uint64, n int) Script {
	g := rand.New(rand.NewPCG(seed, 0))
	root := fmt.Sprintf("!/q%d", seed)
	quota := fmt.Sprintf("!/zookeeper/quota/q%d", seed)
	limits := func() []byte {
		return fmt.Appendf(nil, "count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", g.IntN(8)-1, g.IntN(60)-1,
			g.IntN(60)-1, g.IntN(8)-1)
	}
	s := Script{
		{{Code: stepConnect, Timeout: 10_000}},
		{{Code: opCreate, Path: root}},
		{{Code: opCreate, Path: root + "/a"}},
	}
	for _, path := range []string{quota, quota + "/a"} {
		s = append(s,
			[]Op{{Code: opCreate, Path: path}},
			[]Op{{Code: opCreate, Path: path + "/zookeeper_limits", Data: limits()}},
			[]Op{{Code: opCreate, Path: path + "/zookeeper_stats", Data: []byte("count=0,bytes=0")}})
	}
	paths := []string{"", "/a", "/b", "/a/x", "/a/y", "/b/x"}
	for range n {
		o := Op{Path: root + paths[g.IntN(len(paths))], Data: bytes.Repeat([]byte("d"), g.IntN(20))}
		switch k := g.IntN(20); {
		case k < 7:
			o.Code, o.Flags = opCreate, int32(g.IntN(2))
		case k < 12:
			o.Code = opSetData
		case k < 16:
			o.Code, o.Data = opDelete, nil
		case k < 18:
			o = Op{Code: opMulti, Ops: []Op{
				{Code: opSetData, Path: o.Path, Data: o.Data},
				{Code: opSetData, Path: o.Path},
				{Code: opCreate, Path: root + paths[2+g.IntN(4)], Data: o.Data},
			}}
		case k < 19:
			o = Op{Code: opSetData, Path: quota + []string{"", "/a"}[g.IntN(2)] + "/zookeeper_limits", Data: limits()}
		default:
			o = Op{Code: opDelete, Path: quota + "/a/zookeeper_limits"}
			if g.IntN(2) == 0 {
				o.Code, o.Data = opCreate, limits()
			}
		}
		s = append(s, []Op{o},
			[]Op{{Code: opGetData, Path: quota + "/zookeeper_stats"}},
			[]Op{{Code: opGetData, Path: quota + "/a/zookeeper_stats"}})
	}
	return s
}
