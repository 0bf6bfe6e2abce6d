package layout

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// Completion is when the last computation of a row of workgroups ended, or its last span
// if none is known to compute, on the axis.
func (t *Timeline) Completion(row int) trace.Time {
	end, run := t.Rows[row].ComputeEnd, t.Run(row)
	if end == 0 {
		end = computeEnd(run, t.Rows[row].Spans)
	}
	if end == 0 {
		for _, id := range t.Rows[row].Spans {
			end = max(end, run.Spans[id].End)
		}
	}
	return end + t.Offset(row)
}

// A Difference is how much later a row of workgroups is complete than another one.
type Difference struct {
	Row, Than int // Than is None where it is the median of its kernel
	Later     trace.Time
}

// Differences compares the rows of workgroups of every run with those of the first run
// that has them, operation by operation and lane by lane, or, if there is one run, with
// the median of their kernel. Of an operation in parts a lane's last part counts. The
// largest difference comes first.
func (t *Timeline) Differences() []Difference {
	type place struct {
		op    int32
		label string
	}
	var list []Difference
	last := make([]map[place]int, len(t.Views)) // the row that is complete last
	var places []place                          // of all views, in order
	for heading := range t.Rows {
		rows := t.workgroupsBelow(heading)
		if len(rows) == 0 {
			continue
		}
		view, op := t.Rows[heading].View, t.operationOf(heading)
		ends := make([]trace.Time, len(rows))
		for i, row := range rows {
			ends[i] = t.Completion(row)
		}
		slices.Sort(ends)
		median := ends[len(ends)/2]
		for _, row := range rows {
			if len(t.Views) == 1 {
				list = append(list, Difference{row, trace.None, t.Completion(row) - median})
				continue
			}
			key := place{op, t.Rows[row].Label}
			if last[view] == nil {
				last[view] = map[place]int{}
			}
			was, known := last[view][key]
			if !known {
				places = append(places, key)
			}
			if !known || t.Completion(row) > t.Completion(was) {
				last[view][key] = row
			}
		}
	}
	compared := map[int]bool{}
	for _, key := range places {
		than := trace.None
		for view := range t.Views {
			row, ok := last[view][key]
			switch {
			case !ok || compared[row]:
			case than == trace.None:
				than = row
			default:
				compared[row] = true
				list = append(list, Difference{row, than, t.Completion(row) - t.Completion(than)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Difference) int { return cmp.Compare(max(b.Later, -b.Later), max(a.Later, -a.Later)) })
	return list
}

// operationOf is the operation that the kernel of a heading stands for, or None.
func (t *Timeline) operationOf(heading int) int32 {
	if r := &t.Rows[heading]; len(r.Spans) > 0 && !r.Strip {
		if k := t.Run(heading).Kernel(t.Span(heading, r.Spans[0])); k != nil {
			return k.Origin
		}
	}
	return trace.None
}

// workgroupsBelow are the rows of workgroups directly below a heading.
func (t *Timeline) workgroupsBelow(heading int) (rows []int) {
	for i := heading + 1; i < t.Rows[heading].After; i = t.Rows[i].After {
		if r := &t.Rows[i]; r.Kind == LaneRow && onWorkgroups(t.Run(i).Lanes[r.Lane].Kind) {
			rows = append(rows, i)
		}
	}
	return rows
}
