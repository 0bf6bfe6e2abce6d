#!/usr/bin/env python3
"""What runs in PyTorch's one-sided operators of the fifth set, while they are measured.

    python3 -m torch.distributed.run --nproc-per-node 4 onesided.py OUT

Writes OUT/onesided.jsonl: a line an operator, with its times (us; profiled_us under the profiler) and every rank's kernels
and copies of the latter, [name, stream, start us, duration us].
"""
import argparse
import gzip
import json
import os
import sys

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../capture"))
from capture import Lab, profiled  # noqa: E402
from strategies import SETS, share  # noqa: E402


def spans(path):
    with gzip.open(path) as f:
        events = [e for e in json.load(f)["traceEvents"] if e.get("cat") in ("kernel", "gpu_memset", "gpu_memcpy")]
    events.sort(key=lambda e: e["ts"])
    first = events[0]["ts"]
    return [[e["name"][:48], e["args"].get("stream"), round(e["ts"] - first, 1), round(e["dur"], 1)] for e in events]


def main():
    import torch.distributed._symmetric_memory as symm

    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    lab = Lab(argparse.Namespace(machine=None, iterations=5, out=out))
    w, group = lab.world, dist.group.WORLD.group_name
    symm.enable_symm_mem_for_group(group)
    file = open(os.path.join(out, "onesided.jsonl"), "w") if lab.rank == 0 else None
    for case in SETS["fifth"]["onesided"] + SETS["first"]["onesided"]:
        name, (m, n, k), op = share(lab, case)
        gathered = op == "all_gather"
        a = torch.randn(m // w if gathered else m, k, device=lab.device, dtype=torch.bfloat16)
        b = torch.randn(k, n, device=lab.device, dtype=torch.bfloat16) / k**0.5

        def work(a=a, b=b, gathered=gathered):
            if gathered:
                torch.ops.symm_mem.fused_all_gather_matmul(a, [b], 0, group)
            else:
                torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, group)

        us = lab.time(work, head_us=1500)
        folder = f"{name}_{op}"
        with profiled(lab, folder):
            timed = lab.time(work, head_us=1500)
        part = torch.randn(m // w, k, device=lab.device, dtype=torch.bfloat16)
        piece = lab.time(lambda part=part, b=b: torch.mm(part, b), head_us=400)
        dist.barrier(group=lab.host)
        if file:
            ranks = [spans(os.path.join(out, "traces", folder, f"rank{r}.json.gz")) for r in range(lab.world)]
            file.write(json.dumps({"name": name, "op": op, "m": m, "n": n, "k": k, "us": us, "profiled_us": timed, "piece_us": piece, "ranks": ranks}) + "\n")
            file.flush()
    dist.barrier(group=lab.host)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
