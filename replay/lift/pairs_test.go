package lift

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

const stepTraces = "samples/measurements/2026-11-22-h200x2-steps/traces/h200x2_"

// A step of DLRM is one chain of lookups, captured whole or in parts. Its parts end at the
// all-to-all: the MLPs around it are not part of it.
func TestChains(t *testing.T) {
	for _, c := range []struct {
		path                         string
		chains, parts, before, after int
	}{
		{"samples/measurements/2026-11-20-h200x4/traces/dlrm_train", 2, 1, 33, 0},
		{stepTraces + "dlrm_d256_b32768_chunks1_channels0", 2, 1, 65, 2},
		{stepTraces + "dlrm_d256_b32768_chunks4_channels0", 2, 4, 65, 1},
		{stepTraces + "dlrm_d128_b16384_chunks4_channels0", 2, 4, 27, 1},
		{"samples/measurements/2026-11-20-h200x4/traces/pipe_multistream_llama70b_fc2_tp4_all_reduce", 0, 0, 0, 0}, // a loop
		{stepTraces + "ddp_h4096_bucket_mb25_channels0_priorityFalse_overlapTrue", 0, 0, 0, 0},
		{stepTraces + "moe_ep_h4096_t8192_scheduletwo_batch_overlap_channels0_priorityFalse", 0, 0, 0, 0},
	} {
		t.Run(c.path[strings.LastIndex(c.path, "/")+1:], func(t *testing.T) {
			w := open(t, c.path, Options{})
			chains := Chains(w)
			if len(chains) != c.chains {
				t.Fatalf("%d chains, want %d", len(chains), c.chains)
			}
			for _, x := range chains {
				for r := range w.World {
					if x.Parts() != c.parts || len(x.Before[r]) != c.parts || len(x.Before[r][0]) != c.before || len(x.After[r][0]) != c.after {
						t.Errorf("rank %d: %d parts of %d ops before and %d behind, want %d of %d and %d", r, len(x.Before[r]), len(x.Before[r][0]), len(x.After[r][0]), c.parts, c.before, c.after)
					}
				}
			}
		})
	}
}

// Vectorized elementwise kernels cover threads times vector elements a workgroup: 256 workgroups of 128 threads of
// 8 bf16 behind an all-reduce of 32 x 8192. All but the last have a norm behind the sum, whose kernel is the same. In front of
// the sum is a copy out of the buffer that two-shot all-reduces work in.
func TestSizesByNorms(t *testing.T) {
	for path, want := range map[string]int64{"decode_tp_b1_allreducetwoshot_graphTrue": 16 << 10, "decode_tp_b1_allreducenccl_graphTrue": 16 << 10, "decode_tp_b32_allreducenccl_graphTrue": 512 << 10} {
		w := open(t, stepTraces+path, Options{})
		for i := range w.Collectives {
			if c := &w.Collectives[i]; c.Bytes != want || c.Guessed {
				t.Errorf("%s: all-reduce %d of %d bytes, want %d", path, i, c.Bytes, want)
			}
		}
		if n := len(w.Collectives); n != 32 {
			t.Errorf("%s: %d collectives", path, n)
		}
	}
}

// grouping is a grouped GEMM of m rows in groups.
func grouping(m, n, k, groups int64) *trace.Operator {
	return &trace.Operator{Name: "aten::_grouped_mm", Dims: [][]int64{{m, k}, {groups, k, n}, {groups}}, Types: []string{"c10::Half", "c10::Half", "int"}}
}

// A grouped GEMM has weights, and tiles, for each of its groups.
func TestGroupedShape(t *testing.T) {
	w := lift(t, drawing{text: "0 7 |UU|", parts: map[byte]part{'U': {name: "gemm_128x128", op: grouping(1000, 512, 256, 4), grid: 4 * 2 * 4, block: 256}}}, Options{})
	op := &w.Ops[0]
	if s := op.Shape; s.Kind != workload.GEMM || s.M != 1000 || s.N != 512 || s.K != 256 || s.Groups != 4 {
		t.Errorf("shape %+v", s)
	}
	if op.Read != 2*(1000*256+4*256*512) || op.Write != 2*1000*512 {
		t.Errorf("reads %g, writes %g", op.Read, op.Write)
	}
	if op.Tiling.Tiles != 32 || op.Tiling.Persistent {
		t.Errorf("tiling %+v: 250 rows of a group are two tiles, 512 columns four", op.Tiling)
	}
}
