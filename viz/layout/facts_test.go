package layout

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// twoRanks is an all_reduce of 64 MiB between two ranks, of which rank 1 comes
// 30 µs late; the GEMM before it on rank 0 with the call that launched it; a
// copy; and a tile that computes and stores to rank 1.
func twoRanks() *trace.Run {
	var b trace.Builder
	group := b.AddGroup(trace.Group{Name: "tp", Ranks: []int{0, 1}, Size: 2})
	add := func(s trace.Span, lane trace.Lane, name string) trace.SpanID {
		s.Start, s.End = s.Start*1000, s.End*1000
		lane.Peer = trace.None
		s.Lane, s.Name = b.Lane(lane), b.Intern(name)
		return b.Add(s)
	}
	for rank := range int32(2) {
		b.AddRank(trace.Rank{ID: int(rank), World: 2})
		comm := b.AddComm(trace.Comm{Op: trace.AllReduce, Group: group, Seq: 4, In: 64 << 20, Out: 64 << 20, DType: "bf16", Peer: trace.None})
		kernel := b.AddKernel(trace.Kernel{Setup: b.AddSetup(trace.Setup{Stream: 20}), Comm: comm, Op: trace.None})
		late := trace.Time(30 * rank)
		add(trace.Span{Kind: trace.Collective, Start: 200 + late, End: 400 + late/10, Parent: trace.None, Attr: kernel},
			trace.Lane{Kind: trace.Queue, Rank: rank, ID: 20}, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
	}
	gemm := b.AddKernel(trace.Kernel{Setup: b.AddSetup(trace.Setup{Grid: [3]int32{4, 33, 1}, Block: [3]int32{384, 1, 1}, Registers: 168, Shared: 1024, Stream: 7, Priority: -1}), Correlation: 9, Comm: trace.None, Op: b.AddOperator(trace.Operator{Name: "aten::mm", Dims: [][]int64{{16, 8}, {8, 4}}})})
	add(trace.Span{Kind: trace.Launch, Start: 10, End: 20, Parent: trace.None, Attr: b.AddCall(trace.Call{Correlation: 9, Op: trace.None})},
		trace.Lane{Kind: trace.HostThread, ID: 1}, "cudaLaunchKernel")
	k := add(trace.Span{Kind: trace.Compute, Start: 100, End: 190, Parent: trace.None, Attr: gemm},
		trace.Lane{Kind: trace.Queue, ID: 7}, "void cutlass::(anonymous namespace)::gemm<float>(int)")
	add(trace.Span{Kind: trace.Copy, Start: 100, End: 101, Parent: trace.None, Attr: b.AddCopy(trace.CopyAttr{Bytes: 1 << 20, Dir: trace.PeerToPeer, Peer: 1, Op: trace.None})},
		trace.Lane{Kind: trace.Engine, ID: 0}, "Memcpy PtoP")
	tile := trace.Span{Kind: trace.Workgroup, Start: 100, End: 150, Parent: k, Attr: b.AddWorkgroup(trace.WorkgroupAttr{ID: 12, Persistent: 3, CU: 40, Peer: 1, Row: 0, Col: trace.None})}
	slot := trace.Lane{Kind: trace.Persistent, ID: 3}
	wg := add(tile, slot, "gemm")
	tile.Parent, tile.Kind, tile.End = wg, trace.PhaseCompute, 130
	add(tile, slot, "gemm")
	tile.Kind, tile.Start, tile.End = trace.PhaseStore, 130, 150
	add(tile, slot, "gemm")
	return b.Finish(trace.Options{KeepZero: true})
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.50 KiB", 64 << 20: "64 MiB", 3 << 40: "3 TiB", 1 << 60: "1048576 TiB"} {
		if got := trace.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestRange(t *testing.T) {
	for _, c := range []struct {
		least, most int64
		want        string
	}{{25 << 20, 30 << 20, "25 to 30 MiB"}, {260 << 10, 260<<10 + 1, "260 KiB"}, {512, 2048, "512 B to 2 KiB"}} {
		if got := trace.Range(c.least, c.most); got != c.want {
			t.Errorf("Range(%d, %d) = %q, want %q", c.least, c.most, got, c.want)
		}
	}
}

// Spans and gaps are found on the rows of a run.
func TestRowsOf(t *testing.T) {
	run := twoRanks()
	tl := New([]View{{Run: run, Name: "a"}, {Run: run, Name: "b", Offset: 100, Gaps: []overlap.Reason{{Rank: 0, Queue: 7, Start: 5, End: 10, Cause: "flag"}}}})
	for id := range run.Spans {
		for v := range tl.Views {
			row := tl.RowOf(v, trace.SpanID(id))
			if row == trace.None || tl.Rows[row].View != v || tl.Rows[row].Lane != run.Spans[id].Lane {
				t.Errorf("span %d of view %d is on row %d", id, v, row)
			}
		}
	}
	for _, c := range []struct {
		row  int
		at   trace.Time
		want bool
	}{{13, 104, false}, {13, 105, true}, {13, 109, true}, {13, 110, false}, {14, 105, false}, {2, 105, false}, {12, 105, false}} {
		stalled := slices.ContainsFunc(tl.Stalls(c.row), func(g overlap.Reason) bool { return g.Start <= c.at && c.at < g.End })
		if stalled != c.want {
			t.Errorf("row %d at %d: stalled %v", c.row, c.at, stalled)
		}
	}
}

func TestAlign(t *testing.T) {
	var b trace.Builder
	lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: b.AddRank(trace.Rank{}), Peer: trace.None})
	b.Add(trace.Span{End: 5, Kind: trace.Compute, Lane: lane, Parent: trace.None, Attr: trace.None})
	views := []View{{Run: twoRanks()}, {Run: b.Finish(trace.Options{})}, {Run: &trace.Run{}}}
	Align(views, []trace.Time{100_000, 2, 0})
	for i, want := range []trace.Time{-10_000, 89_998, 90_000} { // the host starts at 10 µs
		if views[i].Offset != want {
			t.Errorf("view %d is shifted by %d, want %d", i, views[i].Offset, want)
		}
	}
}
