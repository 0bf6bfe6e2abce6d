package lift

import (
	"strconv"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// layers makes a run of two ranks with about n device ops: layers of a
// GEMM, its counter's reset, an all-reduce on its own stream, and two
// elementwise kernels, with the host calls that launched them.
func layers(n int) *trace.Run {
	var b trace.Builder
	mm := b.AddOperator(*gemm(8192, 8192, 1024))
	add := b.AddOperator(trace.Operator{Name: "aten::add", Dims: [][]int64{{8192, 8192}}, Types: []string{"c10::Half"}})
	group := b.AddGroup(trace.Group{Name: "0", Ranks: []int{0, 1}, Size: 2})
	for id := range 2 {
		rank := b.AddRank(trace.Rank{ID: id, World: 2, Device: h200})
		host := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: rank, Peer: trace.None})
		compute := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: 7, Peer: trace.None})
		comms := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: 19, Peer: trace.None})
		correlation := int64(0)
		at := trace.Time(0)
		launch := func() int64 {
			correlation++
			call := b.AddCall(trace.Call{Correlation: correlation, Op: trace.None})
			b.Add(trace.Span{Start: at - 5000, End: at - 4000, Name: b.Intern("cuLaunchKernelEx"), Lane: host, Parent: trace.None, Attr: call, Kind: trace.Launch})
			return correlation
		}
		kernel := func(name string, kind trace.Kind, lane trace.LaneID, op, comm int32, dur trace.Time) {
			row := b.AddKernel(trace.Kernel{Setup: b.AddSetup(trace.Setup{Grid: [3]int32{132, 1, 1}, Block: [3]int32{384, 1, 1}, Registers: 168, Shared: 213188}), Correlation: launch(), Op: op, Comm: comm, Origin: trace.None})
			b.Add(trace.Span{Start: at, End: at + dur, Name: b.Intern(name), Lane: lane, Parent: trace.None, Attr: row, Kind: kind})
			at += dur + 1000
		}
		for layer := range n / 10 {
			at += 10_000
			row := b.AddCopy(trace.CopyAttr{Bytes: 4, Dir: trace.Fill, Correlation: launch(), Op: mm, Peer: trace.None})
			b.Add(trace.Span{Start: at, End: at + 800, Name: b.Intern("Memset (Device)"), Lane: compute, Parent: trace.None, Attr: row, Kind: trace.Copy})
			at += 2000
			kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", trace.Compute, compute, mm, trace.None, 100_000)
			comm := b.AddComm(trace.Comm{Op: trace.AllReduce, Group: group, Seq: int64(layer), In: 1 << 27, Out: 1 << 27, ElemSize: 2, Peer: trace.None})
			kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", trace.Collective, comms, trace.None, comm, 50_000)
			call := b.AddCall(trace.Call{Op: trace.None})
			b.Add(trace.Span{Start: at - 5500, End: at - 5400, Name: b.Intern("cudaStreamWaitEvent"), Lane: host, Parent: trace.None, Attr: call, Kind: trace.HostCall})
			kernel("void at::native::vectorized_elementwise_kernel<8>", trace.Compute, compute, add, trace.None, 20_000)
			kernel("void at::native::vectorized_elementwise_kernel<8>", trace.Compute, compute, add, trace.None, 20_000)
		}
	}
	return b.Finish(trace.Options{})
}

// BenchmarkLift shows that time grows with the run: ns/op by run, ns/kernel not.
func BenchmarkLift(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			run := layers(n)
			b.ReportAllocs()
			for b.Loop() {
				w := must.Have(Workload(run, Options{}))(b)
				if len(w.Ops) != n || len(w.Pairs) != n/10 {
					b.Fatalf("%d ops and %d pairs of %d", len(w.Ops), len(w.Pairs), n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/kernel")
		})
	}
}

// BenchmarkFlow lifts a job of 64 ranks, one of them captured: two steps of 2,000 ops
// each with a chain of activations, weights that a last op changes, and memory that is
// used again.
func BenchmarkFlow(b *testing.B) {
	const ops, ranks = 4000, 64
	run := layers(2 * ops)
	run.Ranks[0].World, run.Ranks[1].World = ranks, ranks
	access := func(storage, life int32, read, write bool) trace.Access {
		return trace.Access{Storage: storage, Life: life, From: 0, To: 1 << 20, Read: read, Write: write}
	}
	n := int32(0)
	for i := range run.Spans {
		k := run.Kernel(run.Spans[i])
		if k == nil || run.RankOf(run.Spans[i]) != 0 {
			continue
		}
		n++
		run.Uses = append(run.Uses, trace.Uses{First: int32(len(run.Accesses)), Count: 3})
		run.Accesses = append(run.Accesses,
			access(1+n%50, n, true, false), access(1+(n+1)%50, n+1, false, true), access(100+n%500, 0, true, n%1500 == 0))
		k.Uses = int32(len(run.Uses))
	}
	b.ReportAllocs()
	for b.Loop() {
		w := must.Have(Workload(run, Options{}))(b)
		if len(w.Ops) != ops*ranks || len(w.Flow) != len(w.Ops) {
			b.Fatalf("%d ops", len(w.Ops))
		}
	}
}
