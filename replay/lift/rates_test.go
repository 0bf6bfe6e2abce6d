package lift

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// The rate of a row is its bytes by its time. A collective by copy engines takes from the start of its first copy to the end of
// its last command; the command in front of the copy waits.
func TestRatesAreOfTheirTimes(t *testing.T) {
	gather := func(name string) part {
		return part{name: name, comm: &trace.Comm{Op: trace.AllGather, Group: 0, Seq: 5, Out: 64, Peer: trace.None, Engines: true}}
	}
	reduce := func(seq int64) part {
		return part{name: "ncclDevKernel_AllReduce", comm: &trace.Comm{Op: trace.AllReduce, Group: 0, Seq: seq, In: 48 + 4*seq, Out: 48 + 4*seq, Peer: trace.None}}
	}
	const barrier = "c10d::symmetric_memory::barrier_kernel(unsigned int**, int, int, int, unsigned long)"
	for _, c := range []struct{ name, text, want string }{
		{"copy engines", `0 7 | WWWWCC DDD |`, "all_gather 64 bytes: 6 µs, 10.7 MB/s"},
		{"copies between barriers", `0 7 | BBBBMM NNN |`, "all_gather 64 bytes: 6 µs, 10.7 MB/s"},
		{"several sizes", `0 7 | EEEEEEE FF GGGG |`, "all_reduce 52 bytes: 2 µs, 28.0 MB/s"}, // of 56 bytes; E and F take 2 µs beyond their waits
	} {
		w := lift(t, drawing{
			text: c.text, ranks: []trace.Rank{{World: 2}}, groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
			parts: map[byte]part{
				'W': gather("__amd_rocclr_batchMemOp.kd"), 'C': gather("__amd_rocclr_copyBufferBatch.kd"), 'D': gather("__amd_rocclr_batchMemOp.kd"),
				'B': gather(barrier), 'M': gather("Memcpy PtoP (Device -> Device)"), 'N': gather(barrier),
				'E': reduce(1), 'F': reduce(2), 'G': reduce(3),
			},
		}, Options{})
		r := workload.Of(w, nil).Collectives[0]
		if got := fmt.Sprintf("%s %d bytes: %d µs, %.1f MB/s", r.Op, r.Bytes, r.TransferNs/1000, r.Algorithm/1e6); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// What the files of many ranks say alike is one note, of all of them.
func TestNotesOfManyFiles(t *testing.T) {
	d := drawing{text: "0 7 | A |\n1 7 | A |", ranks: []trace.Rank{{World: 2}, {ID: 1, World: 2}}}
	run := d.run(t)
	for _, file := range []string{"rank0.et", "rank1.et"} {
		run.Ledger.Entries = append(run.Ledger.Entries, trace.Entry{Action: trace.Noted, File: file, Reason: "without start times", Count: 3, Kernels: 3})
	}
	w, err := Workload(run, Options{})
	if err != nil || fmt.Sprint(w.Notes) != "[6 operations without start times]" {
		t.Errorf("%v, notes %q", err, w.Notes)
	}
}

// A kernel's share of the time is of the iterations that the time is of, and a collective that only copies of captured ranks
// have was not captured.
func TestWhatIsCountedWasCaptured(t *testing.T) {
	w := lift(t, drawing{
		text:  "0 7 | GG  GGGG R |",
		parts: map[byte]part{'G': {name: "sgemm_16x16_x", op: gemm(32, 64, 16), grid: 8, block: 128}, 'R': {name: "ncclDevKernel_AllReduce", comm: &trace.Comm{Op: trace.AllReduce, Group: trace.None, In: 64, Out: 64, Peer: trace.None}}},
		ranks: []trace.Rank{{World: 4}},
	}, Options{})
	s := workload.Of(w, [][]overlap.Interval{{{Start: 4000, End: 10_000}}})
	if k := s.Kernels[0]; k.Count != 2 || k.TotalNs != 6000 || k.InNs != 4000 {
		t.Errorf("%d kernels of %d ns, %d in the iteration: want 2, 6000 and 4000", k.Count, k.TotalNs, k.InNs)
	}
	for _, c := range s.Collectives {
		if c.Count != 1 {
			t.Errorf("%d collectives of %d ranks: one was captured", c.Count, c.Ranks)
		}
	}
}
