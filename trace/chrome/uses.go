package chrome

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

// A recorded is an execution trace whose operators are joined with the calls of the
// file.
type recorded struct {
	*assemble.Execution
	at   map[int32]int32 // by row of Run.Calls: the operator
	uses map[int32]int32 // by operator: its number in Run.Uses
}

// fewestJoined is the smallest share, in percent, of the operators of a file in an
// execution trace, or of those with tensors in it in the file, for which both are of
// the same run. Either may have recorded for longer.
const fewestJoined = 90

// adopt takes storages from the execution trace, if it is one of the same run.
func (d *reader) adopt(x *assemble.Execution, joined []int32) {
	r := &recorded{Execution: x, at: make(map[int32]int32, len(joined)), uses: map[int32]int32{}}
	found, known := 0, 0
	for i, a := range d.operatorCalls {
		if joined[i] != trace.None {
			r.at[a.call] = joined[i]
			if x.HasTensors(joined[i]) {
				found++
			}
		}
	}
	for i := range x.Operators {
		if x.HasTensors(int32(i)) {
			known++
		}
	}
	if len(r.at)*100 < fewestJoined*len(joined) && (known == 0 || found*100 < fewestJoined*known) {
		d.Builder.Note(trace.Noted, x.File, "storages of the execution trace ignored: few of its operators are in the Kineto file, so it is of another run", "", 0)
		return
	}
	d.recorded = r
}

// usesOf returns the number in Run.Uses of the innermost recorded operator around the
// host span that issued device work; 0 if there is none, or it has no tensors.
func (d *reader) usesOf(issuer trace.SpanID) int32 {
	if d.recorded == nil {
		return 0
	}
	for id := issuer; id != trace.None; id = d.Builder.Span(id).Parent {
		s := d.Builder.Span(id)
		if s.Kind != trace.HostCall && s.Kind != trace.Launch {
			continue
		}
		at, ok := d.recorded.at[s.Attr]
		if !ok {
			continue
		}
		of := d.recorded.Owner(at)
		return trace.Memo(d.recorded.uses, of, func() int32 { return d.Builder.AddUses(d.recorded.Accesses(of), 0) })
	}
	return 0
}

// groupUses gives a collective kernel that no recorded collective launched the accesses
// of the recorded ones before it on its thread that launched none: several collectives
// in one NCCL group, such as a batch of sends and receives, are one kernel, which is
// launched behind the last of them.
func (d *reader) groupUses() {
	if d.recorded == nil {
		return
	}
	type event struct {
		lane   trace.LaneID
		at     trace.Time
		kernel int32 // row, or None
		of     int32 // else the operator
	}
	var events []event
	for _, a := range d.operatorCalls {
		at, ok := d.recorded.at[a.call]
		if !ok || d.nameOfCall(a.call) != "record_param_comms" {
			continue
		}
		if _, launched := d.recorded.uses[at]; !launched {
			s := d.Builder.Span(d.calls[a.call])
			events = append(events, event{s.Lane, s.Start, trace.None, at})
		}
	}
	if len(events) == 0 {
		return
	}
	for row, info := range d.kernels {
		k := &d.Builder.Run.Kernels[row]
		if k.Uses == 0 && k.Launch != trace.None && d.Builder.Span(info.span).Kind == trace.Collective {
			s := d.Builder.Span(k.Launch)
			events = append(events, event{s.Lane, s.Start, int32(row), trace.None})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.lane, b.lane), cmp.Compare(a.at, b.at)) })
	var list []trace.Access
	lane := trace.LaneID(trace.None)
	for _, e := range events {
		if e.lane != lane {
			lane, list = e.lane, nil
		}
		if e.kernel == trace.None {
			list = append(list, d.recorded.Accesses(e.of)...)
			continue
		}
		d.Builder.Run.Kernels[e.kernel].Uses = d.Builder.AddUses(list, 0)
		list = nil
	}
}
