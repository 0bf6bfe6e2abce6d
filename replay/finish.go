package replay

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// result gathers what the finished simulation found.
func (s *sim) result() *Result {
	r := &Result{Makespan: s.makespan, Approximation: Approximation(s.flows.Approximation(int64(s.makespan))), Traffic: s.ledger.traffics(), Slots: s.ledger.slots(), Path: s.path()}
	for i := range s.streams {
		st := &s.streams[i]
		st.lose(st.since, s.makespan, Idle{Cause: program.NoWork})
		r.Idle = append(r.Idle, st.idle...)
	}
	for g := range s.gpus {
		r.Use = append(r.Use, s.use(g)...)
		r.CUs = append(r.CUs, s.cuTime(g))
	}
	r.Limits = s.limitsOf(r.Idle)
	s.recordLimits(r.Limits)
	s.recordVacant()
	r.Run = s.record.Finish(trace.Options{Name: s.record.options.Name, Simulated: true, Estimated: s.record.options.Estimated, KeepZero: true})
	return r
}

func (s *sim) use(g int) []Use {
	var all []Use
	for res := range numResources {
		id := s.flows.resource(g, res)
		if id == none || s.makespan == 0 || s.flows.capacities[id] == 0 {
			continue
		}
		moved, full := s.flows.Used(id, int64(s.now))
		all = append(all, Use{
			GPU: g, Resource: res, Saturated: program.Time(full),
			Fraction: moved / (s.flows.capacities[id] * float64(s.makespan)),
		})
	}
	return all
}

func (s *sim) cuTime(id int) CUs {
	g := &s.gpus[id]
	c := CUs{GPU: id}
	if total := float64(len(g.cus)) * float64(s.makespan); total > 0 {
		g.held.add(0, s.now)
		g.busy.add(0, s.now)
		c.Held, c.Working = g.held.sum/total, g.busy.sum/total
	}
	return c
}
