package engines_test

import (
	"bytes"
	"encoding/csv"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// settingsWith are a strategy's settings with a value, and those under which it has an effect.
func settingsWith(t *testing.T, e plan.Strategy, p plan.Param, value string) []plan.Selection {
	t.Helper()
	set := map[string]string{}
	for c := range strings.FieldsSeq(p.For) {
		name, values, _ := strings.Cut(c, "=")
		set[name], _, _ = strings.Cut(values, "|")
	}
	set[p.Name] = value
	var all []plan.Selection
	for _, under := range append([]plan.Param{{}}, e.Params...) { // also beside every choice of the others
		for _, choice := range append([]string{""}, under.Choices...) {
			more := map[string]string{}
			for k, v := range set {
				more[k] = v
			}
			if _, given := more[under.Name]; choice != "" && !given {
				more[under.Name] = choice
			}
			v := must.Have(e.Values(more))(t)
			all = append(all, plan.Selection{Strategy: e, Values: v})
		}
	}
	return all
}

// valuesOf are the values that a default run, tuning or a measured row can select.
func valuesOf(p plan.Param) []string {
	values := append([]string{p.Default}, p.Choices...)
	for _, n := range p.Tune {
		values = append(values, strconv.Itoa(n))
	}
	if p.Choices == nil && p.Text == nil {
		values = append(values, strconv.Itoa(p.Least+3))
	}
	return values
}

// Every value of every parameter has a way, or says what work it is, for every collective and
// vendor, and what is offered is of that collective and vendor.
func TestWays(t *testing.T) {
	left := regexp.MustCompile(`%[a-z]`)
	n := 0
	for _, e := range engines.All() {
		for _, p := range append([]plan.Param{{}}, e.Params...) {
			if p.Name != "" && p.Default != "" && len(plan.WaysOf(e, p)) == 0 && e.Kind != plan.Exact {
				t.Errorf("%s: %s has no way and says not what work it is", e.Name, p.Name)
			}
			for _, value := range valuesOf(p) {
				set := []plan.Selection{{Strategy: e}}
				if p.Name != "" {
					set = settingsWith(t, e, p, value)
				} else if v, err := e.Values(nil); err == nil {
					set[0].Values = v
				}
				for _, s := range set {
					for _, op := range []trace.CollectiveOp{trace.UnknownOp, trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.AllToAll, trace.SendRecv} {
						for _, vendor := range []string{plan.NVIDIA, plan.AMD} {
							ways, effort := plan.How(s, plan.Target{Ops: []trace.CollectiveOp{op}, Vendor: vendor, Channels: 8})
							n++
							for _, w := range ways {
								if no := mismatch(s, w, op, vendor); no != "" || left.MatchString(w.Line+w.Note) || w.Effort == "" || w.Line == "" && w.Note == "" || w.For == "" {
									t.Fatalf("%s, %s on %s (%s): %s: %s: %+v", s, op, vendor, effort, no, w, w)
								}
							}
							if changed := s.Strategy.String(s.Values) != "" && p.Matters(s.Values); changed && e.Kind != plan.Bound && e.Kind != plan.Exact && len(ways) == 0 {
								t.Fatalf("%s, %s on %s: no way", s, op, vendor)
							}
						}
					}
				}
			}
		}
	}
	if n < 10_000 {
		t.Errorf("%d cases", n)
	}
}

// Every row of the table is of a strategy or a parameter that there is.
func TestTableOfWays(t *testing.T) {
	table := must.Have(os.ReadFile("plan/ways.csv"))(t)
	known := map[string]bool{"settings": true}
	for _, e := range engines.All() {
		known[e.Name] = true
		for _, p := range e.Params {
			known[p.Name], known[e.Name+"."+p.Name] = true, true
		}
	}
	rows := csv.NewReader(bytes.NewReader(table))
	rows.Comment = '#'
	all, err := rows.ReadAll()
	if err != nil || len(all) < 100 {
		t.Fatalf("%d rows, %v", len(all), err)
	}
	for _, row := range all {
		for setting := range strings.FieldsSeq(row[0]) {
			if !known[setting] {
				t.Errorf("a way to get %s, which is no strategy and no parameter", setting)
			}
		}
	}
}

// mismatch is why a way does not give what was predicted, or "".
func mismatch(s plan.Selection, w plan.Way, op trace.CollectiveOp, vendor string) string {
	sends := op == trace.AllToAll || op == trace.SendRecv
	ring := op == trace.AllReduce || op == trace.AllGather || op == trace.ReduceScatter
	text := strings.Join([]string{w.Library, w.Version, w.Line, w.Note}, " ")
	channels := regexp.MustCompile(`NCCL_M(AX|IN)_(CTAS|NCHANNELS)=`).MatchString(w.Line)
	for why, wrong := range map[string]bool{
		"of the other vendor":                 vendor == plan.NVIDIA && regexp.MustCompile(`(?i)r(ccl|ocm|ocshmem)`).MatchString(strings.ReplaceAll(text, "torch", "")) || vendor == plan.AMD && slices.Contains([]string{"NCCL", "FLUX", "cuSync", "DeepEP", "CUTLASS"}, w.Library),
		"RCCL ignored it":                     vendor == plan.AMD && strings.Contains(w.Line, "CTAS="),
		"channels of rings":                   sends && channels,
		"channels of sends":                   ring && strings.Contains(w.Line, "P2P_NCHANNELS"),
		"no such algorithm":                   strings.Contains(w.Line, "direct"),
		"rewrites gathers and scatters alone": strings.Contains(w.Line, "_micro_pipeline_tp") && op != trace.AllGather && op != trace.ReduceScatter,
		"another variant":                     s.Values["variant"] == "waves" && strings.Contains(w.Note, "split the rows"),
		"launches shards":                     s.Strategy.Name == "onesided" && s.Values["gemm"] == "whole" && strings.Contains(w.Line, "_micro_pipeline_tp"),
		"prefetches gathers":                  strings.Contains(w.Line, "prefetch") && (w.Library != plan.FSDP || ring && op != trace.AllGather && s.Values["prefetch"] == "0"),
	} {
		if wrong {
			return why
		}
	}
	return ""
}

func TestHow(t *testing.T) {
	gathers, scatters := []trace.CollectiveOp{trace.AllGather}, []trace.CollectiveOp{trace.ReduceScatter}
	of := func(ops []trace.CollectiveOp, vendor, framework string) plan.Target {
		return plan.Target{Ops: ops, Vendor: vendor, Framework: framework}
	}
	for _, c := range []struct {
		selection string
		target    plan.Target
		effort    plan.Effort
		want, not string // separated by |
	}{
		{"multistream:copies=ahead", plan.Target{Vendor: plan.NVIDIA, Saved: true}, plan.ByCode, "use_streams=True", "weights"},
		{"multistream:copies=ahead", plan.Target{Vendor: plan.NVIDIA}, plan.ByCode, "weights[i + 1]", "saved tensors"},
		{"multistream:channels=8", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.NVIDIA, Channels: 24}, plan.ByCode, "NCCL_MAX_CTAS=8|bucket", "MIN_CTAS=8|P2P"},
		{"multistream:channels=32", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.NVIDIA, Channels: 24}, plan.ByCode, "NCCL_MIN_CTAS=32", "MAX_CTAS=32"},
		{"multistream:channels=8", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA, Channels: 24}, plan.ByCode, "NCCL_MAX_P2P_NCHANNELS=8", "CTAS"},
		{"multistream:channels=8", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.AMD, Channels: 24}, plan.ByCode, "NCCL_MAX_NCHANNELS=8", "MAX_CTAS=|max_ctas ="},
		{"multistream:prefetch=2", plan.Target{Ops: []trace.CollectiveOp{trace.AllGather}, Framework: plan.FSDP}, plan.ByCode, "blocks[i + 1 : i + 1 + 2]", plan.Megatron},
		{"multistream:keep_gathered=on", plan.Target{Ops: []trace.CollectiveOp{trace.AllGather, trace.ReduceScatter}, Framework: plan.FSDP}, plan.ByFlag, "reshard_after_forward=False", "kept, or freed"},
		{"multistream:keep_gathered=on", plan.Target{Ops: []trace.CollectiveOp{trace.AllGather, trace.ReduceScatter}, Framework: plan.FSDP1}, plan.ByFlag, "ShardingStrategy.SHARD_GRAD_OP", "reshard_after_forward|kept, or freed"},
		{"multistream:bucket_mb=50", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Framework: plan.DDP}, plan.ByFlag, "bucket_cap_mb=50", "ddp-bucket-size"},
		{"multistream:interleave=2", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA}, plan.ByCode, "--enable-dbo|--enable-two-batch-overlap", "%"},
		{"multistream:carrier=dma", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.NVIDIA}, plan.ByCode, "--overlap-grad-reduce", "CTA_POLICY|carrier"},
		{"multistream:carrier=dma", plan.Target{Ops: gathers, Vendor: plan.NVIDIA}, plan.ByCode, "NCCL_CTA_POLICY=2|--use-nccl-ub", "SYMM_MEM"},
		{"multistream:carrier=dma", of(gathers, plan.NVIDIA, plan.Megatron), plan.ByFlag, "--overlap-param-gather|--use-nccl-ub", "async_op|NCCL 2.28: NCCL_CTA_POLICY"},
		{"multistream:carrier=dma", plan.Target{Ops: gathers, Vendor: plan.NVIDIA, Absent: []string{plan.Megatron}}, plan.ByCode, "NCCL 2.28: NCCL_CTA_POLICY=2", "--use-nccl-ub|--overlap"},
		{"multistream:carrier=dma", of(gathers, plan.NVIDIA, plan.FSDP), plan.ByCode, "set_symm_mem_for_comm|CTA_POLICY_ZERO", "nccl-ub"},
		{"multistream:carrier=dma", plan.Target{Ops: gathers, Vendor: plan.NVIDIA, Native: true}, plan.ByCode, "ncclAllGatherConfig", "set_symm"},
		{"multistream:carrier=dma", of(gathers, plan.AMD, ""), plan.ByCode, "RCCL ROCm 7.12: NCCL_CTA_POLICY=2", "torch.distributed.ProcessGroup"},
		{"multistream:carrier=dma", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA}, plan.ByCode, "NCCL_CTA_POLICY=2", "asynchronous copies"},
		{"multistream:carrier=dma", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA, Uneven: true}, plan.OwnKernel, "asynchronous copies", "CTA_POLICY"},
		{"multistream:carrier=dma", plan.Target{Ops: gathers, Vendor: plan.NVIDIA, Uneven: true}, plan.ByCode, "NCCL_CTA_POLICY=2", "asynchronous copies"},
		{"multistream:carrier=dma", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.AMD, Uneven: true}, plan.ByCode, "NCCL_CTA_POLICY=2", "asynchronous copies"},
		{"multistream:carrier=symmetric", of(gathers, plan.NVIDIA, plan.FSDP), plan.ByCode, "set_symm_mem_for_comm", "POLICY"},
		{"multistream:sums=symmetric", plan.Target{Ops: gathers, Vendor: plan.NVIDIA}, plan.ByCode, "--overlap-param-gather", "symmetric"},
		{"multistream:sums=dma", of(scatters, plan.NVIDIA, ""), plan.ByCode, "_low_contention_reduce_scatter", "ncclComm"},
		{"multistream:sums=dma", of([]trace.CollectiveOp{trace.AllReduce}, plan.AMD, ""), plan.OwnKernel, "a kernel that adds", "symm_mem"},
		{"decompose:variant=waves:chunks=8", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.NVIDIA}, plan.OwnKernel, "FlashOverlap", "split the rows|a.chunk"},
		{"decompose:chunks=8", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}}, plan.ByCode, "a.chunk(8)", ""},
		{"decompose:variant=ring", plan.Target{Ops: []trace.CollectiveOp{trace.AllGather}, Vendor: plan.NVIDIA}, plan.ByFlag, "--tp-comm-overlap", ""},
		{"onesided", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA, Absent: []string{plan.SGLang}}, plan.OwnKernel, "signals by tile", "micro_pipeline|Triton-distributed|single-batch"},
		{"onesided", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA, Serves: true, Framework: plan.SGLang}, plan.ByFlag, "--enable-single-batch-overlap|archive-release-branch", "signals by tile"},
		{"onesided:impl=pull", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA, Serves: true, Framework: plan.SGLang}, plan.OwnKernel, "signals by tile", "single-batch"},
		{"multistream", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Serves: true, Framework: plan.SGLang}, plan.ByFlag, "shared experts beside dispatch", "async_op"},
		{"multistream:interleave=2", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.AMD}, plan.ByCode, "DominoTransformer", "two-batch"},
		{"multistream:interleave=2", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.AMD}, plan.ByCode, "two-batch", "Domino"},
		{"multistream", of(gathers, plan.NVIDIA, plan.Megatron), plan.ByFlag, "--overlap-param-gather|bulk method", "async_op"},
		{"decompose:chunks=8", of(scatters, plan.NVIDIA, plan.Megatron), plan.ByFlag, "pipeline method|num_splits: 8", "a.chunk|split the rows"},
		{"decompose:chunks=8", of(gathers, plan.NVIDIA, plan.Megatron), plan.ByCode, "split the rows", "num_splits"},
		{"decompose:variant=ring", of(gathers, plan.AMD, plan.Megatron), plan.ByFlag, "--tp-comm-overlap|pull request 367", "num_sm"},
		{"onesided:impl=ll", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA}, plan.ThirdParty, "ElasticBuffer|NCCL 2.30.4", "Iris"},
		{"multistream:scatter_group=own", of(scatters, plan.NVIDIA, plan.FSDP), plan.ByCode, "FSDP2 2.13: model.set_separate_reduce_scatter_group(True)", "Megatron"},
		{"multistream:scatter_group=own", of(scatters, plan.AMD, plan.Megatron), plan.ByFlag, "--create-all-gather-group", "set_separate"},
		{"fused", of(scatters, plan.AMD, ""), plan.ThirdParty, "Iris: iris.ops", "FLUX|vLLM"},
		{"fused", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.NVIDIA, Serves: true, Framework: plan.VLLM}, plan.ThirdParty, "VLLM_KIMI_K3_GEMM_AR", "FlashInfer"},
		{"fused", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.NVIDIA, Absent: []string{plan.VLLM}}, plan.ThirdParty, "gemm_allreduce_two_shot.py", "KIMI|Iris"},
		{"onesided", plan.Target{Ops: []trace.CollectiveOp{trace.AllGather}, Vendor: plan.NVIDIA}, plan.ByFlag, "_micro_pipeline_tp = True", "FLUX"},
		{"onesided:gemm=whole", plan.Target{Ops: []trace.CollectiveOp{trace.AllGather}, Vendor: plan.NVIDIA}, plan.ThirdParty, "FLUX|allgather_gemm.py", "micro_pipeline"},
		{"onesided:gemm=whole", plan.Target{Ops: []trace.CollectiveOp{trace.AllGather}, Vendor: plan.AMD}, plan.OwnKernel, "", "FLUX"},
		{"onesided:gemm=chunks", plan.Target{Ops: []trace.CollectiveOp{trace.ReduceScatter}, Vendor: plan.NVIDIA}, plan.ByFlag, "_micro_pipeline_tp = True|fuse_gemm_comms", "FLUX"},
		{"onesided:impl=oneshot", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.NVIDIA}, plan.ByCode, "one_shot_all_reduce(", "micro_pipeline"},
		{"fused", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA}, plan.OwnKernel, "samples/capture/strategies.py", "ROCm|FLUX"},
		{"bulk:algorithm=direct", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.NVIDIA}, plan.OwnKernel, "no such algorithm", "NCCL_ALGO"},
		{"bulk:algorithm=tree:protocol=ll128", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}}, plan.ByCode, "NCCL_ALGO=allreduce:tree|NCCL_PROTO=LL128", ""},
		{"tilesync:policy=tile", plan.Target{Vendor: plan.NVIDIA}, plan.ThirdParty, "cuSync", ""},
		{"multistream:interleave=2", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Forward: true}, plan.ByCode, "run 2 micro-batches", "overlap-grad-reduce|just before the first use"},
		{"multistream", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Forward: true}, plan.ByCode, "async_op=True", "overlap-grad-reduce|bucket"},
		{"captured:graph=on", plan.Target{Vendor: plan.NVIDIA}, plan.ByCode, "torch.cuda.CUDAGraph", "cudaGraphLaunch"},
		{"captured:graph=on", plan.Target{Vendor: plan.AMD, Native: true}, plan.ByCode, "hipGraphLaunch(exec, stream)", "torch|cuda"},
		{"multistream", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Native: true}, plan.ByCode, "--overlap-grad-reduce", ""},
		{"multistream", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.NVIDIA, Framework: trace.XLA}, plan.ByFlag, "latency_hiding_scheduler=true|add it to the flags", "DDP|async_op|overlap-grad"},
		{"multistream:bucket_mb=50:channels=8", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Vendor: plan.NVIDIA, Framework: trace.XLA, Channels: 24}, plan.ByFlag, "all_reduce_combine_threshold_bytes=$((50*1048576))|NCCL_MAX_CTAS=8", "bucket_cap_mb|ProcessGroup"},
		{"multistream:keep_gathered=on", plan.Target{Ops: []trace.CollectiveOp{trace.AllGather}, Framework: trace.XLA}, plan.OwnKernel, "kept, or freed", "fully_shard"},
		{"decompose:variant=ring", plan.Target{Ops: []trace.CollectiveOp{trace.AllGather}, Vendor: plan.NVIDIA, Framework: trace.XLA}, plan.ByFlag, "windowed_einsum_mib=0", "tp-comm-overlap"},
		{"bulk", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}, Framework: trace.XLA}, plan.ByFlag, "latency_hiding_scheduler=false|disable_async_collectives", "async_op"},
		{"captured:graph=on", plan.Target{Vendor: plan.NVIDIA, Framework: trace.XLA}, plan.ByFlag, "enable_command_buffer=FUSION", "torch"},
		{"trigger", plan.Target{Ops: []trace.CollectiveOp{trace.AllReduce}}, plan.OwnKernel, "no GPU has", ""},
	} {
		sel := must.Have(engines.ParseSelection(c.selection))(t)
		ways, effort := plan.How(sel[0], c.target)
		var text string
		for _, w := range ways {
			text += w.For + ": " + w.String() + "\n"
		}
		for want := range strings.SplitSeq(c.want, "|") {
			if !strings.Contains(text, want) {
				t.Errorf("%s on %+v: %q is missing:\n%s", c.selection, c.target, want, text)
			}
		}
		for not := range strings.SplitSeq(c.not, "|") {
			if not != "" && strings.Contains(text, not) {
				t.Errorf("%s on %+v: offers %q:\n%s", c.selection, c.target, not, text)
			}
		}
		if effort != c.effort {
			t.Errorf("%s on %+v: effort %s, want %s:\n%s", c.selection, c.target, effort, c.effort, text)
		}
	}
}

// What was never run on hardware is named.
func TestUnmeasured(t *testing.T) {
	sums, exchange := []trace.CollectiveOp{trace.AllReduce}, []trace.CollectiveOp{trace.AllToAll}
	for _, c := range []struct {
		selection string
		ops       []trace.CollectiveOp
		want      string
	}{
		{"onesided", exchange, "onesided of all_to_all"},
		{"onesided:gemm=whole", exchange, "onesided gemm=whole onesided of all_to_all"},
		{"onesided:impl=oneshot", sums, ""},
		{"onesided:gemm=chunks", []trace.CollectiveOp{trace.AllGather}, ""},
		{"onesided:impl=ll", exchange, "onesided impl=ll onesided of all_to_all"},
		{"decompose:chunks=3:channels=5:priority=on", sums, ""},
		{"decompose:variant=waves", sums, "decompose variant=waves"},
		{"multistream:prefetch=2", sums, "multistream prefetch=2"},
		{"multistream:bucket_mb=7:keep_gathered=on", sums, ""},
		{"multistream:carrier=dma", []trace.CollectiveOp{trace.AllGather, trace.ReduceScatter}, ""},
		{"multistream:carrier=dma", exchange, "multistream carrier=dma of all_to_all"},
		{"multistream:carrier=cu", exchange, "multistream carrier=cu"},
		{"captured:graph=on", nil, ""},
		{"multistream:graph=on", nil, "multistream graph=on"},
		{"fused:programs=33", exchange, ""},
	} {
		sel := must.Have(engines.ParseSelection(c.selection))(t)
		if got := strings.Join(plan.Unmeasured(sel[0], c.ops), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.selection, got, c.want)
		}
	}
}

// The parts of a mix need what they need for their own collectives.
func TestHowOfMix(t *testing.T) {
	parts := enginetest.MustParse(t, "onesided,decompose:chunks=2")
	parts[0].On, parts[1].On = trace.AllGather, trace.AllToAll
	mix := plan.Selection{Strategy: plan.Strategy{Name: "mixed", Parts: parts}}
	ways, effort := plan.How(mix, plan.Target{Ops: []trace.CollectiveOp{trace.AllGather, trace.AllToAll}, Vendor: plan.NVIDIA})
	for _, w := range ways {
		if w.Effort == plan.OwnKernel {
			t.Errorf("offers work for a collective of the other part: %+v", w)
		}
	}
	if effort != plan.ByCode || len(ways) < 3 {
		t.Errorf("%s: %+v", effort, ways)
	}
}

// A change is said in the words of the program's library, settings first, only if all of it can be said; defaults need no word.
func TestSaid(t *testing.T) {
	sums, gathers := []trace.CollectiveOp{trace.AllReduce}, []trace.CollectiveOp{trace.AllGather}
	for _, c := range []struct {
		selection string
		target    plan.Target
		want      string
	}{
		{"multistream", plan.Target{Ops: gathers, Framework: plan.FSDP}, "let FSDP overlap"},
		{"multistream:keep_gathered=on", plan.Target{Ops: gathers, Framework: plan.FSDP, Overlapped: gathers}, "set reshard_after_forward=False"},
		{"multistream:keep_gathered=on", plan.Target{Ops: gathers, Framework: plan.FSDP1, Overlapped: gathers}, "set sharding_strategy=SHARD_GRAD_OP"},
		{"multistream:bucket_mb=50", plan.Target{Ops: sums, Framework: plan.DDP}, "set bucket_cap_mb=50 and let DDP overlap"},
		{"multistream:channels=8", plan.Target{Ops: sums, Framework: plan.DDP, Vendor: plan.NVIDIA, Channels: 16, Overlapped: sums}, "set NCCL_MAX_CTAS=8"},
		// planned on a stream of its own, which no variable gives
		{"multistream:channels=8", plan.Target{Ops: sums, Framework: plan.DDP, Vendor: plan.NVIDIA, Channels: 16, Overlapped: sums, OwnGroup: true}, "set max_ctas=8 of the process group"},
		// no range of FSDP is in the profile
		{"multistream:keep_gathered=on", plan.Target{Ops: gathers, Absent: []string{plan.DDP, plan.FSDP, plan.FSDP1}, Overlapped: gathers}, ""},
		{"multistream:channels=8", plan.Target{Ops: append(slices.Clone(sums), trace.AllToAll), Vendor: plan.NVIDIA, Channels: 16, Overlapped: append(slices.Clone(sums), trace.AllToAll)}, "set NCCL_MAX_CTAS=8 and NCCL_MAX_P2P_NCHANNELS=8"},
		{"multistream:channels=8", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA, Channels: 16}, "set NCCL_MAX_P2P_NCHANNELS=8 and issue collectives with async_op=True"},
		{"multistream:channels=8", plan.Target{Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA, Channels: 16, Overlapped: []trace.CollectiveOp{trace.AllToAll}}, "set NCCL_MAX_P2P_NCHANNELS=8"},
		{"bulk", plan.Target{Ops: sums, Framework: plan.DDP}, "turn the overlap off"},
		// an option of one framework is no headline for a program that may be of another
		{"multistream:carrier=dma", plan.Target{Ops: gathers, Vendor: plan.NVIDIA, Overlapped: gathers}, "set NCCL_CTA_POLICY=2 with symmetric windows"},
		{"multistream:carrier=dma", plan.Target{Ops: gathers, Vendor: plan.NVIDIA, Framework: plan.Megatron, Overlapped: gathers}, "pass --use-nccl-ub"},
		{"captured:graph=on", plan.Target{Vendor: plan.NVIDIA}, "capture the iteration in a CUDA graph"},
		{"decompose:priority=on", plan.Target{Ops: sums, Vendor: plan.NVIDIA}, ""},
		{"fused", plan.Target{Ops: sums, Vendor: plan.AMD}, ""},
	} {
		ways, _ := plan.How(enginetest.MustParse(t, c.selection)[0], c.target)
		if got := plan.Said(ways); got != c.want {
			t.Errorf("%s on %+v: %q, want %q", c.selection, c.target, got, c.want)
		}
	}
}
