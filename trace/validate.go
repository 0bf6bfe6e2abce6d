package trace

import (
	"fmt"
	"math"
	"time"
)

// MaxTime bounds every time: readers skip events beyond it in either direction, and no
// run is longer. It is a quarter of Time's range, so that sums and differences of a few
// times cannot overflow. As nanoseconds since 1970 it is in the year 2043.
const MaxTime = math.MaxInt64 / 4

// ValidTime reports whether a number of nanoseconds is within MaxTime.
func ValidTime(ns int64) bool { return ns >= -MaxTime && ns <= MaxTime }

// Validate checks the invariants of a finished run: ids and rows are in bounds,
// spans are sorted by start, a parent precedes its children, is of their rank
// and contains them, spans of a lane do not overlap unless the lane nests, and
// times are within MaxTime. It returns the first violation.
//
// It takes time linear in the size of the run and allocates per lane only.
func Validate(r *Run) error {
	v := validator{r}
	for _, check := range [...]func() error{
		v.ranks, v.lanes, v.tables, v.accesses, v.communication, v.waits, v.spans, v.nodes,
		v.captured, v.collectives,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// Check is Validate with an error message for the user of the input file. It also refuses
// queues on which thousands of kernels run at a time: their times are wrong, and each would
// take a row of its own.
func Check(r *Run) error {
	const most = 4096
	for _, l := range r.Lanes {
		if l.Kind == Queue && l.Sub >= most {
			return &SyntaxError{
				File: r.Name, Msg: fmt.Sprintf("over %d kernels run at the same time on queue %d: start or end times are wrong",
					most, l.ID),
				Cure: "record or copy the trace again",
			}
		}
	}
	if r.End > MaxTime {
		return &SyntaxError{
			File: r.Name, Msg: fmt.Sprintf("its times are %s apart, and the most is %s", Roughly(r.End), Roughly(MaxTime)),
			Cure: "remove the events with wrong times",
		}
	}
	err := Validate(r)
	if err == nil {
		return nil
	}
	return &SyntaxError{File: r.Name, Msg: "its contents contradict each other", Err: err, Cure: "write or copy the file again"}
}

type validator struct{ *Run }

// row reports whether an index is None or below n.
func row(i int32, n int) bool { return i == None || i >= 0 && int(i) < n }

func (v validator) ranks() error {
	if len(v.Names) > 0 && v.Names[0] != "" {
		return fmt.Errorf("name 0 is %.40q", v.Names[0])
	}
	if max(v.Epoch, -v.Epoch, v.Clock, -v.Clock) > math.MaxInt64/2 || min(v.Epoch, v.Clock) == math.MinInt64 {
		return fmt.Errorf("time 0 is at %d since 1970, %d of the machine's clock", v.Epoch, v.Clock)
	}
	for i, k := range v.Ranks {
		d := &k.Device
		switch {
		case k.ID < None || k.World < 0:
			return fmt.Errorf("rank row %d: rank %d of %d", i, k.ID, k.World)
		case min(d.CUs, d.WaveSize, d.ThreadsPerCU, d.RegistersPerCU, d.SharedPerCU, d.SharedPerWG) < 0 || d.MemoryBytes < 0:
			return fmt.Errorf("rank row %d: negative property of device %.40q", i, d.Name)
		case k.Shift < -2*MaxTime || k.Shift > 2*MaxTime || k.Uncertainty < None || k.Uncertainty > 2*MaxTime:
			return fmt.Errorf("rank row %d: clock shifted by %d ± %d", i, k.Shift, k.Uncertainty)
		}
	}
	return nil
}

func (v validator) lanes() error {
	for i, l := range v.Lanes {
		if !row(l.Rank, len(v.Ranks)) || l.Rank == None || !row(l.Peer, len(v.Ranks)) || int(l.Kind) >= len(laneKindNames) {
			return fmt.Errorf("lane %d: kind %d of rank row %d, peer %d among %d ranks", i, l.Kind, l.Rank, l.Peer, len(v.Ranks))
		}
	}
	return nil
}

// call reports whether a span is None or a host call.
func (v validator) call(id SpanID) bool {
	if id == None {
		return true
	}
	return id >= 0 && int(id) < len(v.Spans) && (v.Spans[id].Kind == HostCall || v.Spans[id].Kind == Launch)
}

// tables checks the rows that spans refer to.
func (v validator) tables() error {
	for i := range v.Kernels {
		k := &v.Kernels[i]
		if !row(k.Comm, len(v.Comms)) || !row(k.Op, len(v.Operators)) || !row(k.Setup-1, len(v.Setups)) ||
			k.Origin < None || !v.call(k.Launch) {
			return fmt.Errorf("kernel %d: collective %d, operator %d, setup %d, origin %d, launched by span %d", i, k.Comm, k.Op,
				k.Setup, k.Origin, k.Launch)
		}
	}
	for i, s := range v.Setups {
		if min(s.Grid[0], s.Grid[1], s.Grid[2], s.Block[0], s.Block[1], s.Block[2], s.Shared, s.Registers) < 0 {
			return fmt.Errorf("setup %d: grid %d of blocks %d with %d bytes of shared memory, %d registers", i, s.Grid,
				s.Block, s.Shared, s.Registers)
		}
	}
	for i := range v.Copies {
		if c := &v.Copies[i]; !row(c.Op, len(v.Operators)) || c.Bytes < 0 || c.Peer < None || c.Origin < None || !v.call(c.Launch) {
			return fmt.Errorf("copy %d: operator %d, %d bytes, peer %d, origin %d, launched by span %d", i, c.Op,
				c.Bytes, c.Peer, c.Origin, c.Launch)
		}
	}
	for i := range v.Workgroups {
		if w := &v.Workgroups[i]; min(w.ID, w.Persistent, w.CU, w.Peer, w.Row, w.Col) < None {
			return fmt.Errorf("workgroup %d: %+v", i, *w)
		}
	}
	for i := range v.Calls {
		if c := &v.Calls[i]; !row(c.Op, len(v.Operators)) {
			return fmt.Errorf("call %d: operator %d of %d", i, c.Op, len(v.Operators))
		}
	}
	return nil
}

func (v validator) communication() error {
	for i := range v.Comms {
		if c := &v.Comms[i]; !row(c.Group, len(v.Groups)) || c.Op >= numOps || min(c.In, c.Out) < 0 || c.ElemSize < 0 || c.Peer < None ||
			!row(c.Collective, len(v.Collectives)) {
			return fmt.Errorf("collective %d: operation %d in group %d, %d and %d bytes of %d, peer %d", i, c.Op, c.Group,
				c.In, c.Out, c.ElemSize, c.Peer)
		}
	}
	for i := range v.Groups {
		g := &v.Groups[i]
		if g.Size < 0 || g.Size > 0 && g.Size < len(g.Ranks) {
			return fmt.Errorf("group %d: %d ranks, size %d", i, len(g.Ranks), g.Size)
		}
		for j, id := range g.Ranks {
			if id < 0 || j > 0 && id < g.Ranks[j-1] {
				return fmt.Errorf("group %d: rank %d after others", i, id)
			}
		}
	}
	return nil
}

func (v validator) waits() error {
	for i := range v.Ranks {
		for _, x := range v.Ranks[i].Memory {
			if x.Bytes < 0 || x.At < -2*MaxTime || x.At > 2*MaxTime {
				return fmt.Errorf("rank row %d: %d bytes of memory at %d", i, x.Bytes, x.At)
			}
		}
	}
	for i := range v.Waits {
		w := &v.Waits[i]
		if !row(w.Rank, len(v.Ranks)) || w.Rank == None || w.Start > w.End || w.Start < -2*MaxTime || w.End > 2*MaxTime ||
			!v.call(w.Call) || !v.call(w.Recorded) {
			return fmt.Errorf("wait %d: from %d to %d on rank row %d", i, w.Start, w.End, w.Rank)
		}
	}
	return nil
}

func (v validator) spans() error {
	free := make([]Time, len(v.Lanes)) // end of each lane's last span
	for i := range free {
		free[i] = -Infinity
	}
	var previous, last Time = -Infinity, 0
	for i := range v.Spans {
		s := &v.Spans[i]
		switch {
		case s.Lane < 0 || int(s.Lane) >= len(v.Lanes) || s.Name < 0 || int(s.Name) >= len(v.Names):
			return fmt.Errorf("span %d: lane %d of %d, name %d of %d", i, s.Lane, len(v.Lanes), s.Name, len(v.Names))
		case s.Kind >= NumKinds || !row(s.Attr, v.RowsOf(s.Kind)):
			return fmt.Errorf("span %d: row %d of %d for kind %s", i, s.Attr, v.RowsOf(s.Kind), s.Kind)
		case s.End < s.Start:
			return fmt.Errorf("span %d: ends at %d, before its start %d", i, s.End, s.Start)
		case s.Start < -MaxTime || s.End > MaxTime:
			return fmt.Errorf("span %d: from %v to %v, and the most is %v", i, time.Duration(s.Start),
				time.Duration(s.End), time.Duration(MaxTime))
		case s.Start < previous:
			return fmt.Errorf("span %d: starts at %d, before its predecessor's %d", i, s.Start, previous)
		case s.Parent < None || int(s.Parent) >= i:
			return fmt.Errorf("span %d: parent %d does not precede it", i, s.Parent)
		}
		lane := &v.Lanes[s.Lane]
		if s.Parent != None && !v.Spans[s.Parent].contains(s) {
			p := &v.Spans[s.Parent]
			return fmt.Errorf("span %d: from %d to %d, its parent %d from %d to %d", i, s.Start, s.End, s.Parent, p.Start, p.End)
		}
		if s.Parent != None && v.Lanes[v.Spans[s.Parent].Lane].Rank != lane.Rank {
			return fmt.Errorf("span %d: its parent %d is of another rank", i, s.Parent)
		}
		if !nests(lane, s) {
			if s.Start < free[s.Lane] {
				return fmt.Errorf("span %d: starts at %d, its lane %d is free at %d", i, s.Start, s.Lane, free[s.Lane])
			}
			free[s.Lane] = s.End
		}
		previous, last = s.Start, max(last, s.End)
	}
	if v.End != last {
		return fmt.Errorf("the run ends at %d, its last span at %d", v.End, last)
	}
	return nil
}

func (v validator) collectives() error {
	for i := range v.Collectives {
		for _, m := range v.Collectives[i].Members {
			if m.Span < 0 || int(m.Span) >= len(v.Spans) || v.Spans[m.Span].Kind != Collective || v.RankOf(v.Spans[m.Span]) != int(m.Row) {
				return fmt.Errorf("collective %d: span %d of rank row %d", i, m.Span, m.Row)
			}
		}
	}
	return nil
}

// contains reports whether another span lies within this one.
func (s *Span) contains(t *Span) bool { return s.Start <= t.Start && t.End <= s.End }

// nests reports whether the span may overlap others of its lane: host thread and
// annotation spans, and phases, lie within their parents.
func nests(l *Lane, s *Span) bool {
	return l.Kind == HostThread || l.Kind == Annotation || s.Kind.InKernel() && s.Kind != Workgroup
}

// RowsOf is the length of the side table of a kind.
func (r *Run) RowsOf(k Kind) int {
	switch {
	case k == HostCall || k == Launch:
		return len(r.Calls)
	case k == Compute || k == Collective:
		return len(r.Kernels)
	case k == Copy || k == Transfer:
		return len(r.Copies)
	case k.InKernel():
		return len(r.Workgroups)
	}
	return 0
}

// Roughly is a gap between files for the user: 102 days, 10h17m, 1.5s.
func Roughly(t Time) string {
	const day = 24 * time.Hour
	switch d := time.Duration(t); {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Minute:
		return d.Round(time.Second).String()
	default:
		return d.String()
	}
}
