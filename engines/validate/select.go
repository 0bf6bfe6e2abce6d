package validate

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/dataset"
)

// selectionOf is the engine and the settings that a row's strategy stands for.
func selectionOf(row *dataset.Row) (plan.Selection, string) {
	i := slices.IndexFunc(engines.All(), func(e plan.Strategy) bool { return e.Name == row.Strategy })
	if i < 0 {
		return plan.Selection{}, fmt.Sprintf("no engine %q", row.Strategy)
	}
	e := engines.All()[i]
	set := map[string]string{}
	whole := func(name string, n int) {
		if n > 0 {
			set[name] = strconv.Itoa(n)
		}
	}
	has := func(name string) bool {
		return slices.ContainsFunc(e.Params, func(p plan.Param) bool { return p.Name == name })
	}
	p := row.Params
	whole("channels", p.Channels)
	whole("chunks", p.Chunks)
	if has("programs") {
		whole("programs", p.Programs)
	}
	whole("bucket_mb", int(p.BucketMB))
	whole("interleave", p.Interleave)
	if row.Workload.Framework == "fsdp" && has("keep_gathered") { // rows leave out what is off
		set["keep_gathered"] = map[bool]string{true: "on", false: "off"}[p.KeepGathered]
	}
	if p.Order != "" {
		set["order"] = p.Order
	}
	if p.CommPriority && e.Name != "bulk" {
		set["priority"] = "on"
	}
	if p.Graph {
		set["graph"] = "on"
	}
	if p.Policy != "" { // measured with semaphores cleared and the producer launched first, without a wait kernel
		set["policy"], set["reset"], set["waitkernel"] = p.Policy, "on", "off"
	}
	switch p.Impl {
	case "torch_fused_all_gather_matmul", "torch_fused_matmul_reduce_scatter", "torch_async_tp": // a library call a shard
		set["impl"], set["gemm"] = "pull", "chunks"
	case "one_shot_all_reduce":
		set["impl"] = "oneshot"
	case "two_shot_all_reduce":
		set["impl"] = "twoshot"
	}
	v, err := e.Values(set)
	if err != nil {
		return plan.Selection{}, err.Error()
	}
	return plan.Selection{Strategy: e, Values: v}, ""
}
