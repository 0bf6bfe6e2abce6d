package plan

import (
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// coRunner is a compute operation alongside a collective if that compute is cut into parts:
// a GEMM of the matrix library, another kernel of matrix instructions, or a memory-bound
// kernel, which includes GEMMs of few rows (rule I1).
func (pl *Planner) coRunner(op *workload.Op, parts int) machine.CoRunner {
	sh := op.Shape
	switch {
	case sh.Kind == workload.GEMM && parts > 1 && pl.Machine.Tiling(rowsOf(op, 0, parts), sh.N, sh.K).InMemory:
		return machine.CoRunner{Kind: machine.CoRunMemory, Load: 1}
	case sh.Kind == workload.GEMM && op.Tiling.Persistent:
		return machine.CoRunner{Kind: machine.CoRunLibrary}
	case op.Matrix():
		return machine.CoRunner{Kind: machine.CoRunTiles}
	}
	return machine.CoRunner{Kind: machine.CoRunMemory, Load: pl.Laws().MemoryLoad(op)}
}

// slow sets the co-run slowdown of a piece alongside a compute operation.
func (pl *Planner) slow(p *Piece, coRunner *workload.Op) {
	parts := 1
	if p.Shares == 0 { // chunks of a collective run alongside chunks of the GEMM
		parts = p.Of
	}
	with := pl.coRunner(coRunner, parts)
	bytes, ranks := p.share(p.Coll.Bytes), len(p.Coll.Members)
	by := pl.slowdowns.Of(slowdownKey{p.Coll.Op, bytes, ranks, p.Channels, with}, func() (s slowdown) {
		var latency float64
		s.factor, s.onset, latency = pl.Machine.Library.CoRun(p.Coll.Op, bytes, ranks, p.Channels, with)
		s.late = Duration(latency)
		return s
	})
	p.Slowdown, p.onset, p.late = by.factor, by.onset, by.late
}

// slowAsCaptured sets the co-run slowdown of a captured collective that keeps its place:
// that of the compute that ran alongside its transfer (rule L5).
func (pl *Planner) slowAsCaptured(p *Piece, row int32) {
	iso := pl.Workload.Isolation
	if iso == nil || int(row) >= len(iso.CoRunners) || len(iso.CoRunners[row]) == 0 {
		return
	}
	key := coRunKey{row, p.Channels}
	mean, ok := pl.coRuns[key]
	if !ok {
		mean = pl.meanCoRun(*p, iso.CoRunners[row])
		pl.coRuns[key] = mean
	}
	p.Slowdown, p.onset, p.late = mean.Slowdown, mean.onset, mean.late
}

// A slowdown is what machine.Library.CoRun says of a slowdownKey.
type slowdown struct {
	factor, onset float64
	late          trace.Time
}

type slowdownKey struct {
	op              trace.CollectiveOp
	bytes           int64
	ranks, channels int
	with            machine.CoRunner
}

// A coRunKey is a captured collective on a number of channels.
type coRunKey struct {
	row      int32
	channels int
}

// meanCoRun is a piece with its mean co-run slowdown alongside several operations, by time.
func (pl *Planner) meanCoRun(p Piece, with []workload.CoRun) Piece {
	var all, factor, onset, late float64
	for _, r := range with {
		pl.slow(&p, &pl.Workload.Ops[r.Op])
		t := float64(r.Time)
		all, factor, late = all+t, factor+t*p.Slowdown, late+t*float64(p.late)
		onset += t * (p.Slowdown - 1) * p.onset
	}
	p.Slowdown, p.late, p.onset = factor/all, trace.Time(late/all), 0
	if added := factor - all; added > 0 {
		p.onset = onset / added
	}
	return p
}
