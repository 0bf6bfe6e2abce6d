#!/usr/bin/env python3
"""Kernels of the loops of the fifth set, while they are measured.

    python3 -m torch.distributed.run --nproc-per-node 4 kernels.py OUT

Writes OUT/kernels.jsonl: a line a loop and way, with its times (us; profiled_us under the profiler) and every rank's
kernels of the latter, [kind, start us, duration us]: G a GEMM, C a collective, M a memset, T what keeps a GPU until its
host is ahead.
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
from strategies import SETS, loop, share  # noqa: E402


def kinds(path):
    with gzip.open(path) as f:
        events = [e for e in json.load(f)["traceEvents"] if e.get("cat") in ("kernel", "gpu_memset")]
    events.sort(key=lambda e: e["ts"])
    first = events[0]["ts"]
    out = []
    for e in events:
        name = e["name"]
        kind = "C" if "nccl" in name else "M" if "emset" in name else "T" if "spin" in name else "G"
        out.append([kind, round(e["ts"] - first, 1), round(e["dur"], 1)])
    return out


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    lab = Lab(argparse.Namespace(machine=None, iterations=5, out=out))
    file = open(os.path.join(out, "kernels.jsonl"), "w") if lab.rank == 0 else None
    for case in SETS["fifth"]["loops"]:
        name, shape, op = share(lab, case)
        for channels in 0, 6:
            for overlap in False, True:
                work = loop(lab, shape, op, 16, overlap, lab.group(channels or None, False))
                us = lab.time(work, head_us=1500, warm=1)
                folder = f"{name}_{op}_{channels}_{overlap}"
                with profiled(lab, folder):
                    timed = lab.time(work, head_us=1500, warm=1)
                dist.barrier(group=lab.host)
                if file:
                    ranks = [kinds(os.path.join(out, "traces", folder, f"rank{r}.json.gz")) for r in range(lab.world)]
                    file.write(json.dumps({"name": name, "op": op, "channels": channels, "overlap": overlap, "us": us, "profiled_us": timed, "ranks": ranks}) + "\n")
                    file.flush()
                del work
                torch.cuda.empty_cache()
    dist.barrier(group=lab.host)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
