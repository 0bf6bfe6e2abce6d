package chrome

import (
	"cmp"
	"math"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A joint is one row of a side table under the number that joins it to others.
// Numbers are unique within a rank only.
type joint struct {
	rank int32
	key  int64
	row  int32
}

// joints are sorted by rank, key, row.
type joints []joint

func (j joints) sort() {
	if !slices.IsSortedFunc(j, compareJoints) {
		slices.SortFunc(j, compareJoints)
	}
}

func compareJoints(a, b joint) int {
	switch {
	case a.rank != b.rank:
		return cmp.Compare(a.rank, b.rank)
	case a.key != b.key:
		return cmp.Compare(a.key, b.key)
	}
	return cmp.Compare(a.row, b.row)
}

// find returns the first row with the key, or None. What is looked up in order
// is found just after what was found last: at remembers where that was.
func (j joints) find(rank int32, key int64, at *int) int32 {
	if key == 0 {
		return trace.None
	}
	want := joint{rank: rank, key: key, row: math.MinInt32}
	const near = 8
	for i := max(*at, 1); i < min(*at+near, len(j)); i++ {
		if compareJoints(j[i-1], want) < 0 && compareJoints(j[i], want) > 0 {
			return j.found(i, want, at)
		}
	}
	i, _ := slices.BinarySearchFunc(j, want, compareJoints)
	return j.found(i, want, at)
}

// found returns the row at i, the first not below what is wanted, if it is that.
func (j joints) found(i int, want joint, at *int) int32 {
	*at = i
	if i == len(j) || j[i].rank != want.rank || j[i].key != want.key {
		return trace.None
	}
	return j[i].row
}

// rankOf returns the rank row of a span whose lane is final.
func (d *reader) rankOf(id trace.SpanID) int32 { return d.b.LaneAt(d.b.Span(id).Lane).Rank }

// link joins device work to the call that launched it, by correlation, and to
// the framework operator that asked for it, by External id or, where that is
// only the correlation again (Kineto before 2023), by what encloses the call.
func (d *reader) link() {
	calls := 0
	for row := range d.calls {
		if d.b.Call(int32(row)).Correlation != 0 {
			calls++
		}
	}
	byCorrelation, byExternal := make(joints, 0, calls), make(joints, 0, len(d.calls)-calls)
	for row, span := range d.calls {
		call := d.b.Call(int32(row))
		if call.Correlation != 0 {
			byCorrelation = append(byCorrelation, joint{d.rankOf(span), call.Correlation, int32(row)})
		} else if call.External != 0 {
			byExternal = append(byExternal, joint{d.rankOf(span), call.External, int32(row)})
		}
	}
	byCorrelation.sort()
	byExternal.sort()
	said := map[int32]*launchInfo{} // by call
	for i := range d.launches {
		said[d.launches[i].call] = &d.launches[i]
	}
	l := linker{d: d, byCorrelation: byCorrelation, byExternal: byExternal}
	for row := range d.kernels {
		info, k := &d.kernels[row], d.b.Kernel(int32(row))
		call := l.origin(info, k.Correlation)
		k.Op = l.shaped(info.asked)
		d.geometry(k, info.pos, call, said[call])
	}
	for row := range d.copies {
		info, c := &d.copies[row], d.b.Copy(int32(row))
		call := l.origin(info, c.Correlation)
		c.Op = l.shaped(info.asked)
		if s := said[call]; s != nil && c.Bytes == 0 && s.bytes > 0 && s.bytes < 1<<50 {
			c.Bytes = s.bytes
			d.note(trace.Repaired, "copy without its size: taken from the call that asked for it", info.pos)
		}
	}
}

type linker struct {
	d                         *reader
	byCorrelation, byExternal joints
	correlated, asked         int // where in them something was found last
}

// origin returns the row of the call that launched the work, or None, and sets
// the host span from which operators around it are found.
func (l *linker) origin(info *deviceInfo, correlation int64) (call int32) {
	rank := l.d.rankOf(info.span)
	call = l.byCorrelation.find(rank, correlation, &l.correlated)
	if call != trace.None {
		info.asked = l.d.calls[call]
		l.d.b.Span(info.asked).Kind = trace.Launch
	}
	asked := l.byExternal.find(rank, info.external, &l.asked)
	if asked == trace.None && call != trace.None {
		asked = l.byExternal.find(rank, l.d.b.Call(call).External, &l.asked)
	}
	if asked != trace.None && (info.external != correlation || call == trace.None) {
		info.asked = l.d.calls[asked]
	}
	return call
}

// shaped returns the operator row of the innermost span with shapes, from the span outwards.
func (l *linker) shaped(id trace.SpanID) int32 {
	for ; id != trace.None; id = l.d.b.Span(id).Parent {
		s := l.d.b.Span(id)
		if s.Kind == trace.Marker {
			if row, ok := l.d.markerOp[id]; ok {
				return row
			}
		} else if row := l.d.b.Call(s.Attr).Op; row != trace.None {
			return row
		}
	}
	return trace.None
}

// geometry settles a kernel's grid and block. NVIDIA's are workgroups and
// threads. On AMD it depends on the call and on the profiler's version
// (trace/FORMATS.md): absent or zero, in work-items for the extended
// launch calls, or exchanged.
func (d *reader) geometry(k *trace.Kernel, pos int64, call int32, said *launchInfo) {
	if k.WGs() == 0 || k.Threads() == 0 {
		k.Grid, k.Block = [3]int32{}, [3]int32{}
	}
	if said != nil {
		if k.WGs() == 0 {
			k.Grid, k.Block = said.grid, said.block
		}
		if k.Shared == 0 {
			k.Shared = said.shared
		}
	}
	if k.WGs() == 0 || k.Threads() == 0 {
		k.Grid, k.Block = [3]int32{}, [3]int32{}
		return
	}
	if !d.header.amd && (call == trace.None || !d.isHIP(call)) {
		return
	}
	const mostThreads = 1024
	inItems := call != trace.None && d.isExtended(call)
	if d.header.sdk1 || k.Threads() > mostThreads {
		k.Grid, k.Block = k.Block, k.Grid
		inItems = true
		d.note(trace.Repaired, "grid and block are exchanged", pos)
	}
	if !inItems || k.Threads() > mostThreads {
		return
	}
	for i := range k.Grid {
		k.Grid[i] = (k.Grid[i] + k.Block[i] - 1) / k.Block[i]
	}
	d.note(trace.Repaired, "grid in work-items: divided by the workgroup's size", pos)
}

func (d *reader) nameOfCall(call int32) string {
	return d.b.NameOf(d.b.Span(d.calls[call]).Name)
}

func (d *reader) isHIP(call int32) bool {
	n := d.nameOfCall(call)
	return len(n) > 3 && n[:3] == "hip"
}

// isExtended reports whether the call counts its grid in work-items.
func (d *reader) isExtended(call int32) bool {
	switch d.nameOfCall(call) {
	case "hipExtModuleLaunchKernel", "hipHccModuleLaunchKernel":
		return true
	}
	return false
}
