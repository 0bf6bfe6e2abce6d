package perfetto

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// stageOf is a packet with a render stage.
func stageOf(at, id, duration, queue, kind uint64, more message, extra ...string) message {
	e := append(message{}.n(1, id).n(2, duration).n(5, 1).n(11, 0).n(13, queue).n(14, kind), more...)
	for i := 0; i < len(extra); i += 2 {
		e = e.m(6, message{}.s(1, extra[i]).s(2, extra[i+1]))
	}
	return message{}.n(8, at).n(10, 1).m(53, e)
}

func packed(ids ...uint64) (m message) {
	var b []byte
	for _, id := range ids {
		b = protowire.AppendVarint(b, id)
	}
	return message{}.s(18, string(b))
}

// stagesTrace is a graph of five nodes as PyTorch writes it (torch/csrc/profiler/cuspy/cuspy_pftrace.cpp),
// and a kernel that an operator launched.
func stagesTrace() []byte {
	const base = 1_790_000_000_000_000_000
	kernel := func(iid uint64) message {
		dim := func(x, y uint64) message { return message{}.n(1, x).n(2, y).n(3, 1) }
		return message{}.n(19, iid).n(20, iid).m(21, message{}.m(1, dim(4, 2)).m(2, dim(128, 1)).
			m(3, message{}.n(1, 1).n(4, 168)).m(3, message{}.n(1, 2).n(4, 4096)))
	}
	interned := message{}
	for i, name := range []string{"gemm", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)"} {
		interned = interned.m(2, message{}.n(1, uint64(i+1)).s(2, name)).m(1000, message{}.n(1, uint64(i+1)).s(3, name))
	}
	for i, name := range []string{"Kernel", "Memcpy", "Memset", "Annotation", "EventRecord", "HostNode"} {
		m := message{}.n(1, uint64(i+1)).s(2, name)
		if i == 0 {
			m = m.n(4, 2)
		}
		interned = interned.m(24, m)
	}
	interned = interned.m(23, message{}.n(1, 1).n(2, 77)).m(1001, message{}.n(1, 1).s(2, "registers_per_thread")).m(1001, message{}.n(1, 2).s(2, "shared_mem_dynamic"))
	interned = interned.m(1, message{}.n(1, 1).s(2, "cpu_op")).m(1, message{}.n(1, 2).s(2, "cuda_runtime"))
	list := func(v ...message) (m message) {
		for _, e := range v {
			m = m.m(12, e)
		}
		return m
	}
	number := func(v uint64) message { return message{}.n(4, v) }
	slice := func(at, kind, name uint64, category uint64, more message) message {
		e := append(message{}.n(9, kind).n(11, 2), more...)
		if kind == begin {
			e = e.s(23, []string{"aten::mm", "cudaGraphLaunch", "cudaLaunchKernel"}[name]).n(3, category)
		}
		return message{}.n(8, base+at).n(10, 1).m(11, e)
	}
	submits := func(ids ...uint64) message {
		m := message{}
		for _, id := range ids {
			m = m.n(1, id)
		}
		return message{}.m(3000, m)
	}
	dims := message{}.m(4, append(message{}.s(10, "Input Dims"), list(list(number(8), number(4)), list(number(4), number(2)))...)).
		m(4, append(message{}.s(10, "Input type"), list(message{}.s(6, "c10::BFloat16"), message{}.s(6, "c10::BFloat16"))...))
	node := func(n int) []string {
		return []string{"stream id", "7", "correlation", "11", "graph id", "5", "graph node id", fmt.Sprint(n)}
	}
	return traceOf(
		message{}.n(8, base).n(10, 1).m(6, message{}.m(1, message{}.n(1, 6).n(2, base)).m(1, message{}.n(1, 1).n(2, base))),
		trackOf(1, 0, "", 3, message{}.n(1, 77).s(6, "python")),
		trackOf(2, 1, "", 4, message{}.n(1, 77).n(2, 77).s(5, "thread 77")),
		message{}.n(10, 1).n(13, 1).m(12, interned),
		slice(0, begin, 1, 2, append(submits(1), message{}.m(4, note("correlation", 11))...)), slice(5, end, 0, 0, nil),
		slice(6, begin, 0, 1, dims), slice(7, begin, 2, 2, submits(6)), slice(8, end, 0, 0, nil), slice(9, end, 0, 0, nil),
		stageOf(base+10, 1, 20, 100, 1, kernel(1), node(1)...),
		stageOf(base+40, 2, 20, 101, 1, append(kernel(2), packed(1)...), append(node(2), "stream id", "33", "Collective name", "allreduce", "In msg nelems", "1024",
			"Out msg nelems", "1024", "dtype", "bfloat16", "Group size", "2", "Process Group Name", "tp", "Process Group Ranks", "[0, 1]")...),
		stageOf(base+35, 3, 3, 100, 2, message{}.n(18, 1), append(node(3), "bytes", "64")...),
		stageOf(base+61, 4, 0, 100, 5, message{}.n(18, 2), node(4)...),
		stageOf(base+70, 5, 20, 100, 1, append(kernel(1), packed(4, 3, 99)...), node(5)...),
		stageOf(base+95, 6, 5, 100, 1, kernel(1), "stream id", "7"),
		stageOf(base+9, 7, 100, 100, 4, message{}.s(17, "step"), "stream id", "7"),
	)
}

func TestReadStages(t *testing.T) {
	run := must.Have(Read(bytes.NewReader(stagesTrace()), "rank1.pftrace", unbounded))(t)
	must.Do(t, trace.Validate(run))
	want := `thread 77 launch "cudaGraphLaunch" 0-5
thread 77 host "aten::mm" 6-9
thread 77 launch "cudaLaunchKernel" 7-8
annotation 7 marker "step" 9-109
queue 7 compute "gemm" 10-30 grid [4 2 1] block [128 1 1] lds 4096 vgprs 168
queue 7 copy "Memcpy" 35-38 unknown 64
queue 33 collective "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)" 40-60 grid [4 2 1] block [128 1 1] lds 4096 vgprs 168
annotation 7 marker "EventRecord" 61-61
queue 7 compute "gemm" 70-90 grid [4 2 1] block [128 1 1] lds 4096 vgprs 168
queue 7 compute "gemm" 95-100 grid [4 2 1] block [128 1 1] lds 4096 vgprs 168
`
	if diff := cmp.Diff(want, describe(run)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var depends [][2]trace.Time
	for _, d := range run.Depends {
		depends = append(depends, [2]trace.Time{run.Spans[d.To].Start, run.Spans[d.From].Start})
	}
	if diff := cmp.Diff([][2]trace.Time{{35, 10}, {40, 10}, {70, 35}, {70, 40}}, depends); diff != "" {
		t.Errorf("dependencies -want +got:\n%s", diff)
	}
	for _, s := range run.Spans {
		if s.Kind.OnDevice() && run.LaunchOf(s) == trace.None {
			t.Errorf("%s at %d has no launch", run.NameOf(s), s.Start)
		}
	}
	c := run.Comms[0]
	if c.Op != trace.AllReduce || c.In != 2048 || run.Groups[c.Group].Size != 2 || run.Ranks[0].ID != 1 || run.Epoch == 0 || len(run.Nodes) != 4 {
		t.Errorf("collective %+v, rank %d, epoch %d, %d nodes", c, run.Ranks[0].ID, run.Epoch, len(run.Nodes))
	}
	if op := run.Operators[0]; op.Name != "aten::mm" || len(op.Dims) != 2 || op.Dims[1][1] != 2 || len(op.Types) != 2 {
		t.Errorf("operator %+v", op)
	}
}
