#!/usr/bin/env python3
"""How long an all-to-all takes in which every rank sends only to itself, only to the others, and to all.

    torchrun --nproc-per-node 4 own.py OUT
"""
import json
import os
import sys
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
out = open(os.path.join(sys.argv[1], f"own{world}.jsonl"), "w") if rank == 0 else None
groups = {0: dist.new_group()}
for c in (4, 8, 16):
    o = dist.ProcessGroupNCCL.Options()
    o.config.min_ctas = o.config.max_ctas = c
    groups[c] = dist.new_group(pg_options=o)


def timed(group, splits):
    x = torch.empty(sum(splits), device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)
    for _ in range(3):
        dist.all_to_all_single(y, x, splits, splits, group=group)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda._sleep(2_000_000)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(11)]
    marks[0].record()
    for m in marks[1:]:
        dist.all_to_all_single(y, x, splits, splits, group=group)
        m.record()
    torch.cuda.synchronize()
    us = sorted(1e3 * a.elapsed_time(b) for a, b in zip(marks, marks[1:]))
    return [round(us[5], 2), round(us[0], 2), round(us[-1], 2)]


for channels, group in groups.items():
    for mib in (1, 4, 16, 32, 64, 128, 256):
        each = (mib << 19) // world
        whole = [each] * world
        mine = [each if i == rank else 0 for i in range(world)]
        rest = [0 if i == rank else each for i in range(world)]
        r = {"op": "all_to_all", "ranks": world, "channels": channels, "mib": mib, "own_us": timed(group, mine), "others_us": timed(group, rest), "all_us": timed(group, whole)}
        if rank == 0:
            out.write(json.dumps(r) + "\n")
            out.flush()
            print(channels, mib, r["own_us"][0], r["others_us"][0], r["all_us"][0], flush=True)
dist.barrier()
dist.destroy_process_group()
