package calibrate

import (
	"math"

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
// are fitted, one number a kind, and left out of K (rule E7).
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
	column := map[trace.CollectiveOp]int{}
	for _, op := range profile.RecordedOps {
		for i := range rows {
			if _, ok := column[op]; !ok && rows[i].Workload.Op() == op {
				column[op] = len(column)
			}
		}
	}
	ops := len(column)
	small := map[trace.CollectiveOp]bool{} // operations of which a latency shows
	for i := range rows {
		small[rows[i].Workload.Op()] = small[rows[i].Workload.Op()] || rows[i].Workload.Bytes <= smallBytes
	}
	width := 1
	if !scaled {
		width = ops
	}
	late := map[trace.CollectiveOp]int{} // columns of the latencies, then those of the waits
	for _, op := range profile.RecordedOps {
		if latency && small[op] {
			late[op] = width
			width++
		}
	}
	waits := map[string]int{}
	for i := range rows {
		key := waitOf(&rows[i])
		if _, ok := waits[key]; !ok && key != "" {
			waits[key] = width
			width++
		}
	}
	var a [][]float64
	var y, size []float64
	for i := range rows {
		r := &rows[i]
		op := r.Workload.Op()
		alone, law, left := c.aloneSeconds(*r), c.m.Library.Of(op), make([]float64, width)
		share := alone * c.channelShare(n, r)
		more := c.seconds(*r) - alone
		if scaled {
			left[0] = share * law.CoRunSlowdown(n).Or(0)
		} else {
			left[column[op]] = share
		}
		if i, ok := late[op]; ok {
			left[i] = 1
		} else {
			more -= law.CoRunLatency.Or(0)
		}
		if i, ok := waits[waitOf(r)]; ok {
			left[i] = 1
		}
		a, y, size = append(a, left), append(y, more), append(size, c.seconds(*r))
	}
	x, ok := solveWeighted(a, y, size)
	if !ok {
		return false
	}
	for key, i := range waits {
		c.wait[key] = max(0, x[i])
	}
	for _, op := range profile.RecordedOps {
		law := c.m.Library.Of(op)
		q := law.CoRunSlowdown(n)
		i, has := column[op]
		switch {
		case scaled:
			q.Value = max(leastSlowdown, x[0]*q.Or(0))
		case has:
			q.Value = max(leastSlowdown, x[i])
		}
		if i, ok := late[op]; ok {
			law.CoRunLatency.Value = max(1e-9, x[i])
		}
	}
	return true
}
