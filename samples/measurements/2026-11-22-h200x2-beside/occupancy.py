#!/usr/bin/env python3
"""How a collective's slowdown grows with the workgroups that run beside it.

    python3 -m torch.distributed.run --nproc-per-node 2 occupancy.py OUT [SECONDS]

A kernel runs without end on n SMs, one workgroup each, that leave no room for another. Beside it a collective of
so many channels, again and again. Writes OUT/rows.jsonl, OUT/neighbours.jsonl and OUT/machine.json.
"""
import json
import os
import statistics
import sys
import time
import types

import torch
import torch.distributed as dist
import triton
import triton.language as tl

from capture import GEMMS, MIB, Lab, between_us, event, gemm

PAUSE = 0.12
REPEATS = 11  # and one ahead of them
TILE = (128, 256, 64)


@triton.jit
def tiles_kernel(a, b, c, stop, done, N, K, tiles, cached, cap, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    # Tiles of a product until told to stop; with cached over 0, of the first so many, whose operands stay in the L2 cache.
    p = tl.program_id(0)
    count = p * 0
    while (tl.atomic_cas(stop, -1, -1, sem="relaxed", scope="gpu") < 1) & (count < cap):
        tile = (p + count * tl.num_programs(0)) % tiles
        if cached > 0:
            tile = p % cached
        m = tile // (N // BN) * BM + tl.arange(0, BM)
        n = tile % (N // BN) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        at_a = a + m[:, None] * K + k[None, :]
        at_b = b + k[:, None] * N + n[None, :]
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for _ in range(0, K, BK):
            acc = tl.dot(tl.load(at_a), tl.load(at_b), acc)
            at_a += BK
            at_b += BK * N
        tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.bfloat16))
        count += 1
    tl.store(done + p, count)


ENDLESS = r"""
extern "C" __global__ void __launch_bounds__(512) NAME(const float4* in, float4* out, int blocks, int pause, const volatile int* stop, int* done, int cap) {
  __shared__ int go;
  int i = 0;
  for (;; i++) {
    if (threadIdx.x == 0) go = *stop == 0 && i < cap;
    __syncthreads();
    if (!go) break;
    __syncthreads();
#if MEMORY
    for (int turn = 0; turn < 16; turn++) {
      long long at = (((long long)i * 16 + turn) * gridDim.x + blockIdx.x) % blocks * 4096 + threadIdx.x;
      float4 v[8];
#pragma unroll
      for (int u = 0; u < 8; u++) v[u] = in[at + u * 512];
#pragma unroll
      for (int u = 0; u < 8; u++) out[at + u * 512] = v[u];
    }
#endif
    if (pause > 0) for (long long from = clock64(); clock64() - from < pause;) {}
  }
  if (threadIdx.x == 0) done[blockIdx.x] = i;
}"""
CLOCK = r"""
extern "C" __global__ void watch(const volatile int* stop, long long* out) {
  long long cycles = clock64(), from, to;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(from));
  do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(to)); } while (*stop == 0 && to - from < 400000000);
  out[0] = clock64() - cycles;
  out[1] = to - from;
}"""
TURN_BYTES = 2 * 16 * 4096 * 16


class Neighbours:
    def __init__(self, lab):
        self.lab = lab
        self.stop = torch.zeros(1, device=lab.device, dtype=torch.int32)
        self.done = torch.zeros(lab.cus, device=lab.device, dtype=torch.int32)
        self.one = torch.ones(1, dtype=torch.int32).pin_memory()
        self.shared = 200 * 1024
        self.kernels = {}
        for name, memory in ("spin", 0), ("copy", 1):
            k = torch.cuda._compile_kernel(ENDLESS.replace("NAME", name).replace("MEMORY", str(memory)), name)
            k.set_shared_memory_config(self.shared)
            self.kernels[name] = k
        self.watch = torch.cuda._compile_kernel(CLOCK, "watch")
        self.watch.set_shared_memory_config(self.shared)
        self.watched = torch.ones(2, device=lab.device, dtype=torch.int64)
        self.third = torch.cuda.Stream()
        self.big = [torch.randn(128 << 20, device=lab.device) for _ in range(2)]  # 512 MiB each
        m, n, k = GEMMS["llama70b_fc2_tp4"]
        self.mnk = m, n, k
        self.a = torch.randn(m, k, device=lab.device, dtype=torch.bfloat16)
        self.b = torch.randn(k, n, device=lab.device, dtype=torch.bfloat16)
        self.c = torch.empty(m, n, device=lab.device, dtype=torch.bfloat16)

    def launch(self, kind, n):
        stream = torch.cuda.current_stream()

        def cuda(name, blocks, pause, cap):
            self.kernels[name]((n, 1, 1), (512, 1, 1), (self.big[0], self.big[1], blocks, pause, self.stop, self.done, cap), shared_mem=self.shared, stream=stream)

        m, N, K = self.mnk
        bm, bn, bk = TILE
        tiles = m // bm * (N // bn)
        match kind:
            case "spin":
                cuda("spin", 1, 20000, 20000)
            case "copy":
                cuda("copy", 8192, 0, 4000)
            case "copy_slow":
                cuda("copy", 8192, 60000, 4000)
            case "copy_cached":
                cuda("copy", 192, 0, 10000)
            case "tiles" | "tiles_cached":
                tiles_kernel[(n,)](self.a, self.b, self.c, self.stop, self.done, N, K, tiles, 4 if kind == "tiles_cached" else 0, 3000, BM=bm, BN=bn, BK=bk, num_warps=8, num_stages=4)
            case _:
                raise ValueError(kind)

    def per_turn(self, kind):
        """Bytes read and written by memory instructions, and FLOP, of a workgroup's turn."""
        m, n, k = self.mnk
        if kind.startswith("copy"):
            return TURN_BYTES, 0
        if kind.startswith("tiles"):
            return 2 * (TILE[0] + TILE[1]) * k + 2 * TILE[0] * TILE[1], 2 * TILE[0] * TILE[1] * k
        return 0, 0

    def run(self, kind, n, work, head_us=2500):
        """work() on the side stream beside n workgroups of the kind; the turns that these make in a microsecond, and their time."""
        lab, main = self.lab, torch.cuda.current_stream()
        start, end, over = event(), event(), event()
        self.stop.zero_()
        self.done.zero_()
        torch.cuda.synchronize()
        time.sleep(PAUSE)
        lab.align(head_us)
        lab.side.wait_stream(main)
        self.third.wait_stream(main)
        start.record()
        if n:
            self.launch(kind, n)
        end.record()
        with torch.cuda.stream(self.third):
            lab.sleep(40)
            self.watch((1, 1, 1), (1, 1, 1), (self.stop, self.watched), shared_mem=self.shared, stream=self.third)
        with torch.cuda.stream(lab.side):
            lab.sleep(80)
            work()
            over.record(lab.side)
            self.stop.copy_(self.one, non_blocking=True)
        torch.cuda.synchronize()
        us, ahead = between_us(start, end), between_us(over, end) if n else 0
        cycles, ns = self.watched.tolist()
        return self.done.sum().item() / us if n else 0, us, round(1e3 * cycles / ns), round(ahead, 1)


def measure(lab, near, kind, n, call):
    own = [event() for _ in range(REPEATS + 2)]

    def work():
        for mark in own[:-1]:
            mark.record(lab.side)
            call()
        own[-1].record(lab.side)

    turns, us, mhz, ahead = near.run(kind, n, work)
    return [between_us(a, b) for a, b in zip(own, own[1:])][1:], turns, mhz, ahead


def library(lab, near, n, call, alone_us):
    """Beside GEMMs of the library on n SMs, one after the other."""
    torch._C._set_sm_carveout_experimental(lab.cus - n)
    try:
        work = near.product
        work()
        if call is None:
            return statistics.median(lab.time(work, warm=1))
        each = near.each[n]
        near.stop.zero_()
        torch.cuda.synchronize()
        time.sleep(PAUSE)
        count = int((REPEATS + 1) * alone_us * 2.2 / each) + 4
        own, first, last = [event() for _ in range(REPEATS + 2)], event(), event()
        lab.align(2500 + 20 * count)
        main = torch.cuda.current_stream()
        first.record()
        work()
        lab.side.wait_stream(main)
        for _ in range(count - 1):
            work()
        last.record()
        with torch.cuda.stream(near.third):
            near.third.wait_event(first)
            near.watch((1, 1, 1), (1, 1, 1), (near.stop, near.watched), shared_mem=near.shared, stream=near.third)
        with torch.cuda.stream(lab.side):
            for mark in own[:-1]:
                mark.record(lab.side)
                call()
            own[-1].record(lab.side)
            near.stop.copy_(near.one, non_blocking=True)
        torch.cuda.synchronize()
        cycles, ns = near.watched.tolist()
        mhz = round(1e3 * cycles / ns)
        if between_us(own[-1], last) < 0:
            lab.say("  the products ended first")
        return [between_us(a, b) for a, b in zip(own, own[1:])][1:], each, mhz, between_us(first, last) / count
    finally:
        torch._C._set_sm_carveout_experimental(None)


def main():
    out, limit = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 300
    lab = Lab(types.SimpleNamespace(machine="", iterations=7, out=out))
    torch.backends.cuda.preferred_blas_library("cublaslt")
    near = Neighbours(lab)
    files = {name: open(os.path.join(out, name + ".jsonl"), "w") for name in ("rows", "neighbours")} if lab.rank == 0 else {}

    def gather(x):
        ranks = [None] * lab.world
        dist.all_gather_object(ranks, (x, time.monotonic() - lab.began), group=lab.host)
        return [r[0] for r in ranks], ranks[0][1]

    def write(name, row):
        if lab.rank == 0:
            files[name].write(json.dumps(row, separators=(",", ":")) + "\n")
            files[name].flush()

    if lab.rank == 0:
        p = lab.properties
        json.dump({"gpu": p.name, "cus": p.multi_processor_count, "l2": p.L2_cache_size, "gpus": lab.world, "torch": torch.__version__, "cuda": torch.version.cuda, "triton": triton.__version__,
                   "nccl": ".".join(map(str, torch.cuda.nccl.version())), "environment": {k: v for k, v in os.environ.items() if k.startswith(("NCCL_", "CUDA_"))}}, open(os.path.join(out, "machine.json"), "w"))
    kinds = ["spin", "copy", "copy_cached", "tiles", "tiles_cached"]
    ns = (1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 104, 112)
    for kind in kinds:
        for n in (1,) + ns:
            turns, us, mhz, ahead = near.run(kind, n, lambda: lab.sleep(6000))
            size, flop = near.per_turn(kind)
            if n > 1 or kind == "spin":
                lab.say(f"{kind} {n}: {turns * size / 1e6:.3f} TB/s {turns * flop / 1e6:.1f} TFLOP/s {us:.0f} us {mhz} MHz")
            write("neighbours", {"beside": kind, "workgroups": n, "turns_per_us": turns, "bytes_per_us": turns * size, "flop_per_us": turns * flop, "us": us, "mhz": mhz})
    near.product, near.each = lambda: torch.mm(near.a, near.b, out=near.c), {}
    for n in (8,) + ns[3:]:
        near.each[n] = max(gather(library(lab, near, n, None, 0))[0])
        lab.say(f"library {n}: {near.each[n]:.1f} us")
        write("neighbours", {"beside": "library", "workgroups": n, "us": near.each[n]})
    kinds.append("library")
    plan = [(128, op, ch) for ch in (8, 4) for op in ("all_reduce", "all_to_all", "reduce_scatter", "all_gather")]
    plan += [(128, op, 16) for op in ("all_reduce", "all_to_all")] + [(16, "all_reduce", 8), (16, "all_to_all", 8), (16, "all_reduce", 16)]
    for mib, op, ch in plan:
        call, refresh = lab.collective(op, mib * MIB, lab.group(ch))
        single = statistics.median(lab.time(call))
        alone = None
        for n in (0,) + ns + (0,):
            for kind in kinds if n else ["alone"]:
                if kind == "library" and n not in near.each or n + ch > 120:
                    continue
                if refresh:
                    refresh()
                turns, each = 0, None
                if kind == "library":
                    us, each, mhz, beside_us = library(lab, near, n, call, single)
                    ahead = 0
                else:
                    us, turns, mhz, ahead = measure(lab, near, kind, n, call)
                ranks, elapsed = gather((us, turns, mhz, ahead))
                if elapsed > limit:
                    lab.say("out of time")
                    dist.destroy_process_group()
                    return
                us = [round(max(x), 2) for x in zip(*(r[0] for r in ranks))]
                row = {"op": op, "bytes": mib * MIB, "ranks": lab.world, "channels": ch, "beside": kind, "workgroups": n, "us": us, "mhz": [r[2] for r in ranks], "ends_later_us": [r[3] for r in ranks]}
                if kind == "library":
                    row |= {"gemm_alone_us": round(each, 1), "gemm_us": round(beside_us, 1)}
                elif n:
                    size, flop = near.per_turn(kind)
                    row |= {"turns_per_us": turns, "bytes_per_us": turns * size, "flop_per_us": turns * flop}
                write("rows", row)
                middle = statistics.median(us)
                alone = alone or middle
                lab.say(f"{op} {mib} ch{ch} {kind} {n}: {middle:.1f} ({min(us):.1f}..{max(us):.1f}) x{middle / alone:.3f} {row['mhz']} {row['ends_later_us']}")
    dist.destroy_process_group()


main()
