package engines

import (
	"github.com/overlapse/overlapse/replay/workload"
)

// multistream runs the collective of one iteration beside the compute of the
// next (MECHANISM section 3).
var multistream = Engine{
	Name:    "multistream",
	From:    "resource-aware overlap",
	Summary: "the collective of one iteration beside the compute of the next, on two streams",
	Detail: "Iterations are taken to be independent, as two micro-batches are: the compute of an iteration no longer waits " +
		"for the collective of the one before. The collective becomes ready when the last workgroup of its producer retires, " +
		"the same moment at which the next iteration's first workgroups are eligible; without free compute units it waits " +
		"for that kernel's tail. Priority decides only among workgroups that wait together. What compute leaves free can be " +
		"shaped: lds asks for more shared memory a workgroup, so that fewer are resident and a channel may fit beside them; blocks " +
		"launches fewer workgroups, which loop over the tiles; carve keeps whole compute units for the collective, and gives it no more " +
		"channels than fit there. Shaping has its price: a product on fewer units or with fewer residents takes longer, as " +
		"far as one workgroup alone does not fill a unit's pipes.",
	Params: []Param{
		{Name: "channels", Default: "0", Doc: "workgroups of each collective; 0: as captured"},
		{Name: "priority", Default: "off", Choices: []string{"off", "on"}, Doc: "communication stream first among waiting workgroups"},
		{Name: "buffers", Default: "0", Doc: "outputs in flight: compute waits for the collective this many iterations back (1: nothing overlaps, 2: double buffering); 0: as many as needed"},
		{Name: "lds", Default: "0", Doc: "KiB of shared memory that each workgroup of compute asks for; 0: as captured"},
		{Name: "blocks", Default: "0", Doc: "workgroups of compute, looping over its tiles; 0: as captured"},
		{Name: "carve", Default: "0", Doc: "compute units that compute leaves to the collective"},
	},
	Loop: true,
	plan: planMultistream,
}

func planMultistream(pl *planner, v Values) (emitter, error) {
	pl.take(func(p *workload.Pair) bool {
		return p.Direction == workload.ComputeThenCollective && p.Collective >= 0
	})
	if why := independent(pl); why != "" {
		return nil, &NotApplicable{"multistream", why}
	}
	o := occupancyOf(v)
	for _, p := range pl.pairs {
		for _, id := range p.First {
			if why := o.refuses(pl, &pl.w.Ops[id]); why != "" {
				return nil, &NotApplicable{"multistream", why}
			}
		}
	}
	return func(r *rank, p *pair) { r.besideNext(p, o, v) }, nil
}

// independent says why iterations cannot overlap, or nothing. They can where
// each is one pair, so that nothing within it consumes the collective's output.
func independent(pl *planner) string {
	of, n := iterations(pl.w)
	switch {
	case len(pl.pairs) == 0:
		return "no compute kernel followed by a collective was found"
	case len(pl.pairs) < 2:
		return "a single pair has no next iteration to run beside"
	case n == 0:
		return "iterations are not marked in the trace, so nothing says that they are independent"
	}
	for i := 1; i < len(pl.pairs); i++ {
		if of[pl.pairs[i].First[0]] == of[pl.pairs[i-1].First[0]] {
			return "an iteration holds several pairs, and later compute in it consumes earlier collectives"
		}
	}
	return ""
}

func (r *rank) besideNext(p *pair, o occupancy, v Values) {
	compute, comm := r.ops(p)
	onCompute, onComm := r.stream(compute.Queue), r.commStream(compute, comm)
	if v["priority"] == "on" {
		onComm.Priority = 1
	}
	cut := r.pl.chunks(p.coll, 1, o.channels(r.pl, comm, v.Int("channels")), compute)
	r.enter(p)
	var earlier []*workload.Op
	for i := range p.index {
		_, c := r.ops(&r.pl.pairs[i])
		earlier = append(earlier, c)
	}
	gap := r.ready(onCompute, compute, r.before(p, compute), earlier...)
	if back := p.index - v.Int("buffers"); v.Int("buffers") > 0 && back >= 0 {
		onCompute.wait(r.pl.done[earlier[back].ID], 1, earlier[back].Name)
	}
	onCompute.launch(r.refill(onCompute, p.pre[r.id], gap), launchOf(compute, r.pl.asLaunched(compute, r.pl.shaped(compute, o))))
	r.finished(onCompute, compute)
	for _, id := range p.mid[r.id] {
		r.step(p, &r.pl.w.Ops[id], 0, 0)
	}
	r.ready(onComm, comm, r.before(p, comm))
	onComm.launch(duration(r.pl.m.Launch.Event.Value), launchOf(comm, r.pl.collective(comm, cut)))
	r.finished(onComm, comm)
	r.leave(p)
}
