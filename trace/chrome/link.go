package chrome

import (
	"cmp"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// rankOf returns the rank row of a span whose lane is final.
func (d *reader) rankOf(id trace.SpanID) int32 { return d.Builder.LaneOf(d.Builder.Span(id).Lane).Rank }

// link sets the framework operator that issued device work: the one with its External
// id or, if that equals the correlation (Kineto before 2023), the one around the
// launching call.
func (d *reader) link() {
	d.Builder.Link()
	operators := d.operators()
	described := map[trace.SpanID]*launchInfo{} // by call
	for i := range d.launches {
		l := &d.launches[i]
		described[d.calls[l.call]] = l
	}
	for row := range d.kernels {
		info, k := &d.kernels[row], &d.Builder.Run.Kernels[row]
		d.setIssuer(info, k.Launch, k.Correlation, operators)
		k.Op, k.Uses = d.shaped(info.issuer), d.usesOf(info.issuer)
		call := ""
		if k.Launch != trace.None {
			call = d.Builder.NameOf(d.Builder.Span(k.Launch).Name)
		}
		was := d.Builder.Run.Setup(k)
		if now := d.geometry(was, call, info.pos, described[k.Launch]); now != was {
			k.Setup = d.Builder.AddSetup(now)
		}
	}
	for row := range d.copies {
		info, c := &d.copies[row], &d.Builder.Run.Copies[row]
		d.setIssuer(info, c.Launch, c.Correlation, operators)
		c.Op, c.Uses = d.shaped(info.issuer), d.usesOf(info.issuer)
		if c.Launch != trace.None && (c.Dir == trace.DeviceToDevice || c.Dir == trace.UnknownDir) && strings.Contains(d.Builder.NameOf(d.Builder.Span(c.Launch).Name), "MemcpyPeer") {
			c.Dir = trace.PeerToPeer // the profilers of AMD do not say so
		}
		if l := described[c.Launch]; l != nil && c.Bytes == 0 && l.bytes > 0 && l.bytes < 1<<50 {
			c.Bytes = l.bytes
			d.note(trace.Repaired, "copy without its size: taken from the call that launched it", info.pos)
		}
	}
}

// operators indexes the framework operators by External id.
func (d *reader) operators() *trace.Index {
	isOperator := func(row int) bool {
		call := &d.Builder.Run.Calls[row]
		return call.Correlation == 0 && call.External != 0
	}
	n := 0
	for row := range d.calls {
		if isOperator(row) {
			n++
		}
	}
	x := &trace.Index{}
	x.Reserve(n)
	for row, span := range d.calls {
		if isOperator(row) {
			x.Add(d.rankOf(span), d.Builder.Run.Calls[row].External, int32(row))
		}
	}
	x.Sort()
	return x
}

// setIssuer sets the host span whose enclosing operators issued a device operation: its
// operator by External id, else the launching call.
func (d *reader) setIssuer(info *deviceInfo, launch trace.SpanID, correlation int64, operators *trace.Index) {
	info.issuer = launch
	if launch != trace.None && info.external == correlation {
		return
	}
	rank := d.rankOf(info.span)
	row := operators.Find(rank, info.external)
	if row == trace.None && launch != trace.None {
		row = operators.Find(rank, d.Builder.Run.Calls[d.Builder.Span(launch).Attr].External)
	}
	if row != trace.None {
		info.issuer = d.calls[row]
	}
}

// shaped returns the operator row of the innermost enclosing span with shapes.
func (d *reader) shaped(id trace.SpanID) int32 {
	for ; id != trace.None; id = d.Builder.Span(id).Parent {
		s := d.Builder.Span(id)
		if s.Kind == trace.Marker {
			if row, ok := d.markerOp[id]; ok {
				return row
			}
		} else if row := d.Builder.Run.Calls[s.Attr].Op; row != trace.None {
			return row
		}
	}
	return trace.None
}

// geometry corrects a kernel's grid and block. NVIDIA's are workgroups and threads. On AMD
// it depends on the call and on the profiler's version (see trace/FORMATS.md, Grid and
// block): absent or zero, in work-items for the extended launch calls, or exchanged.
// call is the name of the launching call, launch its geometry or nil.
func (d *reader) geometry(k trace.Setup, call string, pos int64, launch *launchInfo) trace.Setup {
	if k.WGs() == 0 || k.Threads() == 0 {
		k.Grid, k.Block = [3]int32{}, [3]int32{}
	}
	if launch != nil {
		if k.WGs() == 0 {
			k.Grid, k.Block = launch.grid, launch.block
		}
		k.Shared = cmp.Or(k.Shared, launch.shared)
	}
	if k.WGs() == 0 || k.Threads() == 0 {
		k.Grid, k.Block = [3]int32{}, [3]int32{}
		return k
	}
	if !d.header.amd && !strings.HasPrefix(call, "hip") {
		return k
	}
	const mostThreads = 1024
	inItems := call == "hipExtModuleLaunchKernel" || call == "hipHccModuleLaunchKernel"
	if d.header.sdk1 || k.Threads() > mostThreads {
		k.Grid, k.Block = k.Block, k.Grid
		inItems = true
		d.note(trace.Repaired, "grid and block are swapped", pos)
	}
	if !inItems || k.Threads() > mostThreads {
		return k
	}
	for i := range k.Grid {
		k.Grid[i] = (k.Grid[i] + k.Block[i] - 1) / k.Block[i]
	}
	d.note(trace.Repaired, "grid in work-items: divided by the workgroup's size", pos)
	return k
}

func (d *reader) nameOfCall(call int32) string {
	return d.Builder.NameOf(d.Builder.Span(d.calls[call]).Name)
}

// A waitInfo is a cuda_sync event whose rank is not yet known.
type waitInfo struct {
	span trace.SpanID
	wait trace.Wait
}

// wait reads a cuda_sync event. Its stream is the waiting one, except for Stream Sync,
// where the host waits for the stream.
func (d *reader) wait(e *event, span trace.SpanID) {
	a := &e.args
	w := trace.Wait{
		Stream:      streamOf(a.stream),
		On:          streamOf(a.waitOn),
		Record:      max(0, number(a.waitRecord)),
		Correlation: number(a.correlation),
	}
	switch name := d.string(e.name); {
	case strings.HasPrefix(name, "Stream Wait"):
	case strings.HasPrefix(name, "Stream"):
		w.Stream, w.On = trace.None, w.Stream
	default:
		w.Stream = trace.None
	}
	d.waits = trace.Append(&d.Builder, d.waits, waitInfo{span, w})
}

// streamOf reads a stream; None for CUPTI's invalid value in any width.
func streamOf(b []byte) int64 {
	const invalid = 1<<32 - 1
	n, ok := lex.Integer(b)
	if !ok || n < 0 || n == invalid {
		return trace.None
	}
	return n
}

// addWaits adds the waits when lanes are final.
func (d *reader) addWaits() {
	for _, i := range d.waits {
		s := d.Builder.Span(i.span)
		if s.Dropped() {
			continue
		}
		l := d.Builder.LaneOf(s.Lane)
		i.wait.Rank, i.wait.Device, i.wait.Start, i.wait.End = l.Rank, l.Device, s.Start, s.End
		d.Builder.AddWait(i.wait)
	}
}
