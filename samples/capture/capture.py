#!/usr/bin/env python3
"""Measures a multi-GPU machine for overlapse: micro-benchmark rows and example traces.

    torchrun --nproc-per-node 4 capture.py --out mymachine

Needs PyTorch with CUDA or ROCm, and Triton (which comes with it). README.md beside this file says what each row means.

A row of calibrate.jsonl is a request (workload, strategy, parameters) with its times. The requests come from a built-in
plan or from --plan FILE; --list prints them, so that the output of --list is itself a plan.
"""

import argparse
import contextlib
import datetime
import itertools
import json
import os
import re
import statistics
import sys
import tempfile
import time

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
except ImportError:  # --list and --help need none of it
    torch = None
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

MIB = 1 << 20

# M, N, K of C[M,N] = A[M,K] B[K,N] on one of four GPUs.
GEMMS = {
    "llama70b_fc2_tp4": (8192, 8192, 7168),
    "llama70b_op_tp4": (8192, 8192, 2048),
    "tnlg_fc2_tp4": (8192, 4256, 4256),
    "moe_down": (8192, 4096, 3584),
}
CHUNKED = ["llama70b_fc2_tp4", "llama70b_op_tp4", "tnlg_fc2_tp4", "moe_down"]
FEW = [(3072, 6144), (4096, 16384), (6144, 3072), (10240, 8192), (12288, 12288), (16384, 4096), (28672, 8192)]  # N, K of products of few rows
WHOLE_WAVES = (2048, 4256, 4256)  # a GEMM that leaves no CU idle on 132 CUs
HELD = [(8192, 4096, 7168), (2048, 8192, 7168), (8192, 8192, 2048), (8192, 8192, 7168)]  # GEMMs of 4 to 16 waves while CUs are held
COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]
BF16 = 2  # bytes
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}  # as overlapse writes them, as PyTorch does
TILE = (128, 256, 64)  # of the Triton GEMM: one a CU
SMALL_TILE = (128, 128, 64)  # of which two fit on a CU


class Unsupported(Exception):
    """This machine or installation cannot run the benchmark; every rank finds out alike."""


class Fields(dict):
    """The workload or the parameters of a request."""

    def __missing__(self, key):
        raise Unsupported(f"the request names no {key}")


# ---------------------------------------------------------------------------------------------------------------------
# The plan: what to measure.


def request(workload, strategy="isolated", params=None, world=None, trace=None):
    r = {"workload": Fields(workload), "strategy": strategy, "params": Fields(params or {})}
    if world is not None:
        r["world"] = world
    if trace:
        r["trace"] = trace
    return r


def gemm_workload(m, n, k, name=None):
    w = {"kind": "gemm"}
    if name:
        w["name"] = name
    return w | {"m": m, "n": n, "k": k, "dtype": "bf16"}


def halton(i, base):
    """Number i of a sequence that covers 0 to 1 evenly."""
    x, f = 0.0, 1.0
    while i:
        f /= base
        x, i = x + f * (i % base), i // base
    return x


def spread_gemms(count):
    """M, N, K that cover the sizes of layers evenly, on a logarithmic scale, and of their chunks: 256 to 32768 rows, 1024 to
    32768 columns and depth, 15 to 3000 GFLOP."""
    found, i = [], 0
    while len(found) < count:
        i += 1
        m = round(256 * 128 ** halton(i, 2) / 64) * 64
        n, k = (round(1024 * 32 ** halton(i, base) / 128) * 128 for base in (3, 5))
        if 15e9 <= 2 * m * n * k <= 3e12:
            found.append((m, n, k))
    return found


def default_plan(cus, ranks, quick):
    """Requests in the order of measuring: the short ones first. Of more than two ranks, collectives are measured on two of them too."""
    sizes = [4096 << i for i in range(18)] + [896 * MIB]
    channels, bounded = (1, 2, 4, 8, 16, 32), (16 * MIB, 128 * MIB, 896 * MIB)
    held, spread = (0, 2, 4, 8, 16, 24, 32), 240
    if quick:
        sizes, bounded, channels, held, spread = [16384, MIB, 16 * MIB, 128 * MIB], (128 * MIB,), (4, 16), (0, 16), 12

    yield request({"kind": "hbm_copy", "bytes": 1 << 30}, world=1)
    yield request({"kind": "cu_groups"}, world=1)
    yield request({"kind": "graph40_same"}, world=1)
    for what in "same", "hops", "across_memset":
        yield request({"kind": "gap", "what": what}, world=1)
    yield request({"kind": "gap", "what": "copy"})
    for what in HOST_CALLS:
        yield request({"kind": "host_issue", "what": what})
    yield request({"kind": "host_issue", "what": "gemm"}, params={"profiled": True})
    for what, recorder in itertools.product(HOST_LOOPS, RECORDERS):
        yield request({"kind": "host_loop", "what": what}, params=recorder)
    for op, size in itertools.product(COLLECTIVES, (16384, 262144)):
        yield request({"kind": "collective_kernel", "collective": op, "bytes": size})

    for size in (16 * MIB, 128 * MIB) if quick else (4096, 65536, MIB, 16 * MIB, 64 * MIB, 256 * MIB):
        yield request({"kind": "p2p_copy_ring", "bytes": size})
    yield request({"kind": "symm_barrier"}, params={"kernel": True})
    for programs in (1, 64, cus, 256):
        for size in (128, 2048):
            yield request({"kind": "peer_flag", "bytes": size}, params={"programs": programs})
        for flags in (2, 3, 7):
            yield request({"kind": "peer_flag", "bytes": 128}, params={"programs": programs, "flags": flags})
    for programs, posts in itertools.product((1, cus, 2 * cus), (0, 1)):
        yield request({"kind": "semaphore", "what": "post", "bytes": 32768}, params={"programs": programs, "posts": posts}, world=1)
    for programs, posts in itertools.product((1, 16, cus // 2, cus), (1, 16, cus // 2)):
        yield request({"kind": "semaphore", "what": "handover"}, params={"programs": programs, "posts": posts}, world=1)
    for programs, waits in itertools.product((cus, 2 * cus), (0, 1, 2, 4, 8, 16, 32, 64)):
        yield request({"kind": "semaphore", "what": "product", "k": 8192}, params={"programs": programs, "waits": waits}, world=1)
    for size in 2 * MIB, 8 * MIB:
        yield request({"kind": "peer_store", "pattern": "ring", "bytes": size}, params={"programs": 1})
    for programs in (32, 64, cus, 2 * cus, 4 * cus)[:: 4 if quick else 1]:
        for pattern in "ring", "spread", "incast":
            size = min(4 * programs, 128) * MIB
            yield request({"kind": "peer_store", "pattern": pattern, "bytes": size}, params={"programs": programs})

    for world in (None, 2) if ranks > 2 else (None,):  # two numbers of ranks tell what a step takes from what a collective takes
        for op, size in itertools.product(COLLECTIVES, sizes):
            yield request({"kind": "collective", "collective": op, "bytes": size}, world=world)
        for op, size, n in itertools.product(COLLECTIVES, bounded, channels):
            yield request({"kind": "collective", "collective": op, "bytes": size}, params={"channels": n}, world=world)

    for name, parts in itertools.product(CHUNKED, (1, 2, 4, 8, 16)):
        m, n, k = GEMMS[name]
        yield request(gemm_workload(m // parts, n, k, name), params={"cool": True}, world=1, trace="traces/gemm_chunks")
    for (n, k), m in itertools.product(FEW[::3] if quick else FEW, (128, 512) if quick else (64, 128, 256, 512, 1024)):
        yield request(gemm_workload(m, n, k, "few"), params={"cool": True}, world=1, trace="traces/gemm_chunks")
    for m, n, k in spread_gemms(spread):
        yield request(gemm_workload(m, n, k, "spread"), params={"cool": True}, world=1)
    for n, k in itertools.product((8192, 16384, 32768, 65536), (2048, 4096, 8192)):
        yield request({"kind": "gemv", "n": n, "k": k, "dtype": "bf16"})
    for programs in cus // 4, cus // 2, cus * 3 // 4, cus:
        yield request(compiled_workload(programs, 8, TILE, 4096), params={"programs": programs}, world=1)
    for programs, k in itertools.product((cus // 2, cus, 2 * cus), (4096, 8192)):  # one and two tiles a CU
        yield request(compiled_workload(programs, 1, SMALL_TILE, k), params={"programs": programs}, world=1)

    triad = {"kind": "triad", "bytes": 1536 * MIB}
    for programs in cus // 4, cus // 2, cus, 2 * cus, 4 * cus, 8 * cus, 16 * cus:
        yield request(triad, params={"programs": programs}, world=1)
    for n in 2, 4, 8:
        yield request({"kind": "sum", "bytes": 96 * MIB, "pool": n}, world=1)
    for peers, programs in itertools.product((False, True), (cus, 2 * cus, 4 * cus, 8 * cus, 16 * cus)):
        w = {"kind": "embedding+collective", "part": "compute", "batch": 512, "tables": 64, "pool": 64, "dim": 256, "dtype": "f32"}
        yield request(w | ({"same_build": True} if peers else {}), params={"programs": programs}, world=1)

    for shape, n in itertools.product(HELD[:1] if quick else HELD, held):
        yield request(gemm_workload(*shape), "held_slots", {"held_cus": n, "hold_us": 3000}, world=1)
    kinds = ("cublas", "triton", "membound")
    for op, n, size, kind in itertools.product(COLLECTIVES, (16,) if quick else (4, 8, 16, 32), (128 * MIB,) if quick else (32 * MIB, 128 * MIB), kinds):
        yield request({"kind": "collective", "collective": op, "bytes": size}, "beside_" + kind, {"channels": n, "kernel": True})
    for op, n, size in itertools.product(COLLECTIVES, (16,) if quick else (8, 24), (8 * MIB, 16 * MIB, 32 * MIB)):
        yield request({"kind": "collective", "collective": op, "bytes": size}, "beside_cublas", {"channels": n, "kernel": True, "gemm": list(WHOLE_WAVES)})

    big = gemm_workload(*GEMMS["llama70b_fc2_tp4"])  # last: it heats the GPU
    for gap in 0, 200, 400, 800, 1600:
        yield request(big, "duty_cycle", {"gap_us": gap}, world=1)
    for gap in 0, 200, 400, 800:  # all GPUs share a board's power
        yield request(big, "duty_cycle", {"gap_us": gap})
    for shape in (16384, 4096, 14336), (8192, 6144, 8192), (4096, 28672, 8192):
        yield request(gemm_workload(*shape), "duty_cycle", {"gap_us": 0, "iterations": 150})
    for fill, gap in itertools.product(("triad", "all_gather"), (100, 200, 400, 800)):
        yield request(big, "duty_cycle", {"gap_us": gap, "fill": fill})
    for what in HOST_CALLS:  # again: other programs on the host only ever add
        yield request({"kind": "host_issue", "what": what})


def compiled_workload(programs, tiles_each, tile, k):
    """A GEMM of a Triton kernel in which every one of so many programs computes so many tiles."""
    return {"kind": "compiled_gemm", "tile": list(tile), "tiles": programs * tiles_each, "k": k, "dtype": "bf16"}


def label(r):
    """What --only selects by: the strategy where it is not plain, else the kind."""
    return r["strategy"] if r["strategy"] != "isolated" else r["workload"]["kind"]


def read_plan(path):
    with open(path) as f:
        for number, line in enumerate(f, 1):
            if line.strip():
                try:
                    r = json.loads(line)
                    yield request(r["workload"], r.get("strategy", "isolated"), r.get("params"), r.get("world"), r.get("trace"))
                except (ValueError, KeyError, TypeError) as e:
                    sys.exit(f"{path}:{number}: not a request with a workload: {e!r}")


# ---------------------------------------------------------------------------------------------------------------------
# Kernels.

if triton is not None:

    @triton.jit
    def hold_kernel(pad, turns, BLOCK: tl.constexpr):
        # Keeps a CU's registers and threads while one dependent load after the other takes its latency. pad is zero.
        lane = tl.arange(0, BLOCK)
        kept = tl.load(pad + lane, volatile=True)
        at = tl.load(pad, volatile=True)
        for _ in range(turns):
            at = tl.load(pad + at, volatile=True)
        tl.store(pad + lane, kept + at)

    @triton.jit
    def triad_kernel(a, b, c, n, BLOCK: tl.constexpr):
        lane = tl.arange(0, BLOCK)
        for first in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
            at = first + lane
            mask = at < n
            tl.store(a + at, tl.load(b + at, mask) + 3.0 * tl.load(c + at, mask), mask)

    @triton.jit
    def peer_store_kernel(source, targets, peers, first, n, share, BLOCK: tl.constexpr):
        # Program p stores its share of the source's n elements into the buffer of peer p mod peers, from element first on.
        p = tl.program_id(0)
        target = tl.multiple_of(tl.load(targets + p % peers).to(tl.pointer_type(tl.float32)), 16)
        lane = tl.arange(0, BLOCK)
        for done in range(0, share, BLOCK):
            at = p * share + done + lane
            mask = at < n
            tl.store(target + first + at, tl.load(source + at, mask), mask)

    @triton.jit
    def exchange_kernel(targets, rounds, FLAGS: tl.constexpr, FLAG: tl.constexpr, N: tl.constexpr):
        # Programs of neighbours, N floats and flags behind them each round: to the next rank, from the one before.
        p = tl.program_id(0)
        mine, theirs = tl.load(targets), tl.load(targets + 1)
        wait = mine.to(tl.pointer_type(tl.int32)) + p * FLAGS * FLAG
        post = theirs.to(tl.pointer_type(tl.int32)) + p * FLAGS * FLAG
        data = theirs.to(tl.pointer_type(tl.float32)) + tl.num_programs(0) * FLAGS * FLAG + p * N + tl.arange(0, N)
        for i in range(1, rounds + 1):
            tl.store(data, tl.arange(0, N).to(tl.float32) + i)
            tl.debug_barrier()
            for f in range(FLAGS):
                tl.atomic_add(post + f * FLAG, 1, sem="release", scope="sys")
            for f in range(FLAGS):
                while tl.atomic_cas(wait + f * FLAG, i, i, sem="acquire", scope="sys") < i:
                    pass
            tl.debug_barrier()

    @triton.jit
    def post_kernel(out, semaphore, rounds, posts, N: tl.constexpr):
        # Programs that store N numbers each round and, if posts is 1, post a semaphore of their own behind them.
        p = tl.program_id(0)
        lane = tl.arange(0, N)
        for i in range(rounds):
            tl.store(out + p * N + lane, (lane + i).to(tl.bfloat16))
            if posts > 0:
                tl.debug_barrier()
                tl.atomic_add(semaphore + p * 32, 1, sem="release", scope="gpu")
            tl.debug_barrier()

    @triton.jit
    def handover_kernel(forth, back, rounds, posts):
        # The first programs post one semaphore, all others wait for all of those posts, post another, and so on.
        p = tl.program_id(0)
        waiting = tl.num_programs(0) - posts
        for i in range(1, rounds + 1):
            if p < posts:
                tl.debug_barrier()
                tl.atomic_add(forth, 1, sem="release", scope="gpu")
                while tl.atomic_cas(back, -1, -1, sem="acquire", scope="gpu") < i * waiting:
                    pass
            else:
                while tl.atomic_cas(forth, -1, -1, sem="acquire", scope="gpu") < i * posts:
                    pass
                tl.debug_barrier()
                tl.atomic_add(back, 1, sem="release", scope="gpu")

    @triton.jit(do_not_specialize=["every", "at"])
    def waiting_gemm_kernel(a, b, c, semaphores, every, at, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        # The same tile in every program, which waits for the next semaphore at one step of every so many; never at step -1.
        m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
        a += m[:, None] * K + k[None, :]
        b += k[:, None] * BN + n[None, :]
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(0, K // BK):
            if step % every == at:
                while tl.atomic_cas(semaphores + step // every * 32, -1, -1, sem="acquire", scope="gpu") < 1:
                    pass
                tl.debug_barrier()
            acc = tl.dot(tl.load(a), tl.load(b), acc)
            a += BK
            b += BK * BN
        tl.store(c + tl.program_id(0) * BM * BN + m[:, None] * BN + n[None, :], acc.to(tl.bfloat16))

    @triton.jit
    def gemm_kernel(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        # One program a tile; M, N and K are multiples of the tile's sides.
        tile = tl.program_id(0)
        m = tile // (N // BN) * BM + tl.arange(0, BM)
        n = tile % (N // BN) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        a += m[:, None] * K + k[None, :]
        b += k[:, None] * N + n[None, :]
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for _ in range(0, K, BK):
            acc = tl.dot(tl.load(a), tl.load(b), acc)
            a += BK
            b += BK * N
        tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.bfloat16))

    @triton.jit
    def persistent_gemm_kernel(a, b, c, tiles, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        # Tiles in order, to as many programs as there are rows of tiles; M, N and K are multiples of the tile's sides.
        m0, k0 = tl.arange(0, BM), tl.arange(0, BK)
        for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
            m = tile // (N // BN) * BM + m0
            n = tile % (N // BN) * BN + tl.arange(0, BN)
            pa = a + m[:, None] * K + k0[None, :]
            pb = b + k0[:, None] * N + n[None, :]
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for _ in range(0, K, BK):
                acc = tl.dot(tl.load(pa), tl.load(pb), acc)
                pa += BK
                pb += BK * N
            tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.bfloat16))

    @triton.jit
    def gather_kernel(table, index, out, pointers, vectors, POOL: tl.constexpr, DIM: tl.constexpr, PEERS: tl.constexpr):
        lane = tl.arange(0, DIM)
        for v in range(tl.program_id(0), vectors, tl.num_programs(0)):
            acc = tl.zeros((DIM,), dtype=tl.float32)
            for i in range(POOL):
                acc += tl.load(table + tl.load(index + v * POOL + i) * DIM + lane)
            to = out
            if PEERS:
                to = tl.load(pointers + v % 8).to(tl.pointer_type(tl.float32))
            tl.store(to + v * DIM + lane, acc)


# Workgroups that say on which CU they are and stay there for so many cycles, in clusters of a number.
CENSUS = r"""
extern "C" __global__ void CLUSTER census(int* at, long long cycles) {
  unsigned cu;
  asm volatile("mov.u32 %0, %smid;" : "=r"(cu));
  if (threadIdx.x == 0) at[blockIdx.x] = cu;
  for (long long from = clock64(); clock64() - from < cycles;) {}
}"""


# ---------------------------------------------------------------------------------------------------------------------
# The laboratory: this process's GPU, its peers, and how time is taken.


class Lab:
    def __init__(self, args):
        for name, value in ("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29511"):
            os.environ.setdefault(name, value)
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(self.device)
        self.properties = torch.cuda.get_device_properties(self.device)
        self.cus = self.properties.multi_processor_count
        self.amd = torch.version.hip is not None
        self.machine = args.machine or short_name(self.properties.name)
        self.iterations = args.iterations
        self.out = args.out
        self.began = time.monotonic()
        self.alone = self.world == 1  # whether what is being measured runs on one GPU only
        dist.init_process_group("nccl", timeout=datetime.timedelta(hours=1))
        self.host = dist.new_group(backend="gloo", timeout=datetime.timedelta(hours=1))
        self.everyone = dist.group.WORLD
        self.groups = {}
        self.symmetric_memory = None
        self.side = torch.cuda.Stream()
        self.tick = torch.zeros(1, device=self.device)
        dist.all_reduce(self.tick)
        self.sleep_cycles_per_us = self.sleep_rate()
        self.hold_pad, self.hold_turns_per_us = None, None

    def say(self, text):
        if self.rank == 0:
            print(f"[{time.monotonic() - self.began:7.1f} s] {text}", file=sys.stderr, flush=True)

    # -- time

    def sleep_rate(self):
        cycles = 20_000_000
        torch.cuda._sleep(cycles)
        return cycles / self.elapsed_us(lambda: torch.cuda._sleep(cycles))

    def sleep(self, us):
        """Occupies the current stream, hardly the GPU."""
        if us > 0:
            torch.cuda._sleep(int(us * self.sleep_cycles_per_us))

    def elapsed_us(self, work):
        start, end = event(), event()
        torch.cuda.synchronize()
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return between_us(start, end)

    def align(self, head_us):
        """Starts all ranks' GPUs together, head_us after the host went on, so that the host is ahead of the GPU."""
        torch.cuda.synchronize()
        if not self.alone:
            dist.barrier(group=self.host)
        self.sleep(head_us)
        if not self.alone:
            dist.all_reduce(self.tick, group=self.everyone)

    def slowest(self, us):
        """Of each iteration the time of the slowest rank."""
        if self.alone:
            return us
        ranks = [None] * self.world
        dist.all_gather_object(ranks, us, group=self.host)
        return [max(iteration) for iteration in zip(*ranks)]

    def time(self, work, before=None, head_us=400, pause_s=0.0, warm=3):
        """Microseconds of work() on the GPU, an entry an iteration; before() runs ahead of each, untimed."""
        for _ in range(warm):
            work()
        us = []
        for _ in range(self.iterations):
            if before:
                before()
            if pause_s:
                torch.cuda.synchronize()
                time.sleep(pause_s)
            start, end = event(), event()
            self.align(head_us)
            start.record()
            work()
            end.record()
            torch.cuda.synchronize()
            us.append(between_us(start, end))
        return self.slowest(us)

    # -- communication

    @contextlib.contextmanager
    def first(self, world):
        """Makes the first so many ranks the whole world, on all ranks alike: those beyond must not measure."""
        kept = self.world, self.host, self.everyone, self.alone
        if world != self.world:
            if ("members", world) not in self.groups:
                ranks = list(range(world))
                gloo = dist.new_group(ranks=ranks, backend="gloo", timeout=datetime.timedelta(hours=1))
                self.groups["members", world] = gloo, dist.new_group(ranks=ranks)
            self.world, (self.host, self.everyone), self.alone = world, self.groups["members", world], world == 1
        yield
        self.world, self.host, self.everyone, self.alone = kept

    def group(self, channels=None, priority=False):
        """A process group whose collectives take at most so many workgroups; made on first use, by all ranks."""
        if not channels and not priority:
            return self.everyone
        key = self.world, channels, priority
        if key not in self.groups:
            options = dist.ProcessGroupNCCL.Options()
            options.is_high_priority_stream = priority
            if channels:
                if not hasattr(options, "config"):
                    raise Unsupported("this PyTorch cannot bound the channels of a collective")
                options.config.min_ctas = options.config.max_ctas = channels
            self.groups[key] = dist.new_group(ranks=list(range(self.world)), pg_options=options)
        return self.groups[key]

    def collective(self, op, size, group=None):
        """The collective on fresh buffers: the call, and a call that refreshes its input. size is that of the larger buffer."""
        group = group or self.everyone
        n = size // BF16 // self.world * self.world
        whole = torch.randn(n, device=self.device, dtype=torch.bfloat16)
        part = torch.randn(n // self.world, device=self.device, dtype=torch.bfloat16)
        other = torch.empty_like(whole) if op == "all_to_all" else None

        def call(async_op=False):
            return communicate(op, whole, part, whole if op == "all_gather" else other, group, async_op)

        refresh = whole.normal_ if op == "all_reduce" else None  # its sums would grow to infinity
        return call, refresh

    def symmetric(self, size):
        """A buffer of at least size bytes that every rank's kernels can reach, and its handle."""
        if self.symmetric_memory is None or self.symmetric_memory[0].numel() < size:
            try:
                import torch.distributed._symmetric_memory as symm

                self.symmetric_memory = None
                buffer = symm.empty(max(size, 64 * MIB), dtype=torch.uint8, device=self.device)
                self.symmetric_memory = buffer, symm.rendezvous(buffer, dist.group.WORLD)
            except (ImportError, RuntimeError, AttributeError) as e:
                raise Unsupported(f"no symmetric memory: {first_line(e)}") from e
        return self.symmetric_memory

    # -- holding compute units

    def hold(self, cus, us):
        """On the side stream, keeps so many CUs from other kernels for so long. Starts at once."""
        if cus == 0:
            return
        if self.hold_turns_per_us is None:
            self.calibrate_hold()
        self.launch_hold(cus, int(us * self.hold_turns_per_us))

    def launch_hold(self, cus, turns):
        # 1024 threads that keep 32 registers each (64 on AMD, whose register file is twice as large).
        block, warps = (64 * 1024, 16) if self.amd else (32 * 1024, 32)
        if self.hold_pad is None:
            self.hold_pad = torch.zeros(block, device=self.device, dtype=torch.int32)
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            hold_kernel[(cus,)](self.hold_pad, turns, BLOCK=block, num_warps=warps)

    def calibrate_hold(self):
        """Finds how long a turn takes, and whether a kernel that holds every CU keeps a GEMM out."""
        need_triton()
        turns = 4000
        for _ in range(2):  # the first compiles
            start, end = event(), event()
            torch.cuda.synchronize()
            start.record(self.side)
            self.launch_hold(1, turns)
            end.record(self.side)
            torch.cuda.synchronize()
        rate = turns / between_us(start, end)
        work = gemm(self, 1024, 1024, 1024)
        work()
        torch.cuda.synchronize()
        self.launch_hold(self.cus, int(3000 * rate))
        time.sleep(0.0005)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if between_us(start, end) < 1000:
            raise Unsupported(f"a kernel meant to hold every CU for 3000 us let a GEMM end after {between_us(start, end):.0f} us")
        self.hold_turns_per_us = rate


def event():
    return torch.cuda.Event(enable_timing=True)


def between_us(start, end):
    return start.elapsed_time(end) * 1e3


def first_line(e):
    return str(e).strip().split("\n")[0][:200]


def need_triton():
    if triton is None:
        raise Unsupported("no Triton")


def need_peers(lab):
    if lab.alone:
        raise Unsupported("one GPU has no peers: start with torchrun --nproc-per-node N")


def short_name(gpu):
    """h200 of "NVIDIA H200", mi300x of "AMD Instinct MI300X", a100 of "NVIDIA A100-SXM4-80GB"."""
    words = [w for w in re.split(r"[\s-]+", gpu.lower()) if re.search(r"\d", w)]
    return words[0] if words else "gpu"


# ---------------------------------------------------------------------------------------------------------------------
# The benchmarks. Each takes the lab, the workload and the parameters, and returns the times of its iterations in
# microseconds and what it adds to the parameters.


def element(w):
    """PyTorch's type of a workload's dtype."""
    name = w.get("dtype", "bf16")
    if name not in DTYPES:
        raise Unsupported(f"no products of {name}, only of {', '.join(DTYPES)}")
    return getattr(torch, DTYPES[name])


def gemm(lab, m, n, k, dtype=None):
    dtype = dtype or torch.bfloat16
    a = torch.randn(m, k, device=lab.device, dtype=dtype)
    b = torch.randn(k, n, device=lab.device, dtype=dtype)
    c = torch.empty(m, n, device=lab.device, dtype=dtype)
    return lambda: torch.mm(a, b, out=c)


def triton_gemm(lab, m, n, k):
    need_triton()
    bm, bn, bk = TILE
    a = torch.randn(m, k, device=lab.device, dtype=torch.bfloat16)
    b = torch.randn(k, n, device=lab.device, dtype=torch.bfloat16)
    c = torch.empty(m, n, device=lab.device, dtype=torch.bfloat16)
    tiles, stages = (m // bm) * (n // bn), 2 if lab.amd else 3
    return lambda: gemm_kernel[(tiles,)](a, b, c, n, k, BM=bm, BN=bn, BK=bk, num_warps=8, num_stages=stages)


def triad(lab, size, programs):
    need_triton()
    n = size // 12  # three arrays of 4-byte numbers
    a, b, c = (torch.randn(n, device=lab.device) for _ in range(3))
    return lambda: triad_kernel[(programs,)](a, b, c, n, BLOCK=4096, num_warps=8)


def measure_hbm_copy(lab, w, p):
    source = torch.empty(w["bytes"], device=lab.device, dtype=torch.uint8).random_()
    target = torch.empty_like(source)
    return lab.time(lambda: target.copy_(source)), {}


def tiny_kernels(lab, count):
    x = torch.zeros(1, device=lab.device)

    def work():
        for _ in range(count):
            x.add_(1)

    return work


def measure_graph(lab, w, p):
    work = tiny_kernels(lab, 40)
    warm = torch.cuda.Stream()
    warm.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(warm):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # communication has a thread of its own
        work()
    return lab.time(graph.replay), {}


HOST_CALLS = ("gemm", "event", "compiled", "gemm+coll", "compiled+coll")


def measure_host_issue(lab, w, p):
    """Host time to enqueue; small work behind a sleep, so that the device holds nothing back."""
    calls, count = [], 20
    for what in w["what"].split("+"):
        match what:
            case "gemm":
                calls.append(gemm(lab, 256, 256, 256))
            case "compiled":
                calls.append(triton_gemm(lab, *TILE))
            case "event":
                calls.append(lambda: lab.side.wait_stream(torch.cuda.current_stream()))
            case "coll":
                need_peers(lab)
                collective, _ = lab.collective("all_reduce", 16384)
                calls.append(lambda: collective(async_op=True))
            case _:
                raise Unsupported(f"nothing called {what} to enqueue")

    def once():
        torch.cuda.synchronize()
        lab.align(0)
        torch.cuda.synchronize()
        lab.sleep(200 * 3 * count)
        for _ in range(2 * count):  # the first calls after a wait find cold caches
            for call in calls:
                call()
        start = time.perf_counter()
        for _ in range(count):
            for call in calls:
                call()
        us = (time.perf_counter() - start) * 1e6 / count
        torch.cuda.synchronize()
        return us

    once()
    if not p.get("profiled"):
        return lab.slowest([once() for _ in range(lab.iterations)]), {}
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    us, found = [], []
    for _ in range(lab.iterations):
        with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
            us.append(once())
        found += [e.time_range.end - e.time_range.start for e in profiler.events() if "LaunchKernel" in e.name]
    return lab.slowest(us), {"call_us": round(statistics.median(found), 2)} if found else {}


def host_loops(lab):
    """Loops of small operators, by name: what a step's host does between and in launches."""
    x = torch.randn(64, 64, device=lab.device)
    w = torch.randn(64, 64, device=lab.device)
    many = [torch.randn(16, 16, device=lab.device) for _ in range(16)]
    layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))).to(lab.device)
    optimizer = torch.optim.SGD(layers.parameters(), lr=1e-6, momentum=0.9)
    for p in layers.parameters():
        p.grad = torch.zeros_like(p)

    def repeat(n, call):
        return lambda: [call() for _ in range(n)]

    def backward():
        layers(x).sum().backward()

    def collective():
        lab.small_all_reduce(async_op=True).wait()

    loops = {
        "add": repeat(8, lambda: torch.add(x, w)),
        "zero": repeat(8, x.zero_),
        "views": repeat(8, lambda: x.view(8, 8, 64).transpose(0, 1).chunk(2, -1)),
        "linear": repeat(8, lambda: F.linear(x, w)),
        "norm": repeat(8, lambda: F.layer_norm(x, (64,))),
        "foreach": repeat(8, lambda: torch._foreach_add_(many, 1.0)),
        "optimizer": optimizer.step,
        "backward": backward,
        "event": repeat(8, lambda: lab.side.wait_stream(torch.cuda.current_stream())),
    }
    if not lab.alone:
        lab.small_all_reduce = lab.collective("all_reduce", 16384)[0]
        loops["collective"] = collective
    return loops


HOST_LOOPS = ("add", "zero", "views", "linear", "norm", "foreach", "optimizer", "backward", "event", "collective")
RECORDERS = ({}, {"profiled": True, "shapes": True})


def measure_host_loop(lab, w, p):
    """Host time of a loop of small operators. With a profiler: of the second step of a capture of two, with how much it recorded."""
    if w["what"] == "collective":
        need_peers(lab)
    work, count = host_loops(lab)[w["what"]], 20

    def once():
        torch.cuda.synchronize()
        if not lab.alone:
            dist.barrier(group=lab.host)
        start = time.perf_counter()
        for _ in range(count):
            work()
        us = (time.perf_counter() - start) * 1e6 / count
        torch.cuda.synchronize()
        return us

    once()
    if not p.get("profiled"):
        return lab.slowest([once() for _ in range(lab.iterations)]), {}
    us, events = [], []
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    for _ in range(lab.iterations):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            observer = None
            if p.get("execution_trace"):
                observer = torch.profiler.ExecutionTraceObserver()
                observer.register_callback(file.name)
            with torch.profiler.profile(activities=activities, record_shapes=bool(p.get("shapes")), execution_trace_observer=observer) as profiler:
                once()
                us.append(once())
            profiler.export_chrome_trace(file.name)
            with open(file.name) as f:
                events = [e for e in json.load(f)["traceEvents"] if e.get("ph") == "X"]  # of the last
    calls = [e for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")]
    launches = [e["dur"] for e in calls if "LaunchKernel" in e["name"]]
    found = {
        "operators": sum(e.get("cat") == "cpu_op" for e in events) // (2 * count),
        "calls": len(calls) // (2 * count),
        "launches": sum(bool(re.search("LaunchKernel|Memcpy|Memset", e["name"])) for e in calls) // (2 * count),
    }
    if launches:
        found["call_us"] = round(statistics.median(launches), 2)
    return lab.slowest(us), found


def device_spans(lab, work, head_us=3000):
    """What work() runs on the GPU, by the profiler: name, start and end in microseconds, in order."""
    work()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        lab.sleep(head_us)
        work()
        torch.cuda.synchronize()
    events = [e for e in profiler.events() if e.device_type != torch.autograd.DeviceType.CPU]
    spans = sorted((e.time_range.start, e.time_range.end, e.name) for e in events)
    return [(name, start, end) for start, end, name in spans if "spin" not in name]


def measure_gap(lab, w, p):
    """Time between the end of a GEMM and the start of the next: on one stream, on another stream, across the memset that
    the library puts before GEMMs of many tiles; or, of a peer copy between GEMMs of another stream, the times before and
    after it together, with the kernels' streams waiting for each other."""
    if w["what"] == "copy":
        return measure_copy_gap(lab)
    across = w["what"] == "across_memset"
    call = gemm(lab, 8192, 4096, 512) if across else gemm(lab, 1024, 1024, 1024)

    def work():
        here = torch.cuda.current_stream()
        for i in range(20):
            if w["what"] == "hops" and i % 2:
                lab.side.wait_stream(here)
                with torch.cuda.stream(lab.side):
                    call()
                here.wait_stream(lab.side)
                continue
            call()

    spans = device_spans(lab, work)
    gemms = [s for s in spans if "memset" not in s[0].lower()]
    if across == (len(gemms) == len(spans)):
        raise Unsupported("the library puts no memset before a GEMM of many tiles" if across else "the library puts a memset before a small GEMM")
    us = [b[1] - a[2] for a, b in zip(gemms, gemms[1:])]
    return us, {"gaps_us": [round(t, 3) for t in us]}


def measure_copy_gap(lab):
    need_peers(lab)
    size = MIB
    _, handle = lab.symmetric(size)
    source = torch.empty(size, device=lab.device, dtype=torch.uint8).random_()
    target = handle.get_buffer((lab.rank + 1) % lab.world, (size,), torch.uint8)
    call = gemm(lab, 1024, 1024, 1024)

    def work():
        here = torch.cuda.current_stream()
        for _ in range(12):
            call()
            lab.side.wait_stream(here)
            with torch.cuda.stream(lab.side):
                target.copy_(source)
            here.wait_stream(lab.side)

    dist.barrier(group=lab.host)
    spans = device_spans(lab, work)
    copies = [i for i, s in enumerate(spans) if "memcpy" in s[0].lower() and 0 < i < len(spans) - 1]
    if not copies:
        raise Unsupported("the profiler shows no peer copies")
    before = [spans[i][1] - spans[i - 1][2] for i in copies]
    after = [spans[i + 1][1] - spans[i][2] for i in copies]
    found = {"gaps_us": [round(statistics.median(before), 3), round(statistics.median(after), 3)], "copy_bytes": size}
    found["copy_us"] = round(statistics.median(spans[i][2] - spans[i][1] for i in copies), 3)
    return [a + b for a, b in zip(before, after)], found


def measure_collective_kernel(lab, w, p):
    """A small collective's kernels behind GEMMs, by the profiler: dur_us on this rank; us from the last rank's start."""
    need_peers(lab)
    before = gemm(lab, 2048, 2048, 2048)
    call, _ = lab.collective(w["collective"], w["bytes"])

    def work():
        for _ in range(8):
            before()
            call()

    dist.barrier(group=lab.host)
    mine = [(start, end) for name, start, end in device_spans(lab, work) if "nccl" in name.lower() or "rccl" in name.lower()]
    ranks = [None] * lab.world
    dist.all_gather_object(ranks, [end - start for start, end in mine], group=lab.host)
    if not all(ranks):
        raise Unsupported("the profiler shows no kernels of the collective library")
    return [min(times) for times in zip(*ranks)], {"dur_us": [round(end - start, 2) for start, end in mine]}


def measure_p2p_ring(lab, w, p):
    need_peers(lab)
    _, handle = lab.symmetric(w["bytes"])
    source = torch.empty(w["bytes"], device=lab.device, dtype=torch.uint8).random_()
    target = handle.get_buffer((lab.rank + 1) % lab.world, (w["bytes"],), torch.uint8)
    return lab.time(lambda: target.copy_(source)), {}


def measure_peer_store(lab, w, p):
    """Every rank stores bytes from a kernel: to the next rank, spread over all others, or all into rank 0."""
    need_peers(lab)
    need_triton()
    size, programs = w["bytes"], p["programs"]
    _, handle = lab.symmetric(lab.world * size)
    ranks = {
        "ring": [(lab.rank + 1) % lab.world],
        "spread": [(lab.rank + i) % lab.world for i in range(1, lab.world)],
        "incast": [0],
    }[w["pattern"]]
    targets = torch.tensor([handle.buffer_ptrs[r] for r in ranks], device=lab.device, dtype=torch.int64)
    n, block = size // 4, 4096
    source = torch.randn(n, device=lab.device)
    share = -(-n // (programs * block)) * block
    first = lab.rank * n  # a region a source, so that no two ranks store to one address

    def work():
        peer_store_kernel[(programs,)](source, targets, len(ranks), first, n, share, BLOCK=block, num_warps=8)

    return lab.time(work), {}


def measure_peer_flag(lab, w, p):
    """Every program stores bytes to its neighbour's, behind them a flag or several, and waits for those of the one before."""
    need_peers(lab)
    need_triton()
    programs, flags, flag, rounds = p["programs"], p.get("flags", 1), 128, 200
    buffer, handle = lab.symmetric(programs * (flags * flag + w["bytes"]))
    targets = torch.tensor([handle.buffer_ptrs[lab.rank], handle.buffer_ptrs[(lab.rank + 1) % lab.world]], device=lab.device, dtype=torch.int64)

    def clear():
        torch.cuda.synchronize()
        dist.barrier(group=lab.host)
        buffer[: programs * flags * flag].zero_()
        torch.cuda.synchronize()

    def work():
        exchange_kernel[(programs,)](targets, rounds, FLAGS=flags, FLAG=flag // 4, N=w["bytes"] // 4, num_warps=4)

    clear()
    dist.barrier(group=lab.host)
    return [t / rounds for t in lab.time(work, before=clear, warm=1)], {}


def measure_symm_barrier(lab, w, p):
    need_peers(lab)
    _, handle = lab.symmetric(64 * MIB)
    if not p.get("kernel"):
        return lab.time(lambda: handle.barrier(channel=0)), {}
    dist.barrier(group=lab.host)
    spans = device_spans(lab, lambda: [handle.barrier(channel=0) for _ in range(20)])
    return lab.slowest([end - start for _, start, end in spans][1:]), {}  # the first aligned the ranks


def measure_semaphore(lab, w, p):
    """What it costs to post a semaphore behind a tile, to hand over to workgroups that wait, and to wait for one that is
    posted already, among the loads of a product."""
    need_triton()
    semaphores = torch.zeros(1 << 16, device=lab.device, dtype=torch.int32)
    programs, rounds = p["programs"], 200
    match w["what"]:
        case "post":
            n = w["bytes"] // BF16
            out = torch.empty(programs * n, device=lab.device, dtype=torch.bfloat16)
            us = lab.time(lambda: post_kernel[(programs,)](out, semaphores, rounds, p["posts"], N=n, num_warps=8))
            return [t / rounds for t in us], {}
        case "handover":
            posts = p["posts"]
            if programs + posts > lab.cus * 2:
                raise Unsupported(f"{programs + posts} workgroups that wait for each other may not all be resident")

            def work():
                handover_kernel[(programs + posts,)](semaphores, semaphores[32:], rounds, posts, num_warps=4)

            work()
            return [t / rounds / 2 for t in lab.time(work, before=semaphores.zero_, warm=0)], {}
        case "product":
            side, depth, k = 128, 64, w["k"]
            a = torch.randn(side, k, device=lab.device, dtype=torch.bfloat16)
            b = torch.randn(k, side, device=lab.device, dtype=torch.bfloat16)
            c = torch.empty(programs * side * side, device=lab.device, dtype=torch.bfloat16)
            semaphores.fill_(1)
            every, at = k // depth // max(1, p["waits"]), 0 if p["waits"] else -1
            shape = {"BM": side, "BN": side, "BK": depth, "num_warps": 8, "num_stages": 3}
            return lab.time(lambda: waiting_gemm_kernel[(programs,)](a, b, c, semaphores, every, at, k, **shape)), {}
    raise Unsupported(f"no semaphore {w['what']}")


def measure_collective(lab, w, p):
    need_peers(lab)
    call, refresh = lab.collective(w["collective"], w["bytes"], lab.group(p.get("channels"), p.get("comm_priority", False)))
    return lab.time(call, before=refresh), {"queued": True}


def measure_gemm(lab, w, p):
    work = gemm(lab, w["m"], w["n"], w["k"], element(w))
    us = lab.time(work, pause_s=0.02 if p.get("cool") else 0)
    return us, {"kernel_name": library_kernel(work)} if p.get("cool") else {}


def library_kernel(work):
    """The kernel that work() spends its time in."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    kernels = [e for e in profiler.events() if str(e.device_type).endswith("CUDA")]  # the others are calls
    return max(kernels, key=lambda e: e.time_range.end - e.time_range.start).name if kernels else None


def measure_compiled_gemm(lab, w, p):
    """p.programs workgroups of a Triton kernel, each of which computes as many output tiles as the others."""
    need_triton()
    (bm, bn, bk), k, programs = w["tile"], w["k"], p["programs"]
    each = w["tiles"] // programs
    a = torch.randn(programs * bm, k, device=lab.device, dtype=torch.bfloat16)
    b = torch.randn(k, each * bn, device=lab.device, dtype=torch.bfloat16)
    c = torch.empty(programs * bm, each * bn, device=lab.device, dtype=torch.bfloat16)

    def work(warps):
        shape = {"BM": bm, "BN": bn, "BK": bk, "num_warps": warps, "num_stages": 2 if lab.amd else 3}
        if each == 1:
            gemm_kernel[(programs,)](a, b, c, bn, k, **shape)
        else:
            persistent_gemm_kernel[(programs,)](a, b, c, w["tiles"], each * bn, k, **shape)

    # The faster of two numbers of warps, as autotuning takes it.
    return min((lab.time(lambda: work(warps)) for warps in (4, 8)[bn > 128 :]), key=statistics.median), {}


def measure_gather(lab, w, p):
    """Sums of w.pool rows of a table at random places, a vector of w.dim numbers for each of w.batch samples and w.tables
    tables. same_build: through a table of pointers, as a kernel does that may store to peers."""
    need_triton()
    rows, vectors = 2_000_000, w["batch"] * w["tables"]  # far larger than any cache
    table = torch.randn(rows, w["dim"], device=lab.device)
    index = torch.randint(rows, (vectors, w["pool"]), device=lab.device, dtype=torch.int32)
    out = torch.empty(vectors, w["dim"], device=lab.device)
    pointers = torch.full((8,), out.data_ptr(), device=lab.device, dtype=torch.int64)
    peers = bool(w.get("same_build"))

    def work():
        gather_kernel[(p["programs"],)](table, index, out, pointers, vectors, POOL=w["pool"], DIM=w["dim"], PEERS=peers, num_warps=4)

    return lab.time(work), {}


def measure_gemv(lab, w, p):
    matrix = torch.randn(w["n"], w["k"], device=lab.device, dtype=torch.bfloat16)
    x = torch.randn(w["k"], device=lab.device, dtype=torch.bfloat16)
    y = torch.empty(w["n"], device=lab.device, dtype=torch.bfloat16)
    return lab.time(lambda: torch.mv(matrix, x, out=y)), {}


def measure_sum(lab, w, p):
    parts = torch.randn(w["pool"], w["bytes"] // BF16 // 4096, 4096, device=lab.device, dtype=torch.bfloat16)
    return lab.time(lambda: torch.sum(parts, dim=0)), {"queued": True}


def measure_triad(lab, w, p):
    return lab.time(triad(lab, w["bytes"], p["programs"])), {}


def neighbour(lab, p, strategy):
    """The kernel beside a collective: of the size p.gemm, or of the MLP's second product."""
    m, n, k = p.get("gemm", GEMMS["llama70b_fc2_tp4"])
    match strategy:
        case "beside_cublas":
            return gemm(lab, m, n, k)
        case "beside_triton":
            if m % TILE[0] or n % TILE[1] or k % TILE[2]:
                raise Unsupported(f"the Triton GEMM's tiles of {TILE} do not divide {m}x{n}x{k}")
            return triton_gemm(lab, m, n, k)
    return triad(lab, 768 * MIB, 16 * lab.cus)


def measure_beside(lab, w, p, strategy):
    """The collective's kernels, by the profiler, while kernels of that kind run without end: without the wait for a free
    compute unit, which events count and which a small collective spends most of its time in. Of each collective the
    shortest of all ranks: from the arrival of the last one. And those of the other kernels that collectives run beside from
    start to end."""
    need_peers(lab)
    compute = neighbour(lab, p, strategy)
    call, _ = lab.collective(w["collective"], w["bytes"], lab.group(p.get("channels")))
    repeats = lab.iterations
    single, each = statistics.median(lab.time(call)), statistics.median(lab.time(compute))
    alone, _ = collective_kernels(lab, lambda: [call() for _ in range(repeats)], 15 * repeats)
    count = int(repeats * (2.5 * single / each + 1)) + 3  # each collective may wait for a kernel to end

    def work():
        for i in range(count):
            compute()
            if i == 0:
                lab.side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(lab.side):
                    for _ in range(repeats):
                        call()

    us, covered = collective_kernels(lab, work, 15 * (count + repeats))
    found = {"alone_us": round(statistics.median(alone), 2), "compute_alone_us": round(each, 2)}
    if covered:
        found["compute_us"] = [round(statistics.median(covered), 2)]
    return us, found


def collective_kernels(lab, work, head_us):
    """Microseconds of the collective kernels that work() launches, in order, each of the fastest rank; and of the longest
    kind of other kernels, those that collectives run beside for 95 % of their time."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        lab.align(400 + head_us)
        work()
        torch.cuda.synchronize()
    spans = sorted((e.time_range.start, e.time_range.end, e.name) for e in profiler.events() if str(e.device_type).endswith("CUDA"))
    found = [(start, end) for start, end, name in spans if "nccldevkernel" in name.lower()][1:]  # the first aligned the ranks
    mine = [end - start for start, end in found]
    ranks = [None] * lab.world
    dist.all_gather_object(ranks, mine, group=lab.host)
    if not all(ranks):
        raise Unsupported("the profiler shows no kernels of the collective library")
    others = [s for s in spans if "nccl" not in s[2].lower() and "spin" not in s[2] and "mem" not in s[2].lower()[:3]]
    longest = max((s[1] - s[0] for s in others), default=0)
    covered = [
        end - start
        for start, end, _ in others
        if end - start > longest / 2 and sum(max(0, min(end, b) - max(start, a)) for a, b in found) > 0.95 * (end - start)
    ]
    return [min(times) for times in zip(*ranks)], covered


def census_kernel(lab, cluster):
    """A launch of the census on a stream: workgroups that have a CU to themselves, in clusters. It fills the array at."""
    if lab.amd or not hasattr(torch.cuda, "_compile_kernel"):
        raise Unsupported("clusters are NVIDIA's, and this PyTorch must compile a kernel of them")
    source = CENSUS.replace("CLUSTER", f"__cluster_dims__({cluster}, 1, 1)" if cluster > 1 else "")
    kernel, shared = torch.cuda._compile_kernel(source, "census"), lab.properties.shared_memory_per_block_optin * 9 // 10
    kernel.set_shared_memory_config(shared)
    return lambda at, us, stream: kernel(
        (len(at), 1, 1), (128, 1, 1), (at, int(us * lab.sleep_cycles_per_us)), shared_mem=shared, stream=stream
    )


def measure_cu_groups(lab, w, p):
    """Which CUs clusters of workgroups share, and in which order a plain grid fills an idle GPU. The times are of clusters."""
    try:
        plain, clusters = census_kernel(lab, 1), {n: census_kernel(lab, n) for n in (2, 4, 8)}
    except RuntimeError as e:
        raise Unsupported(f"no clusters: {first_line(e)}") from e
    main, (at, other) = torch.cuda.current_stream(), torch.zeros(2, lab.cus, device=lab.device, dtype=torch.int32)
    fill, us = [], []
    for n in range(1, lab.cus + 1):
        plain(at[:n], 20, main)
        fill += sorted(set(at[:n].tolist()) - set(fill))
    root = list(range(lab.cus))

    def find(cu):
        while root[cu] != cu:
            cu = root[cu]
        return cu

    # On an idle GPU every cluster of a size lies where it lay before: some CUs held, they shift.
    for held, size in itertools.product(range(0, lab.cus // 2, 3), clusters):
        torch.cuda.synchronize()
        if held:
            plain(other[:held], 600, lab.side)
            time.sleep(100e-6)
        grid = at[: lab.cus // size * size]
        start, end = event(), event()
        start.record()
        clusters[size](grid, 20, main)
        end.record()
        cus = grid.tolist()
        us.append(between_us(start, end))
        for i, cu in enumerate(cus):
            root[find(cu)] = find(cus[i // size * size])
    groups = {}
    for cu in range(lab.cus):
        groups.setdefault(find(cu), []).append(cu)
    return us, {"groups": list(groups.values()), "fill_order": fill}


HOLD_LEAD_US = 300  # how long before the measured work the held CUs are taken


def measure_held(lab, w, p):
    """The work while p.held_cus CUs are held, for p.hold_us from its start."""
    refresh = None
    if w["kind"] == "gemm":
        work = gemm(lab, w["m"], w["n"], w["k"], element(w))
    else:
        need_peers(lab)
        work, refresh = lab.collective(w["collective"], w["bytes"], lab.group(p.get("channels")))
    lab.hold(1, 1)  # compiles, checks
    for _ in range(3):
        work()
    us = []
    for _ in range(lab.iterations):
        if refresh:
            refresh()
        start, end = event(), event()
        lab.align(400)
        lab.hold(p.get("held_cus", 0), HOLD_LEAD_US + p["hold_us"])
        lab.sleep(HOLD_LEAD_US)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        us.append(between_us(start, end))
    return lab.slowest(us), {}


def filler(lab, p):
    """What p.fill runs for about p.gap_us, and how long that takes: nothing, memory traffic, or a collective."""
    gap, fill = p["gap_us"], p.get("fill")
    if fill is None or gap == 0:
        return lambda: lab.sleep(gap), gap
    if fill == "triad":
        work = triad(lab, 96 * MIB, 16 * lab.cus)
    elif fill in COLLECTIVES:
        need_peers(lab)
        work, _ = lab.collective(fill, 64 * MIB)  # a reduction's sums would grow to infinity: ask for another
    else:
        raise Unsupported(f"nothing called {fill} to fill pauses with")
    each = statistics.median(lab.time(work))
    count = max(1, round(gap / each))
    return lambda: [work() for _ in range(count)], count * each


def measure_duty_cycle(lab, w, p):
    """300 runs, or p.iterations, with pauses between, which p.fill may fill; the row's times are of the second half, when
    the clock has settled."""
    work, count = gemm(lab, w["m"], w["n"], w["k"], element(w)), p.get("iterations", 300)
    between, filled = filler(lab, p)
    marks = [(event(), event()) for _ in range(count)]
    work()
    torch.cuda.synchronize()
    time.sleep(0.4)  # cool: several times as long as the power limit averages
    lab.align(400 + 40 * count)
    for start, end in marks:
        start.record()
        work()
        end.record()
        between()
    torch.cuda.synchronize()
    us = lab.slowest([between_us(start, end) for start, end in marks])
    return us[count // 2 :], {"every10_us": [round(t, 1) for t in us[::10]], "filled_us": round(filled, 1)}


ISOLATED = {
    "hbm_copy": measure_hbm_copy,
    "graph40_same": measure_graph,
    "host_issue": measure_host_issue,
    "host_loop": measure_host_loop,
    "p2p_copy_ring": measure_p2p_ring,
    "peer_store": measure_peer_store,
    "peer_flag": measure_peer_flag,
    "symm_barrier": measure_symm_barrier,
    "semaphore": measure_semaphore,
    "gap": measure_gap,
    "collective_kernel": measure_collective_kernel,
    "collective": measure_collective,
    "cu_groups": measure_cu_groups,
    "gemm": measure_gemm,
    "gemv": measure_gemv,
    "compiled_gemm": measure_compiled_gemm,
    "embedding+collective": measure_gather,
    "sum": measure_sum,
    "triad": measure_triad,
}


def measure(lab, r):
    w, p, strategy = r["workload"], r["params"], r["strategy"]
    match strategy, w["kind"]:
        case "isolated", kind if kind in ISOLATED:
            return ISOLATED[kind](lab, w, p)
        case "held_slots", "gemm" | "collective":
            return measure_held(lab, w, p)
        case "duty_cycle", "gemm":
            return measure_duty_cycle(lab, w, p)
        case "beside_cublas" | "beside_triton" | "beside_membound", "collective":
            return measure_beside(lab, w, p, strategy)
    raise Unsupported(f"no benchmark of {w['kind']} as {strategy}")


# ---------------------------------------------------------------------------------------------------------------------
# Example traces: torch.profiler, a file a rank.


@contextlib.contextmanager
def profiled(lab, name):
    """Records what runs inside into traces/NAME/rankR.json.gz."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    dist.barrier(group=lab.host)
    with torch.profiler.profile(activities=activities, record_shapes=True) as profiler:
        yield
        torch.cuda.synchronize()
    folder = os.path.join(lab.out, "traces", name)
    os.makedirs(folder, exist_ok=True)
    profiler.export_chrome_trace(os.path.join(folder, f"rank{lab.rank}.json.gz"))
    lab.say(f"traces/{name}")


def record(lab, name, work, iterations):
    for _ in range(3):
        work()
    with profiled(lab, name):
        for i in range(iterations):
            with torch.profiler.record_function(f"{name}#{i}"):
                work()


def trace_rows(lab, plan):
    """The traces that rows name: the kernels of their GEMMs."""
    for path in dict.fromkeys(r["trace"] for r in plan if "trace" in r):
        shapes = [[r["workload"][x] for x in "mnk"] for r in plan if r.get("trace") == path]
        calls = [gemm(lab, *shape) for shape in shapes]
        record(lab, os.path.basename(path), lambda calls=calls: [call() for call in calls], 3)


def communicate(op, mine, part, other, group, async_op=True):
    """Starts a collective of mine: in place, into part, into other; an all-gather is of part into other."""
    match op:
        case "all_reduce":
            return dist.all_reduce(mine, group=group, async_op=async_op)
        case "reduce_scatter":
            return dist.reduce_scatter_tensor(part, mine, group=group, async_op=async_op)
        case "all_to_all":
            return dist.all_to_all_single(other, mine, group=group, async_op=async_op)
        case "all_gather":
            return dist.all_gather_into_tensor(other, part, group=group, async_op=async_op)
    raise Unsupported(f"no collective {op}")


def pair(lab, shape, op, chunks, group):
    m, n, k = shape
    b = torch.randn(k, n, device=lab.device, dtype=torch.bfloat16) / k**0.5
    c = torch.empty(m, n, device=lab.device, dtype=torch.bfloat16)
    rows, kept = m // chunks, m // chunks // lab.world
    if op == "all_gather":
        x = torch.empty(m, k, device=lab.device, dtype=torch.bfloat16)
        shard = torch.randn(m // lab.world, k, device=lab.device, dtype=torch.bfloat16)

        def gathered():
            pending = [communicate(op, None, shard[i * kept:(i + 1) * kept], x[i * rows:(i + 1) * rows], group) for i in range(chunks)]
            for i, h in enumerate(pending):
                h.wait()
                torch.mm(x[i * rows:(i + 1) * rows], b, out=c[i * rows:(i + 1) * rows])
        return gathered
    a = torch.randn(m, k, device=lab.device, dtype=torch.bfloat16)
    other = torch.empty_like(c)
    part = torch.empty(m // lab.world, n, device=lab.device, dtype=torch.bfloat16)

    def work():
        pending = []
        for i in range(chunks):
            mine = c[i * rows:(i + 1) * rows]
            torch.mm(a[i * rows:(i + 1) * rows], b, out=mine)
            pending.append(communicate(op, mine, part[i * kept:(i + 1) * kept], other[i * rows:(i + 1) * rows], group))
        for h in pending:
            h.wait()
    return work


def loop(lab, shape, op, count, overlap, group):
    m, n, k = shape
    a = torch.randn(m, k, device=lab.device, dtype=torch.bfloat16)
    b = torch.randn(k, n, device=lab.device, dtype=torch.bfloat16) / k**0.5
    cs = [torch.empty(m, n, device=lab.device, dtype=torch.bfloat16) for _ in range(count if overlap else 1)]
    other = torch.empty_like(cs[0])
    part = torch.empty(m // lab.world, n, device=lab.device, dtype=torch.bfloat16)

    def work():
        pending = []
        for i in range(count):
            mine = cs[i % len(cs)]
            torch.mm(a, b, out=mine)
            h = communicate(op, mine, part, other, group)
            if overlap:
                pending.append(h)
            else:
                h.wait()
        for h in pending:
            h.wait()
    return work


class Book:
    """Writes rows.jsonl: strategies, as `overlapse validate` reads them."""

    def __init__(self, lab, prefix):
        self.lab, self.n, self.prefix = lab, 0, prefix
        self.file = open(os.path.join(lab.out, "rows.jsonl"), "w") if lab.rank == 0 else None

    def row(self, workload, strategy, params, us, trace, per=1):
        us = [t / per for t in us]
        r = {"id": f"{self.prefix}{self.n:04d}", "machine": f"{self.lab.machine}x{self.lab.world}", "world": self.lab.world, "workload": workload,
             "strategy": strategy, "params": {"queued": True} | params, "us": round(statistics.median(us), 2), "min_us": round(min(us), 2), "max_us": round(max(us), 2)}
        if trace:
            r["trace"] = trace
        self.n += 1
        if self.file:
            self.file.write(json.dumps(r) + "\n")
            self.file.flush()
        self.lab.say(f"{workload['name']} {workload.get('collective')} {strategy} {params}: {r['us']}")


def share(lab, case):
    """A rank's name, (m, n, k) and collective of a line of SETS."""
    name, m, n, k, by, op = case
    return name, (m, n // lab.world if by == "n" else n, k // lab.world if by == "k" else k), op


def pairs(lab, book, cases, configs):
    w = lab.world
    for case in cases:
        name, shape, op = share(lab, case)
        m, n, k = shape
        wl = {"name": name, "kind": "gemm+collective", "m": m, "n": n, "k": k, "dtype": "bf16", "collective": op,
              "bytes": 2 * m * (k if op == "all_gather" else n)}
        trace = f"traces/bulk_{name}_{op}_w{w}"
        bulk = pair(lab, shape, op, 1, lab.group())
        book.row(wl, "bulk", {}, lab.time(bulk), trace)
        record(lab, os.path.basename(trace), bulk, 5)
        del bulk
        for chunks, channels, prio in configs:
            work = pair(lab, shape, op, chunks, lab.group(channels or None, prio))
            params = {"chunks": chunks} | ({"channels": channels} if channels else {}) | ({"comm_priority": True} if prio else {})
            book.row(wl, "decompose", params, lab.time(work, head_us=400 + 100 * chunks), trace)
            del work
        torch.cuda.empty_cache()


def loops(lab, book, cases, configs):
    lab.iterations = 5
    for case in cases:
        name, shape, op = share(lab, case)
        m, n, k = shape
        wl = {"name": name, "kind": "gemm+collective", "m": m, "n": n, "k": k, "dtype": "bf16", "collective": op, "bytes": 2 * m * n}
        trace = f"traces/pipe_{name}_{op}_w{lab.world}"
        work = loop(lab, shape, op, 16, False, lab.group())
        for _ in range(2):
            work()
        with profiled(lab, os.path.basename(trace)):
            work()
        del work
        for channels, prio in configs:
            params = {"iterations": 16} | ({"channels": channels} if channels else {}) | ({"comm_priority": True} if prio else {})
            for strategy in "bulk", "multistream":
                work = loop(lab, shape, op, 16, strategy == "multistream", lab.group(channels or None, prio))
                book.row(wl, strategy, params, lab.time(work, head_us=1500, warm=1), trace, per=16)
                del work
        torch.cuda.empty_cache()
    lab.iterations = 11


# What the capture of a machine ends with, to see how well its profile predicts: pairs that no benchmark above has.
CHECK = {
    "pairs": [  # a GEMM and the collective of its output; all_gather: of its input. Which of M, N, K the ranks divide
        ("check_down", 6144, 5120, 13824, "k", "all_reduce"),
        ("check_out", 8192, 6144, 6144, "k", "reduce_scatter"),
        ("check_moe", 12288, 3072, 8192, "k", "all_to_all"),
        ("check_up", 4096, 18432, 6144, "n", "all_gather"),
    ],
    "decompose": [(2, 0, False), (4, 0, True), (4, 8, False)],  # chunks, channels (0: the library's own), urgent
    "loops": [("check_out", 8192, 6144, 6144, "k", "all_reduce"), ("check_moe", 12288, 3072, 8192, "k", "all_to_all")],
    "multistream": [(0, False), (8, False)],  # channels, urgent
}


def check(lab):
    need_peers(lab)
    book = Book(lab, "check")
    pairs(lab, book, CHECK["pairs"], CHECK["decompose"])
    loops(lab, book, CHECK["loops"], CHECK["multistream"])


MOE_TOKENS, LLAMA_TOKENS = 16384, 8192


def moe(lab):
    """A mixture-of-experts layer, expert parallel: dispatch, two GEMMs, combine."""
    need_peers(lab)
    tokens, hidden, ffn = MOE_TOKENS, 4096, 14336
    x = torch.randn(tokens, hidden, device=lab.device, dtype=torch.bfloat16)
    up = torch.randn(hidden, ffn, device=lab.device, dtype=torch.bfloat16) / hidden**0.5
    down = torch.randn(ffn, hidden, device=lab.device, dtype=torch.bfloat16) / ffn**0.5
    here, back = torch.empty_like(x), torch.empty_like(x)

    def work():
        dist.all_to_all_single(here, x)
        y = F.silu(here @ up) @ down
        dist.all_to_all_single(back, y)

    return work


def llama(lab):
    """Three layers of a 70-billion-parameter Llama, tensor parallel, forward."""
    need_peers(lab)
    tokens, hidden, ffn, head, layers = LLAMA_TOKENS, 8192, 28672, 128, 3
    heads, inner = hidden // head // lab.world, ffn // lab.world

    def weight(rows, cols):
        return torch.randn(rows, cols, device=lab.device, dtype=torch.bfloat16) / rows**0.5

    qkv, out = weight(hidden, 3 * heads * head), weight(heads * head, hidden)
    up, down = weight(hidden, 2 * inner), weight(inner, hidden)
    x0 = torch.randn(tokens, hidden, device=lab.device, dtype=torch.bfloat16)

    def work():
        x = x0
        for _ in range(layers):
            q, k, v = (F.layer_norm(x, (hidden,)) @ qkv).view(1, tokens, 3, heads, head).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = y.transpose(1, 2).reshape(tokens, heads * head) @ out
            dist.all_reduce(y)
            x = x + y
            gate, value = (F.layer_norm(x, (hidden,)) @ up).chunk(2, dim=-1)
            y = (F.silu(gate) * value) @ down
            dist.all_reduce(y)
            x = x + y

    return work


def trace_moe(lab):
    record(lab, f"whole_moe_ep{lab.world}_t{MOE_TOKENS}", moe(lab), 3)


def trace_llama(lab):
    with torch.no_grad():
        record(lab, f"whole_llama70b_tp{lab.world}_prefill_s{LLAMA_TOKENS}", llama(lab), 2)


TRACES = {"check": check, "moe": trace_moe, "llama": trace_llama}


# ---------------------------------------------------------------------------------------------------------------------
# The run.


def describe(lab):
    """What the rows were measured on: machine.json. Names the hardware and software, not the host."""
    prefixes = "NCCL_", "RCCL_", "TORCH_", "CUDA_", "HIP_", "HSA_", "ROCR_", "PYTORCH_"
    return {
        "machine": f"{lab.machine}x{lab.world}",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "gpu": lab.properties.name,
        "gpus": lab.world,
        "cus": lab.cus,
        "memory_bytes": lab.properties.total_memory,
        "l2_bytes": attempt(lambda: lab.properties.L2_cache_size),
        "torch": torch.__version__,
        "triton": getattr(triton, "__version__", None),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "driver_api": attempt(lambda: torch._C._cuda_getDriverVersion()),
        "nccl": attempt(lambda: ".".join(map(str, torch.cuda.nccl.version()))),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(prefixes) and "/" not in v},
        "iterations": lab.iterations,
    }


def attempt(f):
    try:
        return f()
    except Exception:  # a fact that this PyTorch does not tell
        return None


class Rows:
    """Appends to calibrate.jsonl, a line a measurement, so that an interrupted run keeps what it has."""

    def __init__(self, lab):
        self.lab, self.count = lab, 0
        self.path = os.path.join(lab.out, "calibrate.jsonl")
        if lab.rank == 0 and os.path.exists(self.path):
            with open(self.path) as f:
                self.count = sum(1 for _ in f)

    def add(self, r, world, us, found):
        row = {"id": f"c{self.count:04d}", "machine": f"{self.lab.machine}x{world}", "world": world}
        row |= {"workload": r["workload"], "strategy": r["strategy"], "params": r["params"] | found}
        row |= {"us": round(statistics.median(us), 2), "min_us": round(min(us), 2), "max_us": round(max(us), 2)}
        if "trace" in r:
            row["trace"] = r["trace"]
        with open(self.path, "a") as f:
            f.write(json.dumps(row) + "\n")
        self.count += 1


def brief(r):
    """One line for a person."""
    values = [str(v) for k, v in r["workload"].items() if k not in ("dtype", "kind")]
    params = [f"{k}={v}" for k, v in r["params"].items()]
    return " ".join([label(r)] + ([r["workload"]["kind"]] if r["strategy"] != "isolated" else []) + values + params)


def skippable():
    """What ends one benchmark and not the run; alike on all ranks if their GPUs are alike."""
    errors = [Unsupported, torch.cuda.OutOfMemoryError]
    if triton is not None:
        errors.append(triton.runtime.errors.OutOfResources)
    return tuple(errors)


def run_rows(lab, plan):
    rows, skipped, ranks = Rows(lab), set(), lab.world
    for i, r in enumerate(plan):
        world = r.get("world", ranks)
        if world > ranks:
            lab.say(f"{i + 1}/{len(plan)} {brief(r)}: skipped: needs {world} GPUs")
            continue
        with lab.first(world):
            try:
                if world not in (1, ranks):
                    lab.group(r["params"].get("channels"))  # every rank takes part in making a group
                if lab.rank < world:
                    us, found = measure(lab, r)
                    if lab.rank == 0:
                        rows.add(r, world, us, found)
                        lab.say(f"{i + 1}/{len(plan)} {brief(r)}: {statistics.median(us):.1f} us")
            except skippable() as e:
                if (label(r), first_line(e)) not in skipped:
                    lab.say(f"{i + 1}/{len(plan)} {brief(r)}: skipped: {first_line(e)}")
                    skipped.add((label(r), first_line(e)))
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        dist.barrier(group=lab.host)
    return rows.count


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="DIR", default="capture", help="where calibrate.jsonl, machine.json and traces/ go (default: capture)")
    parser.add_argument("--machine", metavar="NAME", help="name of the machine in the rows, without the number of GPUs (default: from the GPU's name)")
    parser.add_argument("--only", metavar="LABELS", help="comma-separated kinds, strategies and 'traces'; --labels prints them")
    parser.add_argument("--skip", metavar="LABELS", default="", help="the same, to leave out")
    parser.add_argument("--plan", metavar="FILE", help="requests to measure instead of the built-in ones, a JSON object a line")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and iterations: a try-out of some minutes")
    parser.add_argument("--iterations", type=int, metavar="N", help="timed iterations of each row (default: 10; 3 with --quick)")
    parser.add_argument("--max-bytes", type=int, metavar="N", help="leave out requests whose workload has more bytes than this")
    parser.add_argument("--list", action="store_true", help="print the requests and stop")
    parser.add_argument("--labels", action="store_true", help="print the labels with the number of requests of each and stop")
    parser.add_argument("--cus", type=int, metavar="N", default=132, help="compute units to plan for with --list and --labels (default: 132)")
    args = parser.parse_args(argv)
    if args.iterations is None:
        args.iterations = 3 if args.quick else 10
    if args.iterations < 1:
        parser.error("--iterations: at least 1")
    return args


def select(args, cus, ranks):
    """The requests and whether traces are wanted."""
    plan = list(read_plan(args.plan) if args.plan else default_plan(cus, ranks, args.quick))
    known = {label(r) for r in plan} | {"traces"}
    wanted = set(args.only.split(",")) if args.only else known
    skip = set(filter(None, args.skip.split(",")))
    for name in sorted((wanted | skip) - known):
        sys.exit(f"capture.py: no label {name}; there are: {', '.join(sorted(known))}")
    wanted -= skip
    limit = args.max_bytes or float("inf")
    chosen = [r for r in plan if label(r) in wanted and r["workload"].get("bytes", 0) <= limit]
    return chosen, "traces" in wanted and not args.plan


def main(argv):
    args = parse(argv)
    plan, traces = select(args, args.cus, int(os.environ.get("WORLD_SIZE", "8")))  # before any GPU is touched: a wrong label or plan ends it here
    if args.list or args.labels:
        counts = {}
        for r in plan:
            counts[label(r)] = counts.get(label(r), 0) + 1
        lines = [json.dumps(r) for r in plan] if args.list else [f"{n:5d} {name}" for name, n in counts.items()]
        print("\n".join(lines))
        return
    if torch is None or not torch.cuda.is_available():
        sys.exit("capture.py: PyTorch with CUDA or ROCm, and a GPU, are needed to measure; --list needs neither")
    os.makedirs(args.out, exist_ok=True)
    lab = Lab(args)
    plan, traces = select(args, lab.cus, lab.world)
    lab.say(f"{lab.world} x {lab.properties.name}, {len(plan)} requests, to {args.out}")
    if lab.rank == 0:
        with open(os.path.join(args.out, "machine.json"), "w") as f:
            json.dump(describe(lab), f, indent=2)
            f.write("\n")
    count = run_rows(lab, plan)
    for name, trace in ({"gemms": lambda lab: trace_rows(lab, plan)} | (TRACES if traces else {})).items():
        try:
            trace(lab)
        except skippable() as e:
            lab.say(f"traces of {name}: skipped: {first_line(e)}")
        torch.cuda.empty_cache()
    lab.say(f"done: {count} rows in {os.path.join(args.out, 'calibrate.jsonl')}")
    dist.barrier(group=lab.host)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
