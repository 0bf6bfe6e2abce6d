package kernel

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/workload"
)

// ForwardBatch is the base of the ranges in which serving engines run a batch.
const ForwardBatch = "forward batch"

// The ranges of serving engines: vLLM's worker names what is scheduled, requests and, in
// parentheses, their tokens ("sq": queries); its version of 2025 names requests only. SGLang's
// model runner names its forward mode, TensorRT-LLM's executor the number of an iteration, its
// requests and, since 2026, the tokens of prompts.
var (
	vllmBatch   = regexp.MustCompile(`^execute_(?:\d+_)?context_(\d+)\((?:sq)?(\d+)[^)]*\)_generation_(\d+)\((?:sq)?(\d+)`)
	vllmOld     = regexp.MustCompile(`^execute_new_(\d+)_cached_(\d+)$`)
	sglangBatch = regexp.MustCompile(`^step\[([A-Z_0-9]+) bs=(\d+)(?: toks=(\d+))?(?:.* c_sq=(\d+))?(?:.* g_sq=(\d+))?`)
	tensorRTLLM = regexp.MustCompile(`^\[Executor\] _forward_step(?: \d+)?: (\d+) ctx reqs, (?:(\d+) ctx tokens, )?(\d+) gen reqs`)
)

// BatchOf reads the name of a serving engine's range; the zero value for other names.
func BatchOf(name string) workload.Batch {
	switch {
	case strings.HasPrefix(name, "execute_"):
		if m := vllmBatch.FindStringSubmatch(name); m != nil {
			return batch(m[1], m[3], m[2], m[4])
		}
		if m := vllmOld.FindStringSubmatch(name); m != nil {
			return batch(m[1], m[2], "", "")
		}
	case strings.HasPrefix(name, "[Executor]"):
		if m := tensorRTLLM.FindStringSubmatch(name); m != nil {
			if m[3] != "0" { // which may have drafts of several tokens each
				m[2] = ""
			}
			return batch(m[1], m[3], m[2], "")
		}
	case strings.HasPrefix(name, "step["):
		m := sglangBatch.FindStringSubmatch(name)
		switch {
		case m == nil:
		case m[1] == "EXTEND" || m[1] == "SPLIT_PREFILL":
			return batch(m[2], "", cmp.Or(m[3], m[4]), "")
		case m[1] == "MIXED":
			b := batch(m[2], "", m[4], m[5])
			b.Phase = workload.Mixed
			return b
		case m[1] == "DECODE":
			return batch("", m[2], "", m[2])
		case m[1] == "TARGET_VERIFY", strings.HasPrefix(m[1], "DRAFT_"): // several tokens a request
			return batch("", m[2], "", m[5])
		}
	}
	return workload.Batch{}
}

// batch is a batch of so many requests and tokens of prefill and of decode; "" is none, or unknown.
func batch(prefills, decodes, promptTokens, decodeTokens string) workload.Batch {
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 40)
		if err != nil {
			return 0
		}
		return n
	}
	p, d := number(prefills), number(decodes)
	b := workload.Batch{Requests: p + d, Tokens: number(promptTokens) + number(decodeTokens)}
	switch {
	case p > 0 && d > 0:
		b.Phase = workload.Mixed
	case p > 0:
		b.Phase = workload.Prefill
	case d > 0:
		b.Phase = workload.Decode
	}
	return b
}

// decodesByTile finds FlashInfer's prefill kernels that decode: without a causal mask, over a tile of 16
// queries, which are the heads of one key (BatchDecodeWithPagedKVCacheWrapper, use_tensor_cores).
var decodesByTile = regexp.MustCompile(`kerneltraits<\(flashinfer::maskmode\)0, (?:\(unsigned int\))?16u?,`)

// attention reports whether a kernel's name is of attention, over prompts or of one token a sequence.
// Many kernels do both, as FlashAttention's of paged caches (flash_fwd_splitkv_kernel, FlashAttnFwdSm90).
// Sources: flashinfer include/flashinfer/attention; FlashMLA csrc; TensorRT-LLM's fmha and xqa kernels
// (…Context, …ForGen); aiter hsa (pa_, mla_) and csrc/cpp_itfs/pa; ck_tile fmha; the Triton kernels of vLLM
// (v1/attention/ops) and SGLang (srt/layers/attention/triton_ops).
func attention(name string) (is, prefill, decode bool) {
	name = strings.ToLower(name)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
	}
	if ClassOf(name) != dense || has("conv", "wgrad", "dgrad", "fprop") && !has("sdpa") {
		return false, false, false
	}
	decode = has("decode", "pageattention", "pagedattention", "paged_attention", "unified_attention_3d", "splitkv_mla", "fmhafwdsplitkv", "fmhamla",
		"mla_dec", "mla_a", "aiter::pa_", "forgen", "kernel_mha", "masked_multihead", "_fwd_grouped_kernel_stage", "_fwd_kernel_stage") || decodesByTile.MatchString(name)
	prefill = !decode && has("prefill", "context", "fmhafwd", "fmha_fwd", "fmha_v2", "mla_pfl", "sparse_attn_fwd")
	return true, prefill, decode
}
