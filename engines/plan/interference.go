package plan

import (
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// slow sets the co-run slowdown of a piece alongside a compute operation.
func (pl *Planner) slow(p *Piece, coRunner *workload.Op) {
	parts := 1
	if p.Shares == 0 { // chunks of a collective run alongside chunks of the GEMM
		parts = p.Of
	}
	p.Slowdown, p.onset, p.late = pl.Laws().Beside(p.Coll, p.share(p.Coll.Bytes), p.Channels, coRunner, parts)
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
