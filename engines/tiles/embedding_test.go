package tiles_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
	"github.com/overlapse/overlapse/viz/layout"
)

// TestFigure11 compares the simulated run of the sample with Figure 11 of the fused
// operators' paper (SC'24 section IV-C).
func TestFigure11(t *testing.T) {
	w, m := plantest.SampleOperator(t, "sc24-embedding-a2a-2nodes")
	out := enginetest.Detailed(t, w, m, "fused", map[string]string{"slice": "16"}, replay.Options{Ranks: []int{0}, Tiles: 1 << 15})
	run := out.Result.Run
	fig := must.Have(layout.Figure11(layout.View{Run: run}, layout.Figure{}))(t)
	var clusters [][]layout.Row
	for _, row := range fig.Rows {
		switch row.Kind {
		case layout.GroupHeading:
			clusters = append(clusters, nil)
		case layout.LaneRow:
			clusters[len(clusters)-1] = append(clusters[len(clusters)-1], row)
		}
	}
	if len(clusters) != 3 || len(clusters[0]) != 16 || len(clusters[1]) != 16 || len(clusters[2]) != 1 {
		t.Fatalf("%d groups, want two clusters of 16, and the link to the other node", len(clusters))
	}
	clusters = clusters[:2]
	waits := map[trace.Time]bool{}
	for i, rows := range clusters {
		if !slices.IsSortedFunc(rows, func(a, b layout.Row) int { return int(a.ComputeEnd - b.ComputeEnd) }) {
			t.Errorf("cluster %d is not sorted by when computation ended", i)
		}
		var puts [16]int
		lastPut, firstLocal := trace.Time(0), trace.Infinity
		for k, row := range rows {
			for _, mark := range row.Marks {
				switch mark.Kind {
				case layout.PutIssued:
					puts[k]++
					lastPut = max(lastPut, mark.At)
				case layout.SliceDone:
					firstLocal = min(firstLocal, mark.At)
				}
			}
			waits[waited(run, row)] = true
		}
		sum := 0
		for _, n := range puts {
			sum += n
		}
		if 2*puts[15] <= sum || puts[15] == sum {
			t.Errorf("cluster %d: the last row issued %d of %d puts, want most but not all", i, puts[15], sum)
		}
		if lastPut >= firstLocal {
			t.Errorf("cluster %d: a put at %d, after a local slice was complete at %d", i, lastPut, firstLocal)
		}
		computesOn(t, run, rows[15])
	}
	if len(waits) < 16 {
		t.Errorf("32 workgroups waited for %d different times: each has flags of its own", len(waits))
	}
}

// waited is the time for which a workgroup waited for flags after its last computation.
func waited(run *trace.Run, row layout.Row) (sum trace.Time) {
	for _, id := range row.Spans {
		if s := run.Spans[id]; s.Kind == trace.PhaseWait && s.Start >= row.ComputeEnd {
			sum += s.Dur()
		}
	}
	return sum
}

// computesOn checks that a workgroup does not wait for its put: its next computation
// begins when the put is issued, and most puts are still in flight at that time.
func computesOn(t *testing.T, run *trace.Run, row layout.Row) {
	t.Helper()
	starts := map[trace.Time]bool{}
	for _, id := range row.Spans {
		if s := run.Spans[id]; s.Kind == trace.PhaseCompute {
			starts[s.Start] = true
		}
	}
	under := func(at trace.Time) bool {
		return slices.ContainsFunc(run.Spans, func(s trace.Span) bool {
			return s.Kind == trace.Transfer && run.RankOf(s) == 0 && s.Start <= at && at < s.End
		})
	}
	flying := 0
	for _, mark := range row.Marks {
		if mark.Kind != layout.PutIssued {
			continue
		}
		if !starts[mark.At] {
			t.Fatalf("%s put at %d and did not go on computing", row.Label, mark.At)
		}
		if under(mark.At) {
			flying++
		}
	}
	if flying == 0 {
		t.Errorf("%s: no transfer was under way as it put: is the put blocking?", row.Label)
	}
}

// traffic sums up the bytes that kernels moved through a resource of a GPU.
func traffic(r *replay.Result, gpu int, res replay.Resource) (sum float64) {
	for _, x := range r.Traffic {
		if x.GPU == gpu && x.Resource == res {
			sum += x.Bytes
		}
	}
	return sum
}

// TestSlicesArePutOnce checks for several slice sizes, also with a partial last slice,
// that every vector is computed, that every slice for another node is put once, by one
// workgroup, and that no deadlock occurs.
func TestSlicesArePutOnce(t *testing.T) {
	w, m := plantest.OperatorOf(t, embeddingFile("mi210ibx2", 2, 64, 33, 70))
	for _, slice := range []int{1, 7, 16, 32, 600, 1056} {
		set := map[string]string{"slice": fmt.Sprint(slice)}
		if slice == 1056 { // more than the 624 resident workgroups
			if out := enginetest.Outcome(t, w, m, "fused", set); !strings.Contains(out.Why, "a cluster of as many workgroups does not fit") {
				t.Errorf("slice=%d: %q", slice, out.Why)
			}
			continue
		}
		run := enginetest.Detailed(t, w, m, "fused", set, replay.Options{}).Result.Run
		computed, puts, local := map[int32]int{}, map[int32]int{}, map[int32]int{}
		for _, s := range run.Spans {
			rank := run.Lanes[s.Lane].Rank
			switch {
			case s.Kind == trace.PhaseCompute:
				computed[rank]++
			case s.Kind == trace.PhasePut && run.NameOf(s) == "put":
				puts[rank]++
			case s.Kind == trace.PhasePut && run.NameOf(s) == "slice ready":
				local[rank]++
			}
		}
		want := machine.CeilDiv(64*33/2, slice)
		for rank := range int32(2) {
			if computed[rank] != 64*33 || puts[rank] != want || local[rank] != want {
				t.Errorf("slice=%d rank %d: %d vectors, %d puts, %d local slices, want %d, %d and %[6]d", slice, rank, computed[rank], puts[rank], local[rank], 64*33, want)
			}
		}
	}
	if out := enginetest.Outcome(t, w, m, "fused", map[string]string{"occupancy": "100"}); !strings.Contains(out.Why, "at most 7 of 8 workgroups fit") {
		t.Errorf("occupancy=100: %q", out.Why)
	}
}

// ends is the end time of each rank's last kernel.
func ends(r *replay.Result) []trace.Time {
	end := make([]trace.Time, len(r.Run.Ranks))
	for _, s := range r.Run.Spans {
		if s.Kind.OnDevice() {
			end[r.Run.RankOf(s)] = max(end[r.Run.RankOf(s)], s.End)
		}
	}
	return end
}

// TestObliviousOrderDelaysThePeer: in index order node 0 computes its own half
// first, so the slices for node 1 arrive late. The order of node 1 is the same in both
// cases (SC'24 section IV-C).
func TestObliviousOrderDelaysThePeer(t *testing.T) {
	for _, pooling := range []int{16, 32, 70} {
		w, m := plantest.OperatorOf(t, embeddingFile("mi210ibx2", 2, 512, 64, pooling))
		aware := ends(enginetest.Outcome(t, w, m, "fused", nil).Result)
		oblivious := ends(enginetest.Outcome(t, w, m, "fused", map[string]string{"order": "oblivious"}).Result)
		skew := func(e []trace.Time) float64 { return float64(e[1]-e[0]) / float64(e[0]) }
		t.Logf("pooling %d: skew %.1f %% aware, %.1f %% oblivious", pooling, 100*skew(aware), 100*skew(oblivious))
		if skew(oblivious) <= 0 || math.Abs(skew(aware)) >= skew(oblivious) {
			t.Errorf("pooling %d: nodes end at %v aware, %v oblivious; want node 1 late, and more so in index order", pooling, aware, oblivious)
		}
	}
}

// TestMeshOrderKeepsLinksBusy: if every pair of GPUs has its own link, a fused kernel in
// aware order uses all links equally from the beginning.
func TestMeshOrderKeepsLinksBusy(t *testing.T) {
	w, m := plantest.OperatorOf(t, "operator: gemm+all_to_all\nmachine: mi210x4\ntype: bf16\nshape: {m: 4096, n: 4096, k: 2048}\nkernel: {tile: 128x128, threads: 256, registers: 128, shared: 32768}")
	run := enginetest.Detailed(t, w, m, "fused", nil, replay.Options{}).Result.Run
	early, all := map[[2]int32]int{}, map[[2]int32]int{} // stores by rank and peer
	for _, s := range run.Spans {
		if s.Kind != trace.PhaseStore {
			continue
		}
		link := [2]int32{run.Lanes[s.Lane].Rank, run.Workgroup(s).Peer}
		all[link]++
		if s.Start < run.End/4 {
			early[link]++
		}
	}
	for rank := range int32(4) {
		for peer := range int32(4) {
			link := [2]int32{rank, peer}
			want := 4096 / 128 * 4096 / 128 / 4
			if n := all[link]; n < want-1 || n > want+1 {
				t.Errorf("rank %d stored %d tiles to %d, want %d", rank, n, peer, want)
			}
			switch n := early[link]; {
			case rank == peer && n != 0:
				t.Errorf("rank %d kept %d tiles for itself before those for others", rank, n)
			case rank != peer && n == 0:
				t.Errorf("link %d→%d idles in the first quarter", rank, peer)
			}
		}
	}
}

// embeddingFile is a workload file of an embedding and its all-to-all.
func embeddingFile(on string, ranks, batch, tables, pooling int) string {
	return fmt.Sprintf("operator: embedding+all_to_all\nmachine: %s\nranks: %d\ntype: f32\nshape: {batch: %d, tables: %d, dim: 256, pooling: %d}\nkernel: {launches: %[4]d}\n", on, ranks, batch, tables, pooling)
}
