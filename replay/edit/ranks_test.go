package edit_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Groups of a job of 8 ranks, and what they become.
func TestGroups(t *testing.T) {
	tensor := []trace.Group{{Name: "tp", Ranks: []int{0, 1}, Size: 2}, {Name: "dp", Ranks: []int{0, 2, 4, 6}, Size: 4}, {Name: "world", Size: 8}, {Name: "dp of rank 1", Ranks: []int{1, 3, 5, 7}, Size: 4}}
	for _, c := range []struct {
		group string
		n     int
		rank  int // new number of rank 1
		want  string
		err   string
		named bool // the program calls one group data-parallel
	}{
		{group: "", n: 8, rank: 1, named: true, want: "tp [0 1], dp [0 2 4 6 8 10 12 14], world [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15], dp of rank 1 [1 3 5 7 9 11 13 15]"},
		{group: "data", n: 8, rank: 1, named: true, want: "tp [0 1], dp [0 2 4 6 8 10 12 14], world [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15], dp of rank 1 [1 3 5 7 9 11 13 15]"},
		{group: "mesh_TP", n: 2, rank: 1, named: true, want: "tp [0 1], dp [0 2 4 6], world [0 1 2 3 4 5 6 7], dp of rank 1 [1 3 5 7]"},
		{group: "dp", n: 8, rank: 1, want: "tp [0 1], dp [0 2 4 6 8 10 12 14], world [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15], dp of rank 1 [1 3 5 7 9 11 13 15]"},
		{group: "DP", n: 2, rank: 1, want: "tp [0 1], dp [0 2], world [0 1 2 3], dp of rank 1 [1 3]"},
		{group: "tp", n: 4, rank: 1, want: "tp [0 1 2 3], dp [0 4 8 12], world [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15], dp of rank 1 [1 5 9 13]"},
		{group: "world", n: 16, rank: 1, want: "tp [0 1], dp [0 2 4 6], world [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15], dp of rank 1 [1 3 5 7]"},
		{group: "", n: 16, err: "the trace has several groups: give one by name, as in GROUP=N: tp (2 ranks), dp (4 ranks), world (8 ranks), dp of rank 1 (4 ranks)"},
		{group: "pp", n: 16, err: `the trace has no collectives in a group "pp": it has tp (2 ranks), dp (4 ranks), world (8 ranks), dp of rank 1 (4 ranks)`},
		{group: "dp", n: 1, err: "1 ranks make a job of 2 (want 2 to 4096 ranks)"},
		{group: "dp", n: 4096, err: "4096 ranks make a job of 8192 (want 2 to 4096 ranks)"},
	} {
		run := &trace.Run{Ranks: []trace.Rank{{ID: 0, World: 8}, {ID: 1, World: 8}}, Groups: slices.Clone(tensor)}
		for i := range tensor {
			run.Comms = append(run.Comms, trace.Comm{Op: trace.AllReduce, Group: int32(i), Peer: trace.None, In: 64, Out: 64})
		}
		if c.named {
			run.Groups[1].Doc, run.Groups[0].Doc = "mesh_dp_shard", "mesh_tp"
		}
		got, _, err := edit.Ranks(run, 8, c.group, c.n)
		if err != nil || c.err != "" {
			if fmt.Sprint(err) != c.err {
				t.Errorf("%s=%d: error %v, want %s", c.group, c.n, err, c.err)
			}
			continue
		}
		var words []string
		for _, g := range got.Groups {
			words = append(words, fmt.Sprint(g.Name, " ", g.Ranks))
		}
		if s := strings.Join(words, ", "); s != c.want || got.Ranks[1].ID != c.rank {
			t.Errorf("%s=%d: rank %d, %s\nwant rank %d, %s", c.group, c.n, got.Ranks[1].ID, s, c.rank, c.want)
		}
		if run.Ranks[1].World != 8 || run.Groups[2].Ranks != nil {
			t.Errorf("%s=%d: the captured run changed", c.group, c.n)
		}
	}
}

// A captured rank that a smaller group has not, and ranks that are no line of a grid, are
// errors.
func TestGroupErrors(t *testing.T) {
	run := &trace.Run{Ranks: []trace.Rank{{ID: 3, World: 4}}, Comms: []trace.Comm{{Op: trace.AllReduce, Group: 0, Peer: trace.None}}}
	for _, c := range []struct {
		ranks []int
		n     int
		want  string
	}{
		{[]int{0, 1, 2, 3}, 2, "the trace holds rank 3, which a group of 2 does not have"},
		{[]int{0, 1, 3}, 6, `the ranks of group "g", [0 1 3], are not evenly spaced among 4`},
		{[]int{1, 2}, 6, `the ranks of group "g", [1 2], are not evenly spaced among 4`},
	} {
		run.Groups = []trace.Group{{Name: "g", Ranks: c.ranks}}
		if _, _, err := edit.Ranks(run, 4, "", c.n); fmt.Sprint(err) != c.want {
			t.Errorf("%v: error %v, want %s", c.ranks, err, c.want)
		}
	}
	run.Comms = nil
	if _, _, err := edit.Ranks(run, 4, "", 8); fmt.Sprint(err) != "the trace has no collectives" {
		t.Errorf("error %v", err)
	}
}

// Collectives that ran before the profiler recorded are of no group: they leave the only group in use, and its ranks that
// rotate what they have keep their number.
func TestGroupsBesideUnknown(t *testing.T) {
	exchange := func(sent int64) trace.Comm {
		return trace.Comm{Op: trace.AllToAll, Group: 0, Peer: trace.None, In: 64, Out: 64, Sent: sent}
	}
	unknown := trace.Comm{Op: trace.AllGather, Group: trace.None, Peer: trace.None}
	sized := unknown
	sized.Out = 64
	const rotates = `group "cp": its ranks pass whole buffers on, as ring attention does: in a group of another size each would compute with more or fewer of them`
	for _, c := range []struct {
		comms []trace.Comm
		n     int
		err   string
	}{
		{[]trace.Comm{unknown, exchange(32), exchange(64)}, 4, ""},
		{[]trace.Comm{sized, exchange(32), exchange(64)}, 4, "the trace has several groups: give one by name, as in GROUP=N: cp (2 ranks)"},
		{[]trace.Comm{exchange(64)}, 4, ""}, // of one alone it may be chance
		{[]trace.Comm{unknown, exchange(64), exchange(64)}, 4, rotates},
		{[]trace.Comm{unknown, exchange(64), exchange(64)}, 2, ""},
	} {
		run := &trace.Run{Ranks: []trace.Rank{{ID: 0, World: 2}}, Groups: []trace.Group{{Name: "cp", Size: 2}}, Comms: c.comms}
		got, _, err := edit.Ranks(run, 2, "", c.n)
		if err != nil || c.err != "" {
			if fmt.Sprint(err) != c.err {
				t.Errorf("%+v to %d: error %v, want %q", c.comms, c.n, err, c.err)
			}
			continue
		}
		if last := got.Comms[len(got.Comms)-1]; last.In != 64 || last.Sent != 0 {
			t.Errorf("%+v to %d: %+v", c.comms, c.n, last)
		}
	}
}

// resized is a sample in a job of n ranks.
func resized(t *testing.T, name string, n int) (captured, w *workload.Workload) {
	t.Helper()
	run, err := format.Open(filepath.Join("../../samples", name), format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	captured, err = lift.Workload(run, lift.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := plantest.H200(t, captured.World)
	if captured, err = engines.Isolate(captured, m, nil); err != nil {
		t.Fatal(err)
	}
	grown, z, err := edit.Ranks(run, captured.World, "", n)
	if err != nil {
		t.Fatal(err)
	}
	lifted, err := lift.Workload(grown, lift.Options{})
	if err != nil {
		t.Fatal(err)
	}
	to, err := m.Sized(n)
	if err != nil {
		t.Fatal(err)
	}
	return captured, z.Lifted(lifted, captured, m, to)
}

// DDP with more ranks: all-reduces have as many bytes and more ranks, compute stays.
func TestMoreRanks(t *testing.T) {
	captured, w := resized(t, "ddp-step", 8)
	if w.World != 8 || len(w.Collectives) != len(captured.Collectives) {
		t.Fatalf("%d ranks, %d collectives; want 8 and %d", w.World, len(w.Collectives), len(captured.Collectives))
	}
	for i := range w.Collectives {
		a, b := &captured.Collectives[i], &w.Collectives[i]
		if len(b.Members) != 8 || a.Bytes != b.Bytes || b.TransferAlone() < a.TransferAlone() {
			t.Errorf("%s of %d bytes and %d ranks takes %d; was %d bytes, %d", b.Op, b.Bytes, len(b.Members), b.TransferAlone(), a.Bytes, a.TransferAlone())
		}
	}
	for i := range captured.Ops {
		a, b := &captured.Ops[i], &w.Ops[i]
		if a.Collective < 0 && (a.Span != b.Span || a.DurAlone() != b.DurAlone()) {
			t.Fatalf("%s takes %d, was %d", b.Name, b.DurAlone(), a.DurAlone())
		}
	}
	if _, same := resized(t, "ddp-step", 2); slices.ContainsFunc(same.Rescaled.Parts, func(p workload.Rescaled) bool { return p.Is != p.Was }) {
		t.Errorf("as many ranks as captured: %+v", same.Rescaled.Parts)
	}
}

// FSDP with eight times the ranks: the gathered tensors stay, a shard is an eighth, and so
// is the work of the optimizer.
func TestMoreShards(t *testing.T) {
	captured, w := resized(t, "fsdp-step", 16)
	for i := range w.Collectives {
		a, b := &captured.Collectives[i], &w.Collectives[i]
		if shard := min(b.In, b.Out); b.Bytes != a.Bytes || shard != min(a.In, a.Out)/8 || len(b.Members) != 16 {
			t.Errorf("%s of %d bytes, shard %d, %d ranks; was %d, %d", b.Op, b.Bytes, shard, len(b.Members), a.Bytes, min(a.In, a.Out))
		}
	}
	var optimizer, before trace.Time
	for i := range captured.Ops {
		if op := &captured.Ops[i]; op.Optimizer && op.Kind == trace.Compute {
			before += op.DurAlone()
			optimizer += w.Ops[i].DurAlone()
		}
	}
	if before == 0 || optimizer < before/9 || optimizer > before/5 {
		t.Errorf("the optimizer takes %d ns, was %d", optimizer, before)
	}
}
