package calibrate

import (
	"maps"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/trace"
)

// coRunLaws are the slowdowns of collectives alongside compute: a factor K of
// Library.Slowdown an operation and kind of compute and, alongside the matrix library's
// GEMMs, the latency that is added once.
//
// Rows with kernel have the time of the collective's kernel from the arrival of its last
// rank. Other rows count what the collective waits for free compute units as well, which is
// about a tile or a kernel of the compute, the same for every number of channels. Alongside
// kernels that are not persistent, channels start one after the other, as workgroups end:
// rows with kernel count that. The simulator dispatches workgroups itself, so these waits
// are fitted, one number a kind, and left out of K (rule E6).
func coRunLaws() []law {
	whose := [...]string{"cuBLAS", "Triton GEMMs", "memory-bound kernels"}
	var list []law
	for kind, strategy := range machine.CoRunNames {
		n := machine.CoRunKind(kind)
		var ks, all []string
		for _, op := range profile.RecordedOps {
			ks = append(ks, "library."+op.String()+"."+[...]string{"beside_library", "beside_tiles", "beside_memory"}[n])
		}
		all = ks
		if n == machine.CoRunLibrary {
			for _, op := range profile.RecordedOps {
				all = append(all, "library."+op.String()+".beside_latency")
			}
		}
		how := "slowdown alongside " + whose[n] + " over the channels' part of the time"
		if n.Exponent() == 2 {
			how = "slowdown alongside " + whose[n] + " over the square of the channels' part of the time"
		}
		l := law{
			name: "collectives alongside " + whose[n], keys: all, need: "kind collective, strategy " + strategy + " with kernel",
			rows: func(c *calibration) []Row { return c.alongside(n) },
			predict: func(c *calibration, r *Row) (predicted, measured float64) {
				alone := c.aloneSeconds(*r)
				law := c.m.Library.Of(r.Workload.Op())
				return alone*(1+law.CoRunSlowdown(n).Or(0)*c.channelShare(n, r)) + law.CoRunLatency.Or(0) + c.waited(r), c.seconds(*r)
			},
		}
		l.settle = func(c *calibration) {
			waits := map[string][]float64{}
			rows := l.rows(c)
			for i := range rows {
				if key := waitOf(&rows[i]); key != "" {
					p, m := l.predict(c, &rows[i])
					waits[key] = append(waits[key], m-p)
				}
			}
			for key, all := range waits {
				c.wait[key] = max(0, median(all))
			}
		}
		l.ways = []way{
			{how: how + ", the base's times one factor", keys: ks, fit: func(c *calibration) bool { return c.fitCoRun(n, true, false) }},
			{how: how, keys: ks, fit: func(c *calibration) bool { return c.fitCoRun(n, false, false) }},
		}
		if n == machine.CoRunLibrary {
			l.ways = append(l.ways, way{how: how + ", and what is added at any size", keys: all, fit: func(c *calibration) bool { return c.fitCoRun(n, false, true) }})
		}
		list = append(list, l)
	}
	return list
}

// alongside is the rows of collectives alongside a kind of compute. Alongside GEMMs whose
// last wave leaves CUs idle, the channels of a small collective start one after the other,
// which is dispatch and no slowdown: those rows do not count.
func (c *calibration) alongside(n machine.CoRunKind) []Row {
	return c.pick(func(r *Row) bool {
		if r.Workload.Kind != "collective" || r.Strategy != machine.CoRunNames[n] || r.Params.AloneUs <= 0 {
			return false
		}
		if g := r.Params.GEMM; n == machine.CoRunLibrary && len(g) == 3 && r.Workload.Bytes <= smallBytes {
			return c.m.Tiling(g[0], g[1], g[2]).Tiles%int(c.m.GPU.CUs.Value) == 0
		}
		return !r.Params.Kernel || r.Workload.Bytes >= smallBytes
	})
}

// smallBytes is the size up to which the start of a collective shows in its time.
const smallBytes = 32 << 20

// aloneSeconds is what the collective of a row alongside compute takes alone.
func (c *calibration) aloneSeconds(r Row) float64 {
	if r.Params.Kernel {
		return r.Params.AloneUs * 1e-6
	}
	return r.Params.AloneUs*1e-6 - c.m.Launch.Timing.Value
}

// channelShare is x^q of Library.Slowdown.
func (c *calibration) channelShare(n machine.CoRunKind, r *Row) float64 {
	op := r.Workload.Op()
	x := c.m.Library.Of(op).InChannels(op, float64(r.World), channelsOf(&c.m.Library, r), float64(r.Workload.Bytes)) / c.aloneSeconds(*r)
	return math.Pow(min(1, x), n.Exponent())
}

// waitOf names the wait for compute units that a row counts; "" for none.
func waitOf(r *Row) string {
	switch {
	case !r.Params.Kernel:
		return r.Strategy
	case r.Strategy != machine.CoRunNames[machine.CoRunLibrary]:
		return r.Strategy + ", kernel"
	}
	return ""
}

// waited is that wait in seconds.
func (c *calibration) waited(r *Row) float64 { return c.wait[waitOf(r)] }

// leastSlowdown stands for none: rows of a machine on which compute does not
// disturb a collective scatter around no factor.
const leastSlowdown = 1e-4

// fitCoRun is least squares of the added seconds, relative to the row's time: K an operation
// (or one factor on the base's), with latency D an operation too, and the waits.
func (c *calibration) fitCoRun(n machine.CoRunKind, scaled, latency bool) bool {
	rows := c.alongside(n)
	factor := func(op trace.CollectiveOp) string { return "K " + op.String() }
	late := func(op trace.CollectiveOp) string { return "D " + op.String() }
	small := map[trace.CollectiveOp]bool{} // operations of which a latency shows
	for i := range rows {
		small[rows[i].Workload.Op()] = small[rows[i].Workload.Op()] || rows[i].Workload.Bytes <= smallBytes
	}
	var terms []map[string]float64
	var added, size []float64
	for i := range rows {
		r := &rows[i]
		op := r.Workload.Op()
		alone, law := c.aloneSeconds(*r), c.m.Library.Of(op)
		share, more, t := alone*c.channelShare(n, r), c.seconds(*r)-alone, map[string]float64{}
		if scaled {
			t["factor"] = share * law.CoRunSlowdown(n).Or(0)
		} else {
			t[factor(op)] = share
		}
		if latency && small[op] {
			t[late(op)] = 1
		} else {
			more -= law.CoRunLatency.Or(0)
		}
		if wait := waitOf(r); wait != "" {
			t[wait] = 1
		}
		terms, added, size = append(terms, t), append(added, more), append(size, c.seconds(*r))
	}
	x, ok := solveTerms(terms, added, size)
	if !ok {
		return false
	}
	for i := range rows {
		if wait := waitOf(&rows[i]); wait != "" {
			c.wait[wait] = max(0, x[wait])
		}
	}
	for _, op := range profile.RecordedOps {
		q := c.m.Library.Of(op).CoRunSlowdown(n)
		if k, ok := x[factor(op)]; ok {
			q.Value = max(leastSlowdown, k)
		} else if scaled {
			q.Value = max(leastSlowdown, x["factor"]*q.Or(0))
		}
		if d, ok := x[late(op)]; ok {
			c.m.Library.Of(op).CoRunLatency.Value = max(1e-9, d)
		}
	}
	return true
}

// solveTerms is solveWeighted of sums of named terms; x is by name.
func solveTerms(terms []map[string]float64, y, size []float64) (x map[string]float64, ok bool) {
	all := map[string]float64{}
	for _, t := range terms {
		maps.Copy(all, t)
	}
	names := slices.Sorted(maps.Keys(all))
	a := make([][]float64, len(terms))
	for i, t := range terms {
		for _, name := range names {
			a[i] = append(a[i], t[name])
		}
	}
	values, ok := solveWeighted(a, y, size)
	for i := range values {
		all[names[i]] = values[i]
	}
	return all, ok
}
