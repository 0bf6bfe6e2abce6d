package assemble

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/overlapse/overlapse/trace"
)

// A Description is a file's description of an agent, separate from the records that
// refer to it.
type Description struct {
	GPU     bool
	Logical int64 // number among all agents of the process, CPUs included
	OfKind  int64 // number among agents of its kind; trace.None if unknown
	Device  trace.Device
}

// Describe stores a description until Finish: records and descriptions may come in any
// order.
func (s *Session) Describe(process int32, d Description) {
	if s.descriptions == nil {
		s.descriptions = map[int32][]Description{}
	}
	s.descriptions[process] = append(s.descriptions[process], d)
}

// describeAgents matches agents with their descriptions. Records refer to an agent by
// its logical number ("Agent 4" or 4), by its absolute number if rocprofv3 wrote that,
// or by its number among GPUs ("GPU 3").
func (s *Session) describeAgents() {
	for _, all := range s.descriptions {
		slices.SortFunc(all, func(a, b Description) int { return cmp.Compare(a.Logical, b.Logical) })
		gpus := int64(0)
		for i := range all {
			if all[i].GPU && all[i].OfKind == trace.None {
				all[i].OfKind = gpus
			}
			if all[i].GPU {
				gpus++
			}
		}
	}
	for i := range s.Agents {
		a := &s.Agents[i]
		a.join(s.descriptions[a.Process])
	}
}

func (a *Agent) join(all []Description) {
	number := strconv.Itoa(int(a.Ordinal))
	i := slices.IndexFunc(all, func(d Description) bool {
		switch a.Key {
		case "GPU " + number:
			return d.GPU && d.OfKind == int64(a.Ordinal)
		case "CPU " + number:
			return !d.GPU && d.OfKind == int64(a.Ordinal)
		}
		return d.Logical == int64(a.Ordinal)
	})
	if i < 0 {
		return
	}
	a.GPU, a.Ordinal, a.Device = all[i].GPU, Narrow(all[i].OfKind), all[i].Device
}
