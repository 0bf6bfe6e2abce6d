#!/usr/bin/env python3
"""Measures strategies on a multi-GPU machine, for `overlapse validate`.

    torchrun --nproc-per-node 4 strategies.py --out OUT [--set NAME]

Writes OUT/rows.jsonl, a row a measurement, and OUT/traces, the bulk traces that the rows start from. Sizes are below; edit
them for your own. Needs Triton, and beside it capture.py, whose laboratory it uses.
"""
import argparse
import os

import torch
import torch.distributed as dist
import triton
import triton.language as tl

from capture import TILE, Book, Lab, loops, pairs, record, share

# Sizes of C[M,N] = A[M,K] B[K,N]: of the whole product, and which of them is divided by the ranks.
SETS = {
    "first": {
        "pairs": [  # a GEMM and the collective of its output; all_gather: of its input
            ("llama8b_fc2", 8192, 4096, 14336, "k", "all_reduce"),
            ("llama8b_fc2", 8192, 4096, 14336, "k", "reduce_scatter"),
            ("gpt3_fc2", 4096, 12288, 49152, "k", "all_reduce"),
            ("gpt3_fc2", 4096, 12288, 49152, "k", "reduce_scatter"),
            ("qwen32b_op", 16384, 5120, 5120, "k", "all_reduce"),
            ("moe_wide", 16384, 2048, 28672, "k", "all_to_all"),
            ("llama8b_qkv", 8192, 6144, 4096, "n", "all_gather"),
            ("gpt3_fc1", 4096, 49152, 12288, "n", "all_gather"),
        ],
        "decompose": [  # chunks, channels (0: the library's own), urgent
            (2, 0, False), (4, 0, False), (8, 0, False), (2, 0, True), (4, 0, True), (8, 0, True), (4, 8, False), (4, 16, False), (2, 4, False),
        ],
        "loops": [  # the same, 16 times over
            ("llama8b_fc2", 8192, 4096, 14336, "k", "all_reduce"),
            ("llama8b_fc2", 8192, 4096, 14336, "k", "all_to_all"),
            ("gpt3_fc2", 4096, 12288, 49152, "k", "all_reduce"),
        ],
        "multistream": [(0, False), (0, True), (8, False), (16, False)],  # channels, urgent
        "onesided": [
            ("llama8b_fc2", 8192, 4096, 14336, "k", "reduce_scatter"),
            ("gpt3_fc2", 4096, 12288, 49152, "k", "reduce_scatter"),
            ("llama8b_qkv", 8192, 6144, 4096, "n", "all_gather"),
            ("gpt3_fc1", 4096, 49152, 12288, "n", "all_gather"),
        ],
        "fused": [],
    },
    "second": {
        "pairs": [
            ("qwen72b_fc2", 8192, 8192, 29568, "k", "all_reduce"),
            ("qwen72b_fc2", 8192, 8192, 29568, "k", "reduce_scatter"),
            ("dsv3_op", 4096, 7168, 16384, "k", "all_reduce"),
            ("gpt2xl_fc2", 4096, 3072, 12288, "k", "all_reduce"),
            ("gpt2xl_fc2", 4096, 3072, 12288, "k", "all_to_all"),
            ("llama70b_qkv", 4096, 10240, 8192, "n", "all_gather"),
        ],
        "decompose": [
            (2, 0, False), (4, 0, False), (8, 0, False), (2, 0, True), (4, 0, True), (4, 4, False), (4, 8, False), (4, 16, False), (8, 32, False),
        ],
        "loops": [("dsv3_op", 4096, 7168, 16384, "k", "all_reduce"), ("gpt2xl_fc2", 4096, 3072, 12288, "k", "all_to_all")],
        "multistream": [(0, False), (0, True), (4, False), (12, False)],
        "onesided": [("qwen72b_fc2", 8192, 8192, 29568, "k", "reduce_scatter"), ("llama70b_qkv", 4096, 10240, 8192, "n", "all_gather")],
        "fused": [("moe_small", 8192, 4096, 3584), ("moe_long", 16384, 2048, 7168)],  # m, n, k of a rank
    },
    "third": {
        "pairs": [
            ("qwen7b_fc2", 8192, 3584, 18944, "k", "all_reduce"),
            ("qwen7b_fc2", 8192, 3584, 18944, "k", "reduce_scatter"),
            ("llama405b_op", 2048, 16384, 16384, "k", "all_reduce"),
            ("llama405b_op", 2048, 16384, 16384, "k", "all_to_all"),
            ("odd", 6144, 7680, 10752, "k", "reduce_scatter"),
            ("long", 32768, 2560, 10240, "k", "all_reduce"),
            ("odd_in", 6144, 10752, 7680, "n", "all_gather"),
        ],
        "decompose": [
            (2, 0, False), (4, 0, False), (8, 0, False), (16, 0, False), (2, 0, True), (4, 0, True), (4, 6, False), (2, 12, False), (4, 24, True), (8, 16, True),
        ],
        "loops": [("qwen7b_fc2", 8192, 3584, 18944, "k", "all_reduce"), ("odd", 6144, 7680, 10752, "k", "all_to_all"), ("long", 32768, 2560, 10240, "k", "reduce_scatter")],
        "multistream": [(0, False), (0, True), (6, False), (24, True)],
        "onesided": [("odd", 6144, 7680, 10752, "k", "reduce_scatter"), ("odd_in", 6144, 10752, 7680, "n", "all_gather")],
        "fused": [("moe_odd", 6144, 5120, 2816), ("moe_thin", 4096, 2048, 16384)],
    },
    "fourth": {
        "pairs": [
            ("gemma27b_fc2", 4096, 4608, 36864, "k", "all_reduce"),
            ("gemma27b_fc2", 4096, 4608, 36864, "k", "reduce_scatter"),
            ("grok_op", 8192, 6144, 6144, "k", "reduce_scatter"),
            ("phi_fc2", 16384, 5120, 17920, "k", "all_to_all"),
            ("command_r", 3072, 12288, 12288, "k", "all_reduce"),
            ("yi_in", 8192, 20480, 7168, "n", "all_gather"),
            ("command_r_in", 3072, 16384, 12288, "n", "all_gather"),
        ],
        "decompose": [
            (2, 0, False), (4, 0, False), (8, 0, False), (2, 0, True), (4, 0, True), (4, 10, False), (2, 5, False), (8, 20, True),
        ],
        "loops": [("grok_op", 8192, 6144, 6144, "k", "reduce_scatter"), ("command_r", 3072, 12288, 12288, "k", "all_to_all")],
        "multistream": [(0, False), (0, True), (5, False), (20, True)],
        "onesided": [("grok_op", 8192, 6144, 6144, "k", "reduce_scatter"), ("yi_in", 8192, 20480, 7168, "n", "all_gather")],
        "fused": [("moe_tall", 12288, 3072, 4864), ("moe_flat", 2048, 8192, 7168)],
    },
    "fifth": {
        "pairs": [
            ("qwen3_fc2", 4096, 5120, 25600, "k", "all_reduce"),
            ("qwen3_fc2", 4096, 5120, 25600, "k", "reduce_scatter"),
            ("falcon_op", 2048, 14848, 14848, "k", "all_reduce"),
            ("dbrx_fc2", 16384, 6144, 10752, "k", "reduce_scatter"),
            ("mixtral_fc2", 12288, 4096, 14336, "k", "all_to_all"),
            ("granite_op", 24576, 3072, 3072, "k", "all_reduce"),
            ("falcon_in", 4096, 59392, 14848, "n", "all_gather"),
            ("qwen3_in", 8192, 10240, 5120, "n", "all_gather"),
        ],
        "decompose": [
            (2, 0, False), (4, 0, False), (8, 0, False), (2, 0, True), (4, 0, True), (4, 12, False), (2, 6, False), (8, 20, True),
        ],
        "loops": [("qwen3_fc2", 4096, 5120, 25600, "k", "all_reduce"), ("mixtral_fc2", 12288, 4096, 14336, "k", "all_to_all"), ("dbrx_fc2", 16384, 6144, 10752, "k", "reduce_scatter")],
        "multistream": [(0, False), (0, True), (6, False), (20, True)],
        "onesided": [("dbrx_fc2", 16384, 6144, 10752, "k", "reduce_scatter"), ("qwen3_in", 8192, 10240, 5120, "n", "all_gather")],
        "fused": [("moe_dbrx", 8192, 6144, 2688), ("moe_qwen", 4096, 2048, 6144)],
    },
    "sixth": {
        "pairs": [
            ("nemo_fc2", 6144, 5120, 14336, "k", "all_reduce"),
            ("nemo_fc2", 6144, 5120, 14336, "k", "reduce_scatter"),
            ("neox_fc2", 12288, 6144, 24576, "k", "all_to_all"),
            ("olmo_op", 10240, 5120, 5120, "k", "all_reduce"),
            ("wide", 20480, 2560, 12800, "k", "reduce_scatter"),
            ("starcoder_in", 5120, 24576, 6144, "n", "all_gather"),
        ],
        "decompose": [
            (2, 0, False), (4, 0, False), (8, 0, False), (2, 0, True), (4, 0, True), (4, 14, False), (2, 7, False), (8, 28, True),
        ],
        "loops": [("nemo_fc2", 6144, 5120, 14336, "k", "all_reduce"), ("wide", 20480, 2560, 12800, "k", "all_to_all")],
        "multistream": [(0, False), (0, True), (7, False), (28, True)],
        "onesided": [("wide", 20480, 2560, 12800, "k", "reduce_scatter"), ("starcoder_in", 5120, 24576, 6144, "n", "all_gather")],
        "fused": [("moe_granite", 10240, 3072, 4096), ("moe_olmoe", 6144, 2048, 8192)],
    },
    "seventh": {
        "pairs": [
            ("mistral_fc2", 5120, 5120, 20480, "k", "all_reduce"),
            ("mistral_fc2", 5120, 5120, 20480, "k", "reduce_scatter"),
            ("qwen14b_op", 14336, 5120, 5120, "k", "all_reduce"),
            ("deep_fc2", 3072, 6144, 32768, "k", "reduce_scatter"),
            ("moe_mid", 9216, 4608, 9216, "k", "all_to_all"),
            ("gemma_in", 7168, 21504, 5376, "n", "all_gather"),
        ],
        "decompose": [
            (2, 0, False), (4, 0, False), (8, 0, False), (2, 0, True), (4, 0, True), (4, 10, False), (2, 5, False), (8, 20, True),
        ],
        "loops": [("mistral_fc2", 5120, 5120, 20480, "k", "all_reduce"), ("moe_mid", 9216, 4608, 9216, "k", "all_to_all")],
        "multistream": [(0, False), (0, True), (10, False), (24, True)],
        "onesided": [
            ("mistral_fc2", 5120, 5120, 20480, "k", "reduce_scatter"),
            ("deep_fc2", 3072, 6144, 32768, "k", "reduce_scatter"),
            ("gemma_in", 7168, 21504, 5376, "n", "all_gather"),
        ],
        "fused": [("moe_glm", 8192, 5120, 3072), ("moe_dbrx", 4096, 6144, 5376)],
    },
    "eighth": {
        "pairs": [
            ("olmo2_fc2", 7168, 5120, 27648, "k", "all_reduce"),
            ("olmo2_fc2", 7168, 5120, 27648, "k", "reduce_scatter"),
            ("glm_op", 12288, 4096, 8192, "k", "all_reduce"),
            ("kimi_fc2", 4096, 7168, 18432, "k", "all_to_all"),
            ("exaone_op", 18432, 2048, 4096, "k", "reduce_scatter"),
            ("internlm_in", 6144, 32768, 6144, "n", "all_gather"),
        ],
        "decompose": [
            (2, 0, False), (4, 0, False), (8, 0, False), (2, 0, True), (4, 0, True), (4, 9, False), (2, 12, False), (8, 26, True),
        ],
        "loops": [("olmo2_fc2", 7168, 5120, 27648, "k", "all_reduce"), ("kimi_fc2", 4096, 7168, 18432, "k", "all_to_all")],
        "multistream": [(0, False), (0, True), (9, False), (26, True)],
        "onesided": [("olmo2_fc2", 7168, 5120, 27648, "k", "reduce_scatter"), ("internlm_in", 6144, 32768, 6144, "n", "all_gather")],
        "fused": [("moe_kimi", 4096, 7168, 2048), ("moe_jamba", 12288, 4096, 7168)],
    },
}
PROGRAMS = (132, 128, 116, 100, 84)  # persistent workgroups of a fused kernel


def onesided(lab, book, cases):
    """PyTorch's operators over symmetric memory, which copy engines serve."""
    import torch.distributed._symmetric_memory as symm

    w, group = lab.world, dist.group.WORLD.group_name
    symm.enable_symm_mem_for_group(group)
    for case in cases:
        name, (m, n, k), op = share(lab, case)
        gathered = op == "all_gather"
        a = torch.randn(m // w if gathered else m, k, device=lab.device, dtype=torch.bfloat16)
        b = torch.randn(k, n, device=lab.device, dtype=torch.bfloat16) / k**0.5
        wl = {"name": name, "kind": "gemm+collective", "m": m, "n": n, "k": k, "dtype": "bf16", "collective": op, "bytes": 2 * m * (k if gathered else n)}

        def work(a=a, b=b, gathered=gathered):
            if gathered:
                torch.ops.symm_mem.fused_all_gather_matmul(a, [b], 0, group)
            else:
                torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, group)

        impl = "torch_fused_all_gather_matmul" if gathered else "torch_fused_matmul_reduce_scatter"
        book.row(wl, "onesided", {"impl": impl}, lab.time(work, head_us=1500), f"traces/bulk_{name}_{op}_w{w}")


@triton.jit
def gemm_k(a, b, c, peers, M, N, K, rank, WORLD: tl.constexpr, FUSED: tl.constexpr, AWARE: tl.constexpr, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    """C = A B in persistent workgroups. FUSED: every tile goes straight into the buffer of the rank that its rows are for."""
    tiles_n = N // TN
    tiles = (M // TM) * tiles_n
    each = tiles // WORLD
    for i in range(tl.program_id(0), tiles, tl.num_programs(0)):
        t = i
        if AWARE:
            t = (i + (rank + 1) * each) % tiles
        m = (t // tiles_n) * TM + tl.arange(0, TM)
        n = (t % tiles_n) * TN + tl.arange(0, TN)
        acc = tl.zeros((TM, TN), dtype=tl.float32)
        pa = a + m[:, None] * K + tl.arange(0, TK)[None, :]
        pb = b + tl.arange(0, TK)[:, None] * N + n[None, :]
        for _ in range(0, K, TK):
            acc = tl.dot(tl.load(pa), tl.load(pb), acc)
            pa += TK
            pb += TK * N
        if FUSED:
            to = t // each
            rows = M // WORLD
            out = tl.load(peers + to).to(tl.pointer_type(tl.bfloat16))
            tl.store(out + (m - to * rows + rank * rows)[:, None] * N + n[None, :], acc.to(tl.bfloat16))
        else:
            tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.bfloat16))


def fused(lab, book, cases):
    """GEMM + all-to-all in one persistent Triton kernel, and the same kernel with NCCL behind it."""
    import torch.distributed._symmetric_memory as symm
    w = lab.world
    tm, tn, tk = TILE
    for name, m, n, k in cases:
        a = torch.randn(m, k, device=lab.device, dtype=torch.bfloat16)
        b = torch.randn(k, n, device=lab.device, dtype=torch.bfloat16) / k**0.5
        c, other = torch.empty(m, n, device=lab.device, dtype=torch.bfloat16), torch.empty(m, n, device=lab.device, dtype=torch.bfloat16)
        buffer = symm.empty(m, n, dtype=torch.bfloat16, device=lab.device)
        handle = symm.rendezvous(buffer, dist.group.WORLD)
        peers = torch.tensor(handle.buffer_ptrs, dtype=torch.int64, device=lab.device)
        tiles = (m // tm) * (n // tn)
        wl = {"name": name, "kind": "gemm+collective", "m": m, "n": n, "k": k, "dtype": "bf16", "collective": "all_to_all", "bytes": 2 * m * n, "tile": list(TILE), "tiles": tiles}

        def launch(programs, to_peers, aware):
            gemm_k[(programs,)](a, b, c, peers, m, n, k, lab.rank, WORLD=w, FUSED=to_peers, AWARE=aware, TM=tm, TN=tn, TK=tk, num_warps=8, num_stages=3)

        def bulk():
            launch(PROGRAMS[0], False, False)
            dist.all_to_all_single(other, c)

        bulk()
        for aware in True, False:
            buffer.zero_()
            lab.align(100)
            launch(PROGRAMS[0], True, aware)
            handle.barrier()
            torch.cuda.synchronize()
            lab.say(f"fused equals bulk: {torch.equal(buffer, other)}, far by {(buffer - other).abs().max().item()}")
        trace = f"traces/bulk_triton_{name}_w{w}"
        book.row(wl, "bulk", {}, lab.time(bulk), trace)
        record(lab, os.path.basename(trace), bulk, 5)
        for aware in True, False:
            for programs in PROGRAMS:
                def work():
                    launch(programs, True, aware)
                    handle.barrier()
                book.row(wl, "fused", {"order": "aware" if aware else "oblivious", "programs": programs}, lab.time(work), trace)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True, help="folder for rows.jsonl and traces")
    p.add_argument("--set", default="first", choices=SETS, help="which sizes")
    p.add_argument("--prefix", default="h", help="what ids of rows begin with")
    p.add_argument("--machine", help="name in the rows; default: the GPU's")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    lab = Lab(argparse.Namespace(machine=args.machine, iterations=11, out=args.out))
    book, sizes = Book(lab, args.prefix), SETS[args.set]
    pairs(lab, book, sizes["pairs"], sizes["decompose"])
    loops(lab, book, sizes["loops"], sizes["multistream"])
    for measure in fused, onesided:
        try:
            measure(lab, book, sizes[measure.__name__])
        except Exception as e:  # no symmetric memory, no Triton for this GPU
            lab.say(f"{measure.__name__}: {type(e).__name__}: {e}")
    dist.barrier(group=lab.host)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
