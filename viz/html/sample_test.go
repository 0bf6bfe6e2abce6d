package html

import (
	"fmt"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// sample is a report with one of everything: a run of kernels on two ranks, and
// a fused one with eight persistent workgroups in clusters of four.
func sample() Report {
	return Report{
		Title:    "GEMM + AllToAll on 2 × H200",
		Facts:    []Fact{{"machine", "h200x2"}, {"identity replay", "worst error 0.4 %"}},
		Verdict:  []string{"predicted fastest: fused order=aware, 30.0 % less than the captured schedule (confidence medium: &c.)", "fused changes exposed communication"},
		HowTitle: "How to get fused",
		How:      []Step{{"where: gemm on stream 7", ""}, {"to get fused (own kernel): one kernel", "line one\n    line two"}},
		Captured: 100_000,
		Strategies: []Bar{
			{Name: "captured", Note: "100.0 µs", Time: 100_000, Times: overlap.Times{Compute: 60_000, Transfer: 35_000, Copies: 2000, Idle: 3000}},
			{
				Name: "fused order=aware", Note: "70.00 µs  −30.0 %  ± 5.0  93 % likely", Time: 70_000, Times: overlap.Times{Compute: 60_000, Hidden: 40_000, Transfer: 4000, Waiting: 2000, Idle: 4000},
				Ranks: []overlap.Times{{Compute: 60_000, Transfer: 8000, Idle: 2000}, {Compute: 60_000, Waiting: 4000, Idle: 6000}},
			},
			{Name: "ideal", Note: "60.00 µs  bound", Time: 60_000, Times: overlap.Times{Compute: 60_000, Hidden: 35_000}},
			{Name: "tilesync"},
		},
		Numbers: &Table{
			Columns: []Column{{"strategy", false}, {"time, µs", true}, {"time breakdown", false}},
			Rows:    [][]string{{"captured", "100.0", "compute 60 %"}, {"tilesync", "", "does not apply: no dependent kernels"}},
		},
		Runs: []Named{
			{Name: "captured", Run: bulkRun(), Gaps: []overlap.Reason{
				{Rank: 0, Queue: 7, Start: 61_000, End: 97_500, Cause: "flag", Note: "posted by the all-to-all"},
				{Rank: 1, Queue: 7, Start: 60_000, End: 98_000, Cause: "flag"}, // more than is free
			}},
			{Name: "fused (order=aware)", Note: "−30.0 %", Run: fusedRun(8, 4)},
		},
		Tables: []Table{{
			Title:   "Idle time",
			Note:    "Queues with work left and nothing running.",
			Columns: []Column{{"cause", false}, {"time", true}},
			Rows:    [][]string{{"flag", "12.00 µs"}, {"peer skew", "800 ns"}},
		}},
	}
}

func queue(b *trace.Builder, rank int32, id int64) trace.LaneID {
	return b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: id, Peer: trace.None})
}

// bulkRun is a GEMM, then an all-to-all on another stream, then a copy, on two
// ranks, below an annotation and beside a host thread.
func bulkRun() *trace.Run {
	b := new(trace.Builder)
	for id := range 2 {
		rank := b.AddRank(trace.Rank{ID: id, World: 2, Device: trace.Device{Name: "NVIDIA H200"}})
		steps := b.Lane(trace.Lane{Kind: trace.Annotation, Rank: rank, Peer: trace.None, Name: "steps"})
		host := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: rank, Peer: trace.None})
		group := b.AddGroup(trace.Group{Name: "0", Size: 2})
		comm := b.AddComm(trace.Comm{Op: trace.AllToAll, Group: group, In: 64 << 20, Out: 64 << 20, Peer: trace.None})
		gemm := b.AddKernel(trace.Kernel{Setup: b.AddSetup(trace.Setup{Grid: [3]int32{132, 1, 1}, Block: [3]int32{384, 1, 1}}), Comm: trace.None, Op: trace.None, Origin: trace.None})
		nccl := b.AddKernel(trace.Kernel{Setup: b.AddSetup(trace.Setup{Grid: [3]int32{24, 1, 1}, Block: [3]int32{544, 1, 1}, Stream: 20}), Comm: comm, Op: trace.None, Origin: trace.None})
		copied := b.AddCopy(trace.CopyAttr{Bytes: 3 << 20, Peer: trace.None, Op: trace.None, Origin: trace.None, Dir: trace.DeviceToDevice})
		add := func(k trace.Kind, name string, lane trace.LaneID, attr int32, start, end trace.Time) {
			b.Add(trace.Span{Start: start, End: end, Name: b.Intern(name), Lane: lane, Parent: trace.None, Attr: attr, Kind: k})
		}
		add(trace.Marker, "ProfilerStep#1", steps, trace.None, 0, 100_000)
		add(trace.HostCall, "aten::mm", host, trace.None, 0, 3000)
		add(trace.Compute, "nvjet_sm90_tst_128x256", queue(b, rank, 7), gemm, 1000, 61_000)
		add(trace.Collective, "ncclDevKernel_SendRecv", queue(b, rank, 20), nccl, 62_000+trace.Time(id)*500, 97_000)
		add(trace.Copy, "Memcpy DtoD", queue(b, rank, 7), copied, 97_500, 99_500)
	}
	return b.Finish(trace.Options{Name: "captured"})
}

// fusedRun is one kernel whose persistent workgroups each compute three tiles
// for rank 1 and one for their own rank, store what goes away, and then wait.
func fusedRun(workgroups, cluster int) *trace.Run {
	b := new(trace.Builder)
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	b.AddRank(trace.Rank{ID: 1, World: 2})
	kernel := b.Add(trace.Span{End: 70_000, Name: b.Intern("gemm_fused"), Lane: queue(b, rank, 7), Parent: trace.None, Attr: trace.None, Kind: trace.Compute})
	for wg := range workgroups {
		lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(wg), Peer: trace.None})
		late := trace.Time(100 * ((wg*5 + 3) % cluster))
		at := trace.Time(0)
		for n := range 4 {
			peer := int32(1)
			if n == 3 {
				peer = 0
			}
			attr := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(n*workgroups + wg), Persistent: int32(wg), CU: int32(wg), Peer: peer, Row: trace.None, Col: trace.None})
			span := func(k trace.Kind, name string, parent trace.SpanID, start, end trace.Time) trace.SpanID {
				return b.Add(trace.Span{Start: start, End: end, Name: b.Intern(name), Lane: lane, Parent: parent, Attr: attr, Kind: k})
			}
			done := at + 13_000 + late
			end := done
			if peer == 1 {
				end += 1500
			}
			if n == 3 {
				end = 70_000
			}
			tile := span(trace.Workgroup, "gemm_fused", kernel, at, end)
			span(trace.PhaseCompute, "", tile, at, done)
			if peer == 1 {
				span(trace.PhaseStore, "", tile, done, end)
			} else {
				span(trace.PhasePut, "slice ready", tile, done, done)
				span(trace.PhaseWait, fmt.Sprintf("sliceRdy %d", wg), tile, done+500, end)
			}
			at = end
		}
	}
	return b.Finish(trace.Options{Name: "fused", Simulated: true})
}

// pairRun is a GEMM of two workgroups and an all-to-all that starts after a gap, as operations 1 and 2.
func pairRun(name string, longer trace.Time) *trace.Run { return partRun(name, longer, 2) }

func partRun(name string, longer trace.Time, workgroups int) *trace.Run {
	b := new(trace.Builder)
	rank := b.AddRank(trace.Rank{World: 1})
	gemm := b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Origin: 1})
	comm := b.AddComm(trace.Comm{Op: trace.AllToAll, Group: trace.None, Peer: trace.None})
	nccl := b.AddKernel(trace.Kernel{Comm: comm, Op: trace.None, Origin: 2})
	span := func(k trace.Kind, lane trace.LaneID, parent trace.SpanID, attr int32, start, end trace.Time) trace.SpanID {
		return b.Add(trace.Span{Start: start, End: end, Name: b.Intern("gemm"), Lane: lane, Parent: parent, Attr: attr, Kind: k})
	}
	parent := span(trace.Compute, queue(b, rank, 7), trace.None, gemm, 1000, 61_000)
	span(trace.Collective, queue(b, rank, 20), trace.None, nccl, 65_000, 91_000+longer)
	for wg := range workgroups {
		lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(wg), Peer: trace.None})
		attr := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(wg), Persistent: int32(wg), Peer: trace.None, Row: trace.None, Col: trace.None})
		span(trace.Workgroup, lane, parent, attr, 1000, 61_000)
	}
	return b.Finish(trace.Options{Name: name, Simulated: true})
}
