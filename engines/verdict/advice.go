package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
)

// An Advice is what a strategy changes and how a user gets it.
type Advice struct {
	Exposed  [2]int64 `json:"exposed_ns"`   // exposed communication of the captured schedule and of the strategy, per rank and iteration
	Memory   int64    `json:"memory_bytes"` // of parameters that a rank keeps beyond the captured schedule
	Settings []string `json:"settings"`     // calls, variables or libraries, one a line
}

// A setting is a way to get a strategy, or one of its parameters. In text, %s is the value.
type setting struct {
	strategy string // "": any
	param    string // "": the strategy itself
	value    string // "": any but the default
	text     string
}

// settings are what users call or set: PyTorch 2.x, NCCL and RCCL.
var settings = []setting{
	{"bulk", "", "", "wait for each collective where it is issued (async_op=False), or CUDA_DEVICE_MAX_CONNECTIONS=1 with one stream"},
	{"multistream", "", "", "issue collectives with async_op=True on a process group's own stream and wait just before the first use; DistributedDataParallel and fully_shard do so by default"},
	{"decompose", "", "", "split the rows of the GEMM and issue each part's collective with async_op=True"},
	{"onesided", "gemm", "chunks", "torch._inductor.config._micro_pipeline_tp = True with torch.compile, after enable_symm_mem_for_group(group)"},
	{"onesided", "impl", "oneshot", "torch.ops.symm_mem.one_shot_all_reduce on a buffer of torch.distributed._symmetric_memory.empty"},
	{"onesided", "impl", "twoshot", "torch.ops.symm_mem.two_shot_all_reduce_ on a buffer of torch.distributed._symmetric_memory.empty"},
	{"onesided", "", "", "beside all-gathers and reduce-scatters torch.ops.symm_mem.fused_all_gather_matmul and fused_matmul_reduce_scatter, else the kernels of Triton-distributed"},
	{"fused", "", "", "one kernel that computes and stores to its peers: FLUX, Triton-distributed, or ROCm's fused operators"},
	{"tilesync", "", "", "cuSync's semaphores between CUTLASS GEMMs on two streams"},
	{"", "channels", "", "NCCL_MAX_NCHANNELS=%s (RCCL too), or ProcessGroupNCCL.Options().config.max_ctas = %s"},
	{"", "priority", "on", "ProcessGroupNCCL.Options(is_high_priority_stream=True)"},
	{"", "bucket_mb", "", "DistributedDataParallel(..., bucket_cap_mb=%s)"},
	{"", "prefetch", "", "FSDPModule.set_modules_to_forward_prefetch and set_modules_to_backward_prefetch with the next %s modules"},
	{"", "keep_gathered", "on", "fully_shard(..., reshard_after_forward=False)"},
	{"", "keep_gathered", "off", "fully_shard(..., reshard_after_forward=True)"},
	{"", "interleave", "", "run %s micro-batches alternately: two-batch overlap of SGLang and DeepSeek, --overlap-moe-expert-parallel-comm of Megatron"},
	{"", "carrier", "dma", "collectives by copy engines: NCCL 2.28's zero-CTA policy (NCCL_CTA_POLICY=2), RCCL's SDMA path"},
	{"", "graph", "on", "capture the step: torch.cuda.graph, or torch.compile(mode=\"reduce-overhead\")"},
	{"", "algorithm", "", "NCCL_ALGO=%s"},
	{"", "protocol", "", "NCCL_PROTO=%s"},
	{"decompose", "chunks", "", "%s parts"},
}

// AdviceOn is what a strategy changes against the captured schedule and how to get it.
func AdviceOn(w *workload.Workload, captured, out compare.Outcome) Advice {
	return Advice{
		Exposed:  [2]int64{int64(explain.LimitOf(w, captured).Exposed()), int64(explain.LimitOf(w, out).Exposed())},
		Memory:   out.Kept,
		Settings: settingsOf(out.Selection, mostChannels(w)),
	}
}

// mostChannels is the largest number of channels of a captured collective.
func mostChannels(w *workload.Workload) (most int) {
	for i := range w.Collectives {
		most = max(most, w.Collectives[i].Channels)
	}
	return most
}

// settingsOf lists how to get a selection, the strategy first. channels is the largest number
// of captured channels: a limit lowers it, more need a least number.
func settingsOf(s plan.Selection, channels int) []string {
	var lines []string
	for _, part := range s.Strategy.Parts {
		lines = append(lines, settingsOf(part, channels)...)
	}
	own := false
	for _, x := range settings {
		value := s.Values[x.param]
		switch {
		case x.strategy != "" && x.strategy != s.Strategy.Name, x.param == "" && own:
			continue
		case x.param != "" && (value == "" || x.value != "" && value != x.value || x.value == "" && value == defaultOf(s.Strategy, x.param)):
			continue
		}
		own = own || x.strategy != ""
		text := x.text
		if x.param == "channels" && s.Values.Int("channels") > channels {
			text = "NCCL_MIN_NCHANNELS=%s, or ProcessGroupNCCL.Options().config.min_ctas = %s, as far as the library allows"
		}
		if line := strings.ReplaceAll(text, "%s", value); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

func defaultOf(e plan.Strategy, param string) string {
	for _, p := range e.Params {
		if p.Name == param {
			return p.Default
		}
	}
	return ""
}

// sentences are the advice in words.
func (a *Advice) sentences(of string) []string {
	list := []string{fmt.Sprintf("%s changes exposed communication from %.1f to %.1f µs a rank", of, float64(a.Exposed[0])/1e3, float64(a.Exposed[1])/1e3)}
	switch gib := float64(a.Memory) / (1 << 30); {
	case a.Memory > 0:
		list = append(list, fmt.Sprintf("it keeps %.2f GiB more of parameters on each rank", gib))
	case a.Memory < 0:
		list = append(list, fmt.Sprintf("it keeps %.2f GiB less of parameters on each rank", -gib))
	}
	for i, s := range a.Settings {
		lead := "to get it: "
		if i > 0 {
			lead = "and: "
		}
		list = append(list, lead+s)
	}
	return list
}
