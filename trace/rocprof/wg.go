package rocprof

import (
	"cmp"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A wgRow is one line of a *_wg_trace.csv. Ids that the file lacks are trace.None.
type wgRow struct {
	start, middle, end trace.Time // middle: end of the wait or of the computation
	kernel             int32      // row of wgReader.kernels
	rank, peer         int32
	id, persistent, cu int32
	tileRow, tileCol   int32
	repaired           bool // its times were changed, or it is in the file twice
}

// wgColumns are positions of columns; trace.None for one that the file lacks.
type wgColumns struct {
	rank, kernel, id, persistent, cu, peer, tileRow, tileCol int
	start, middle, end                                       int
	waits                                                    bool // middle is the end of the wait, not of the computation
}

type wgReader struct {
	t        *table
	b        trace.Builder
	columns  wgColumns
	kernels  []string
	kernelID map[string]int32
	rows     []wgRow
}

// ReadWG reads a *_wg_trace.csv: one row a workgroup or tile, times in
// nanoseconds. Columns: Kernel_Name, Workgroup_Id, Start_Timestamp,
// End_Timestamp and, where known, Rank, Persistent_Workgroup_Id, CU_Id,
// Destination_Rank, Tile_Row, Tile_Column and one of Compute_End_Timestamp
// (computes, then stores to Destination_Rank) and Wait_End_Timestamp (waits,
// then computes).
//
// A row becomes a Workgroup span with its phases as children; phases of no
// length are left out. Tiles lie on the lane of the persistent workgroup that
// ran them, with vacant spans (trace.Span.Vacant) between them and in the kernel's
// tail; other workgroups on the slots of their CU. The file has no kernels:
// one is added for each launch, from its first workgroup's start to the last
// one's end. A kernel's workgroup id that comes again is of its next launch.
//
// Rows that cannot be used are skipped, and times that contradict each other
// repaired, with an entry in the ledger.
func ReadWG(r io.Reader, file string) (*trace.Run, error) {
	t, err := newTable(r, file)
	if err != nil {
		return nil, err
	}
	if err := t.require("a workgroup trace has Kernel_Name, Workgroup_Id, Start_Timestamp and End_Timestamp",
		"kernel_name", "workgroup_id", "start_timestamp", "end_timestamp"); err != nil {
		return nil, err
	}
	g := wgReader{t: t, kernelID: map[string]int32{}, columns: wgColumns{
		rank:       t.column("rank"),
		kernel:     t.column("kernel_name"),
		id:         t.column("workgroup_id"),
		persistent: t.column("persistent_workgroup_id"),
		cu:         t.column("cu_id"),
		peer:       t.column("destination_rank"),
		tileRow:    t.column("tile_row"),
		tileCol:    t.column("tile_column"),
		start:      t.column("start_timestamp"),
		middle:     t.column("compute_end_timestamp", "wait_end_timestamp"),
		end:        t.column("end_timestamp"),
		waits:      t.has("wait_end_timestamp") && !t.has("compute_end_timestamp"),
	}}
	if err := t.each(&g.b, g.read); err != nil {
		return nil, err
	}
	if len(g.rows) == 0 {
		return nil, &trace.SyntaxError{File: file, Msg: "no row holds a workgroup", Err: noTimes}
	}
	g.addAll()
	first := slices.MinFunc(g.rows, func(x, y wgRow) int { return cmp.Compare(x.start, y.start) }).start
	run := g.b.Finish(trace.Options{Name: file})
	setEpoch(run, int64(first))
	return run, nil
}

// read keeps the record in hand or notes why not.
func (g *wgReader) read() {
	t, c := g.t, &g.columns
	start, ok1 := number(t.field(c.start))
	end, ok2 := number(t.field(c.end))
	id, ok3 := id32(t.field(c.id))
	if !ok1 || !ok2 || !ok3 {
		t.note(&g.b, trace.Skipped, "start, end or workgroup id is not a number")
		return
	}
	if !trace.ValidTime(start) || !trace.ValidTime(end) {
		t.note(&g.b, trace.Skipped, "start or end is not a time")
		return
	}
	row := wgRow{
		start:      trace.Time(start),
		end:        trace.Time(end),
		kernel:     g.kernel(t.field(c.kernel)),
		id:         id,
		rank:       g.optional(c.rank),
		persistent: g.optional(c.persistent),
		cu:         g.optional(c.cu),
		peer:       g.optional(c.peer),
		tileRow:    g.optional(c.tileRow),
		tileCol:    g.optional(c.tileCol),
	}
	if row.end < row.start {
		t.note(&g.b, trace.Repaired, "ends before it starts: clamped to zero duration")
		row.end, row.repaired = row.start, true
	}
	row.middle = row.end // all of it is computation, unless the file knows better
	if c.waits {
		row.middle = row.start
	}
	if c.middle != trace.None {
		middle, ok := number(t.field(c.middle))
		if m := trace.Time(middle); ok && m >= row.start && m <= row.end {
			row.middle = m
		} else {
			t.note(&g.b, trace.Repaired, "its phase ends before or after it: shown as one phase")
			row.repaired = true
		}
	}
	g.rows = append(g.rows, row)
}

// kernel returns the row of the name in g.kernels.
func (g *wgReader) kernel(name string) int32 {
	return trace.Memo(g.kernelID, name, func() int32 { return trace.Push(&g.kernels, name) })
}

// optional reads an id that the file or the row may lack.
func (g *wgReader) optional(column int) int32 {
	f := g.t.field(column)
	id, ok := id32(f)
	if !ok && strings.TrimSpace(f) != "" {
		g.t.note(&g.b, trace.Repaired, g.t.header[column]+" is not an id: treated as unknown")
	}
	return id
}

// id32 parses an id, which is never negative; it returns trace.None for anything else.
func id32(f string) (id int32, ok bool) {
	n, ok := number(f)
	if !ok || n < 0 || n > math.MaxInt32 {
		return trace.None, false
	}
	return int32(n), true
}

// addAll turns the rows into spans, in an order that does not depend on the
// order of the lines.
func (g *wgReader) addAll() {
	slices.SortFunc(g.rows, func(x, y wgRow) int {
		return cmp.Or(g.launch(x, y), cmp.Compare(x.start, y.start), cmp.Compare(x.end, y.end),
			cmp.Compare(x.id, y.id), cmp.Compare(x.cu, y.cu))
	})
	kept := g.rows[:1]
	for _, row := range g.rows[1:] {
		last := &kept[len(kept)-1]
		same := *last
		if same.repaired = row.repaired; row == same {
			g.b.Note(trace.Skipped, g.t.file, trace.Doubled, "", 0)
			last.repaired = true
			continue
		}
		kept = append(kept, row)
	}
	g.rows = kept
	ranks := map[int32]int32{} // rows of Run.Ranks
	for _, rows := range trace.Alike(g.rows, func(x, y wgRow) bool { return g.launch(x, y) == 0 }) {
		id := rows[0].rank
		rank := trace.Memo(ranks, id, func() int32 {
			r := trace.Rank{ID: int(id), Source: g.t.file}
			if len(ranks) > 0 {
				r.Uncertainty = trace.None // each GPU has its own timer
			}
			return g.b.AddRank(r)
		})
		split := launches(rows)
		constant := sameID(split, len(rows))
		if constant {
			split = byGaps(rows)
		}
		for _, launch := range split {
			id := g.addKernel(launch, rank)
			if constant {
				g.b.NoteSpan(id, trace.Repaired, g.t.file, "Workgroup_Id is the same in workgroups that run at the same time: numbered by start", "", 0)
			} else if damaged(launch) {
				g.b.NoteSpan(id, trace.Repaired, g.t.file, "over 1 % of the workgroups of a kernel were repaired, or are in the file twice", "", 0)
			}
		}
	}
}

// launch orders rows by rank and kernel.
func (g *wgReader) launch(x, y wgRow) int {
	return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(g.kernels[x.kernel], g.kernels[y.kernel]))
}

// launches splits the rows of one kernel, which are in order of start: the
// n-th row of a workgroup id is of the n-th launch.
func launches(rows []wgRow) [][]wgRow {
	var split [][]wgRow
	seen := make(map[int32]int, len(rows))
	for _, row := range rows {
		n := seen[row.id]
		seen[row.id]++
		if n == len(split) {
			split = append(split, nil)
		}
		split[n] = append(split[n], row)
	}
	return split
}

// sameID reports whether the ids of workgroups do not tell launches apart: most launches
// would have a single workgroup, and run beside each other.
func sameID(launches [][]wgRow, rows int) bool {
	const fewest = 64
	if len(launches) < max(fewest, rows/2) {
		return false
	}
	for i, l := range launches[1:] {
		if l[0].start < launches[i][0].end {
			return true
		}
	}
	return false
}

// byGaps splits rows in order of start where none of them runs, and numbers the workgroups.
func byGaps(rows []wgRow) (split [][]wgRow) {
	first, end := 0, rows[0].end
	for i := range rows {
		if rows[i].start >= end && i > first {
			split, first = append(split, rows[first:i]), i
		}
		rows[i].id, end = int32(i-first), max(end, rows[i].end)
	}
	return append(split, rows[first:])
}

// damaged reports whether over 1 % of the workgroups were repaired.
func damaged(rows []wgRow) bool {
	n := 0
	for i := range rows {
		if rows[i].repaired {
			n++
		}
	}
	return n*100 > len(rows)
}

// addKernel adds one launch of a kernel and its workgroups.
func (g *wgReader) addKernel(rows []wgRow, rank int32) trace.SpanID {
	physical := map[int32]bool{}
	end := rows[0].end
	for _, row := range rows {
		physical[row.persistent] = true
		end = max(end, row.end)
	}
	workgroups := len(rows)
	persistent := !physical[trace.None] && len(physical) < len(rows)
	if persistent {
		workgroups = len(physical)
	}
	kernel := g.b.Add(trace.Span{
		Start:  rows[0].start,
		End:    end,
		Name:   g.b.Intern(g.kernels[rows[0].kernel]),
		Lane:   g.b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None}),
		Parent: trace.None,
		Attr: g.b.AddKernel(trace.Kernel{
			Setup: g.b.AddSetup(trace.Setup{Grid: [3]int32{int32(workgroups), 1, 1}}), Comm: trace.None,
			Op: trace.None, Origin: trace.None,
		}),
		Kind: trace.Compute,
	})
	for _, row := range rows {
		lane := trace.Lane{Kind: trace.Slot, Rank: rank, ID: int64(row.cu), Peer: trace.None}
		if persistent {
			lane = trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(row.persistent), Peer: trace.None}
		}
		g.addWorkgroup(row, kernel, g.b.Lane(lane))
	}
	if persistent {
		g.addVacant(rows, kernel, rank)
	}
	return kernel
}

// addVacant adds the time in which persistent workgroups had no tile while their kernel ran: between the end of one and the
// start of the next, of which the file does not say more, and the tail. The rows are those of a launch, by start.
func (g *wgReader) addVacant(rows []wgRow, kernel trace.SpanID, rank int32) {
	k := *g.b.Span(kernel)
	vacant := func(persistent int32, from, to trace.Time, name string) {
		if from < to {
			lane := g.b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(persistent), Peer: trace.None})
			g.b.Add(trace.Span{
				Kind: trace.PhaseWait, Lane: lane, Start: from, End: to, Name: g.b.Intern(name), Parent: trace.None, Attr: trace.None,
			})
		}
	}
	done := map[int32]trace.Time{} // of each persistent workgroup
	var order []int32
	for _, row := range rows {
		at, seen := done[row.persistent]
		if !seen {
			at = k.Start
			order = append(order, row.persistent)
		}
		name := "between tiles"
		if !seen {
			name = "before the first tile"
		}
		vacant(row.persistent, at, row.start, name)
		done[row.persistent] = max(at, row.end)
	}
	for _, persistent := range order {
		vacant(persistent, done[persistent], k.End, "tail of "+g.kernels[rows[0].kernel])
	}
}

// addWorkgroup adds a workgroup and those of its phases that have a length.
func (g *wgReader) addWorkgroup(row wgRow, kernel trace.SpanID, lane trace.LaneID) {
	s := trace.Span{Start: row.start, End: row.end, Lane: lane, Parent: kernel, Kind: trace.Workgroup}
	s.Name = g.b.Span(kernel).Name
	s.Attr = g.b.AddWorkgroup(trace.WorkgroupAttr{
		ID: row.id, Persistent: row.persistent, CU: row.cu, Peer: row.peer, Row: row.tileRow, Col: row.tileCol,
	})
	s.Parent = g.b.Add(s)
	first, second := trace.PhaseCompute, trace.PhaseStore
	if g.columns.waits {
		first, second = trace.PhaseWait, trace.PhaseCompute
	}
	if s.Kind, s.End = first, row.middle; s.End > s.Start {
		g.b.Add(s)
	}
	if s.Kind, s.Start, s.End = second, row.middle, row.end; s.End > s.Start {
		g.b.Add(s)
	}
}
