#!/usr/bin/env python3
"""How many SMs a NCCL collective holds while it waits for a rank that is late, and where.

    nvcc -O3 -arch=sm_90a -shared -Xcompiler -fPIC probe.cu -o probe.so
    torchrun --nproc-per-node 4 holds.py OUT

On all ranks but the last, which comes milliseconds later, a probe of a workgroup an SM that needs most of its shared
memory is launched behind the collective: those of its workgroups that start at once found a free SM.
"""
import ctypes
import json
import os
import sys
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
lib = ctypes.CDLL(os.path.join(os.path.dirname(os.path.abspath(__file__)), "probe.so"))
out = open(os.path.join(sys.argv[1], f"holds{world}.jsonl"), "w") if rank == 0 else None
host = dist.new_group(backend="gloo")
side = torch.cuda.Stream()
CYCLES = 1_980  # of the SM clock, a microsecond


def probe(us=50):
    sm = torch.full((132,), 999, device="cuda", dtype=torch.int32)
    at = torch.zeros(132, device="cuda", dtype=torch.int64)
    err = lib.launch(ctypes.c_void_p(sm.data_ptr()), ctypes.c_void_p(at.data_ptr()), us, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
    assert err == 0, err
    return sm, at


def once(op, n, group):
    x = torch.empty(n, device="cuda", dtype=torch.bfloat16)
    y = torch.empty(n * (world if op == "all_gather" else 1), device="cuda", dtype=torch.bfloat16)
    torch.cuda.synchronize()
    dist.barrier(group=host)
    late = rank == world - 1
    with torch.cuda.stream(side):
        if late:
            torch.cuda._sleep(6000 * CYCLES)
        {"all_to_all": lambda: dist.all_to_all_single(y, x, group=group),
         "all_gather": lambda: dist.all_gather_into_tensor(y, x, group=group),
         "reduce_scatter": lambda: dist.reduce_scatter_tensor(y[: n // world], x, group=group),
         "all_reduce": lambda: dist.all_reduce(x, group=group)}[op]()
    found = []
    if not late:
        for _ in range(2):
            torch.cuda._sleep(1500 * CYCLES)
            found.append(probe())
    torch.cuda.synchronize()
    return [sorted(set(range(132)) - {s for s, t in zip(sm.tolist(), at.tolist()) if t - min(at.tolist()) < 25_000}) for sm, at in found]


groups = {0: dist.new_group()}
for c in (4, 8, 16):
    o = dist.ProcessGroupNCCL.Options()
    o.config.min_ctas = o.config.max_ctas = c
    groups[c] = dist.new_group(pg_options=o)
alone = None
for warm in range(2):
    s, t = probe()
    torch.cuda.synchronize()
    alone = sum(v - min(t.tolist()) < 25_000 for v in t.tolist())
if rank == 0:
    print("alone", alone, flush=True)
for op in ("all_to_all", "all_gather", "reduce_scatter", "all_reduce"):
    for channels, group in groups.items():
        for mib in (1, 4, 8, 16, 32, 64, 128):
            n = mib << 19  # bf16 elements of the whole buffer
            for turn in range(3):
                held = once(op, n // world if op == "all_gather" else n, group)
                if turn and rank == 0:
                    out.write(json.dumps({"op": op, "ranks": world, "channels": channels, "mib": mib, "held": held}) + "\n")
                    out.flush()
                    if turn == 2:
                        print(op, channels, mib, [len(h) for h in held], held[0], flush=True)
dist.barrier(group=host)
dist.destroy_process_group()
