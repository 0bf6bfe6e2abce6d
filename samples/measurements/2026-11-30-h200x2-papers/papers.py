#!/usr/bin/env python3
"""Measures what two papers vary, on one or two GPUs, for `overlapse validate`.

    torchrun --nproc-per-node 2 papers.py beside --out OUT   # a GEMM beside a collective: resource-aware overlap
    python3 papers.py tiles --out OUT                        # dependent kernels tile by tile: cuSync

Writes OUT/rows.jsonl (strategies), OUT/parts.jsonl (each kernel alone) and OUT/traces (what the rows start from). With --again
no traces. Needs Triton, and beside it capture.py, whose laboratory it uses.
"""
import argparse
import json
import os
import statistics
import sys

import torch
import torch.distributed as dist
import triton
import triton.language as tl

from capture import MIB, Book, Lab, between_us, communicate, event, profiled

ITERATIONS = 8
BYTES = 64 * MIB  # of each collective
SHAPES = {"cb": (8192, 4096, 4096), "mb": (64, 65536, 8192)}  # bound by matrix units, by memory
TILES = {"cb": [(128, 256, 64), (128, 128, 64), (64, 64, 64)], "mb": [(64, 256, 64), (64, 128, 64), (64, 64, 64)]}
OPS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
CHANNELS = [1, 2, 4, 8, 16, 32]
LDS = {"cb": {1: [120], 2: [72, 110]}, "mb": {1: [90, 120], 2: [72, 110]}}  # KiB of shared memory a workgroup, by tile
BLOCKS = [128, 116, 100, 66]
CONVS = {"1.3": 28, "2.5": 54, "4.5": 97}  # images of 28x28 with 256 channels
CHAINS = {  # M, K, N of the first product; the second gives M x K. On 132 CUs with two workgroups each
    "gemm": {"1.3": (2048, 4096, 2688), "2.5": (2560, 4096, 4224), "4.5": (4224, 4096, 4608)},
    "attention": {"1.3": (1408, 2048, 4096), "2.5": (2688, 2048, 4096), "4.5": (4736, 2048, 4096)},
}
SIDE, CONV_CHANNELS = 28, 256


@triton.jit
def beside_k(a, b, c, tiles, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, LOOP: tl.constexpr):
    # C = A B, rows of tiles first; LOOP: in as many workgroups as there are, else a workgroup a tile.
    m0, k0 = tl.arange(0, BM), tl.arange(0, BK)
    if LOOP:
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
    else:
        tile = tl.program_id(0)
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
def await_k(flag, want):
    # Keeps its stream from going on until the flag has reached what is wanted.
    turns = 0
    while (tl.atomic_cas(flag, -1, -1, sem="acquire", scope="gpu") < want) & (turns < 4000000):
        turns += 1


@triton.jit
def await_post(semaphore, want):
    while tl.atomic_cas(semaphore, -1, -1, sem="acquire", scope="gpu") < want:
        pass
    tl.debug_barrier()


@triton.jit(do_not_specialize=["epoch"])
def tile_k(a, b, c, started, waits, posts, epoch, N, K, each, rows, BEGIN: tl.constexpr, WAIT: tl.constexpr, POST: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A workgroup a tile of C = A B. WAIT, POST: 0 nothing, 1 a semaphore a row, which has each posts, 2 a semaphore a tile of A's columns."""
    tile = tl.program_id(0)
    if BEGIN:
        if tile == 0:
            tl.atomic_add(started, 1, sem="release", scope="gpu")
    row, col = tile // (N // BN), tile % (N // BN)
    m, n, k = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN), tl.arange(0, BK)
    if WAIT == 1:
        await_post(waits + row, epoch * each)
    a += m[:, None] * K + k[None, :]
    b += k[:, None] * N + n[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, K // BK):
        if WAIT == 2:
            if step % (BN // BK) == 0:
                await_post(waits + row * (K // BN) + step // (BN // BK), epoch)
        acc = tl.dot(tl.load(a), tl.load(b), acc)
        a += BK
        b += BK * N
    tl.store(c + m[:, None] * N + n[None, :], acc.to(tl.bfloat16))
    if POST > 0:
        tl.debug_barrier()
        tl.atomic_add(posts + (row if POST == 1 else tile), 1, sem="release", scope="gpu")


@triton.jit(do_not_specialize=["epoch"])
def conv_k(x, w, y, started, waits, posts, epoch, pixels, rows, BEGIN: tl.constexpr, WAIT: tl.constexpr, POST: tl.constexpr, S: tl.constexpr, C: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """A 3x3 convolution of images of S by S with C channels as an implicit product: a workgroup a tile of pixels by channels.
    WAIT: 1 the rows of tiles that its pixels' neighbours are in, before all; 2 each tile of channels of them, as it comes to it."""
    tile = tl.program_id(0)
    COLS: tl.constexpr = C // BN
    if BEGIN:
        if tile == 0:
            tl.atomic_add(started, 1, sem="release", scope="gpu")
    row, col = tile // COLS, tile % COLS
    m, n, k = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN), tl.arange(0, BK)
    h, v = m // S % S, m % S
    low, high = tl.maximum(row - 1, 0), tl.minimum(row + 1, rows - 1)
    if WAIT == 1:
        await_post(waits + low, epoch * COLS)
        await_post(waits + row, epoch * COLS)
        await_post(waits + high, epoch * COLS)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, 9 * C // BK):
        tap = step // (C // BK)
        ch = step % (C // BK) * BK
        dh, dv = tap // 3 - 1, tap % 3 - 1
        if WAIT == 2:
            if (tap == 0) & (ch % BN == 0):
                at = ch // BN
                await_post(waits + low * COLS + at, epoch)
                await_post(waits + row * COLS + at, epoch)
                await_post(waits + high * COLS + at, epoch)
        inside = (h + dh >= 0) & (h + dh < S) & (v + dv >= 0) & (v + dv < S) & (m < pixels)
        part = tl.load(x + (m + dh * S + dv)[:, None] * C + (ch + k)[None, :], inside[:, None], 0.0)
        acc = tl.dot(part, tl.load(w + (tap * C + ch + k)[:, None] * C + n[None, :]), acc)
    tl.store(y + m[:, None] * C + n[None, :], acc.to(tl.bfloat16), (m < pixels)[:, None])
    if POST > 0:
        tl.debug_barrier()
        tl.atomic_add(posts + (row if POST == 1 else tile), 1, sem="release", scope="gpu")


@triton.jit(do_not_specialize=["epoch"])
def softmax_k(s, p, started, waits, posts, epoch, each, N: tl.constexpr, BEGIN: tl.constexpr, SYNC: tl.constexpr, ROWS: tl.constexpr, BM: tl.constexpr):
    at = tl.program_id(0)
    if BEGIN:
        if at == 0:
            tl.atomic_add(started, 1, sem="release", scope="gpu")
    if SYNC:
        await_post(waits + at * ROWS // BM, epoch * each)
    where = (at * ROWS + tl.arange(0, ROWS))[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(s + where).to(tl.float32)
    x = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(p + where, (x / tl.sum(x, 1)[:, None]).to(tl.bfloat16))
    if SYNC:
        tl.debug_barrier()
        tl.atomic_add(posts + at * ROWS // BM, 1, sem="release", scope="gpu")


def shared(kernel, size):
    """Makes a compiled kernel request so many bytes of shared memory a workgroup at each launch."""
    from triton.compiler.compiler import make_backend

    kernel.metadata = kernel.metadata._replace(shared=size)
    kernel.packed_metadata = make_backend(kernel.metadata.target).pack_metadata(kernel.metadata)
    kernel.module = None
    kernel._init_handles()


class Parts:
    def __init__(self, lab, prefix):
        self.lab, self.n, self.prefix = lab, 0, prefix
        self.file = open(os.path.join(lab.out, "parts.jsonl"), "w") if lab.rank == 0 else None

    def row(self, workload, params, us, per=1, world=None):
        us = [t / per for t in us]
        world = world or self.lab.world
        r = {"id": f"{self.prefix}p{self.n:04d}", "machine": f"{self.lab.machine}x{self.lab.world}", "world": world, "workload": workload, "strategy": "isolated",
             "params": {"queued": True} | params, "us": round(statistics.median(us), 2), "min_us": round(min(us), 2), "max_us": round(max(us), 2)}
        self.n += 1
        if self.file:
            self.file.write(json.dumps(r) + "\n")
            self.file.flush()
        self.lab.say(f"alone {workload} {params}: {r['us']}")


def spans(lab, work):
    """Kernels that work() runs: name, stream, start and duration in microseconds."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        lab.align(3000)
        work()
        torch.cuda.synchronize()
    path = os.path.join(lab.out, f".p{lab.rank}.json")
    profiler.export_chrome_trace(path)
    with open(path) as f:
        found = [e for e in json.load(f)["traceEvents"] if e.get("cat") == "kernel"]
    os.remove(path)
    return [[e["name"][:40], e["args"].get("stream"), round(e["ts"] - found[0]["ts"], 2), e["dur"], e["args"].get("grid"), e["args"].get("shared memory"), e["args"].get("registers per thread")] for e in found]


def beside(lab, args):
    lab.iterations = 5
    book, parts = Book(lab, args.prefix), Parts(lab, args.prefix)
    seen = open(os.path.join(lab.out, "spans.jsonl"), "w") if lab.rank == 0 and not args.again else None
    urgent = torch.cuda.Stream(priority=-1)
    x = torch.randn(BYTES // 2, device=lab.device, dtype=torch.bfloat16)
    other = torch.empty_like(x)
    shard = torch.randn(BYTES // 2 // lab.world, device=lab.device, dtype=torch.bfloat16)
    for prio in False, True:
        for n in [0] + CHANNELS:
            g = lab.group(n or None, prio)
            dist.all_reduce(lab.tick, group=g)
    torch.cuda.synchronize()
    lab.say("groups made")

    def collective(op, group):
        return communicate(op, x, shard, other, group)

    for op in OPS:
        for n in [0] + CHANNELS:
            g = lab.group(n or None)
            def work(op=op, g=g):
                for _ in range(ITERATIONS):
                    collective(op, g).wait()
            parts.row({"kind": "collective", "collective": op, "bytes": BYTES}, {"channels": n} if n else {}, lab.time(work, head_us=1500, warm=1), ITERATIONS)
    for name, (m, n, k) in SHAPES.items():
        a = torch.randn(m, k, device=lab.device, dtype=torch.bfloat16)
        b = torch.randn(k, n, device=lab.device, dtype=torch.bfloat16) / k**0.5
        c = torch.empty(m, n, device=lab.device, dtype=torch.bfloat16)
        for at, (tm, tn, tk) in enumerate(TILES[name]):
            tiles = (m // tm) * (n // tn)
            warps = 8 if tm * tn > 64 * 64 else 4

            def launch(blocks=0):
                return beside_k[(blocks or tiles,)](a, b, c, tiles, n, k, BM=tm, BN=tn, BK=tk, LOOP=blocks > 0, num_warps=warps, num_stages=3)

            compiled = launch()
            torch.cuda.synchronize()
            if at == 0:
                want = a.float() @ b.float()
                lab.say(f"far by {((c - want).norm() / want.norm()).item():.4f}")
                del want
            lab.say(f"{name} {tm}x{tn}: {tiles} tiles, {getattr(compiled, 'n_regs', None)} registers, {compiled.metadata.shared} bytes")
            base = {"name": f"{name}_{tm}x{tn}", "kind": "gemm", "m": m, "n": n, "k": k, "dtype": "bf16", "tile": [tm, tn, tk], "tiles": tiles}

            def alone(params, blocks=0):
                def work():
                    for _ in range(ITERATIONS):
                        launch(blocks)
                parts.row(base, params, lab.time(work, head_us=1500, warm=1), ITERATIONS)

            def loop(op, overlap, group, blocks=0):
                def work():
                    pending = []
                    for _ in range(ITERATIONS):
                        launch(blocks)
                        h = collective(op, group)
                        pending.append(h) if overlap else h.wait()
                    for h in pending:
                        h.wait()
                return work

            def row(op, strategy, params, channels=0, prio=False, first=False, blocks=0, look=False):
                wl = base | {"kind": "gemm+collective", "collective": op, "bytes": BYTES}
                work = loop(op, strategy == "multistream", lab.group(channels or None, prio), blocks)
                p = {"iterations": ITERATIONS} | ({"channels": channels} if channels else {}) | ({"comm_priority": True} if prio else {}) | params
                with torch.cuda.stream(urgent if first else torch.cuda.current_stream()):
                    book.row(wl, strategy, p, lab.time(work, head_us=1500, warm=1), f"traces/pipe_{name}_{tm}x{tn}_{op}", per=ITERATIONS)
                    if look and not args.again:
                        found = spans(lab, work)
                        if seen:
                            seen.write(json.dumps({"name": wl["name"], "collective": op, "strategy": strategy, "params": p, "kernels": found}) + "\n")
                            seen.flush()

            alone({})
            for op in OPS:
                if not args.again:
                    work = loop(op, False, lab.everyone)
                    work()
                    with profiled(lab, f"pipe_{name}_{tm}x{tn}_{op}"):
                        for i in range(4):
                            with torch.profiler.record_function(f"iteration#{i}"):
                                launch()
                                collective(op, lab.everyone).wait()
                row(op, "bulk", {})
                row(op, "multistream", {}, look=True)
                row(op, "multistream", {}, prio=True, look=True)
                row(op, "multistream", {"compute_priority": True}, first=True, look=at == 0)
                if at == 0:
                    for channels in CHANNELS:
                        row(op, "bulk", {}, channels)
                        row(op, "multistream", {}, channels, look=channels == 4)
                        row(op, "multistream", {}, channels, prio=True)
                if at == 0 and op in ("all_reduce", "all_to_all"):
                    for blocks in BLOCKS:
                        if op == "all_reduce":
                            alone({"programs": blocks}, blocks)
                        row(op, "multistream", {"blocks": blocks}, blocks=blocks, look=blocks == 100)
                        row(op, "multistream", {"blocks": blocks}, prio=True, blocks=blocks)
            for lds in LDS[name].get(at, []):
                kept = compiled.metadata.shared
                try:
                    shared(compiled, lds * 1024)
                    alone({"lds": lds})
                    for op in "all_reduce", "all_to_all":
                        row(op, "multistream", {"lds": lds}, look=op == "all_reduce")
                        row(op, "multistream", {"lds": lds}, prio=True)
                except Exception as e:
                    lab.say(f"shared memory: {type(e).__name__}: {e}")
                try:
                    shared(compiled, kept)
                except Exception as e:
                    lab.say(f"shared memory: {type(e).__name__}: {e}")
        del a, b, c


def tiles(lab, args):
    """Chains of dependent kernels, one after another or on streams of their own with semaphores."""
    lab.iterations = 11
    book, parts = Book(lab, args.prefix), Parts(lab, args.prefix)
    streams = [torch.cuda.Stream(priority=p) for p in (-2, -1, 0)]
    lab.say(f"priorities {[s.priority for s in streams]}")
    semaphores = torch.zeros(4, 4096, device=lab.device, dtype=torch.int32)
    started = torch.zeros(4, 32, device=lab.device, dtype=torch.int32)
    torch.cuda.synchronize()

    def chain(name, wave, wl, kernels, between, out, policies):
        """kernels: functions of (stage's place, waits for, posts, epoch, policy, whether it says when it begins)."""
        wl = wl | {"name": f"{name}_{wave}"}
        trace = f"traces/chain_{name}_{wave}"

        def bulk():
            for kernel in kernels:
                kernel(None, None, 0, 0, None)

        bulk()
        torch.cuda.synchronize()
        want = out.clone()
        waits = torch.full((4096,), 1 << 20, device=lab.device, dtype=torch.int32)
        for i, kernel in enumerate(kernels):
            parts.row(wl | {"part": ("producer", "consumer")[i] if len(kernels) == 2 else ("producer", "middle", "consumer")[i]}, {}, lab.time(lambda kernel=kernel: kernel(None, None, 0, 0, None)), world=1)
        book.row(wl, "bulk", {}, lab.time(bulk), trace)
        if not args.again:
            for _ in range(2):
                bulk()
            torch.cuda.synchronize()
            with profiled(lab, f"chain_{name}_{wave}"):
                for i in range(5):
                    with torch.profiler.record_function(f"iteration#{i}"):
                        bulk()
        for number, policy in policies:  # the consumer's build, which finds every semaphore posted
            parts.row(wl | {"part": "consumer"}, {"policy": policy}, lab.time(lambda: kernels[-1](waits, None, 1, number, None)), world=1)
        for number, policy in policies:
            semaphores.zero_()
            started.zero_()
            torch.cuda.synchronize()
            epoch = [0]

            def work():
                epoch[0] += 1
                now = torch.cuda.current_stream()
                for i, kernel in enumerate(kernels):
                    streams[i].wait_stream(now)
                for i, kernel in enumerate(kernels):
                    with torch.cuda.stream(streams[i]):
                        if i:
                            await_k[(1,)](started[i - 1], epoch[0], num_warps=1)
                        kernel(semaphores[i - 1] if i else None, semaphores[i] if i + 1 < len(kernels) else None, epoch[0], number, started[i])
                for s in streams[:len(kernels)]:
                    now.wait_stream(s)

            for x in between + [out]:
                x.zero_()
            torch.cuda.synchronize()
            work()
            torch.cuda.synchronize()
            lab.say(f"{name} {wave} {policy}: equal {torch.equal(out, want)}, far by {(out - want).float().abs().max().item()}")
            book.row(wl, "tilesync", {"policy": policy}, lab.time(work), trace)
            if not args.again and lab.rank == 0:
                with open(os.path.join(lab.out, "spans.jsonl"), "a") as f:
                    f.write(json.dumps({"name": wl["name"], "policy": policy, "kernels": spans(lab, work)}) + "\n")

    bm, bn, bk = 128, 128, 64
    none = semaphores[3]

    def gemm(a, b, c, n, k, each):
        count = (a.shape[0] // bm) * (n // bn)

        def kernel(waits, posts, epoch, policy, begin):
            tile_k[(count,)](a, b, c, begin if begin is not None else none, waits if waits is not None else none, posts if posts is not None else none, epoch, n, k, each, 0,
                             BEGIN=begin is not None and posts is not None, WAIT=policy if waits is not None else 0, POST=policy if posts is not None else 0, BM=bm, BN=bn, BK=bk, num_warps=8, num_stages=3)
        return kernel, count

    def new(*shape):
        return torch.randn(*shape, device=lab.device, dtype=torch.bfloat16) / shape[-1]**0.25

    for wave, (m, k, n) in CHAINS["gemm"].items():
        a, b1, b2, mid, out = new(m, k), new(k, n), new(n, k), new(m, n), new(m, k)
        first, g1 = gemm(a, b1, mid, n, k, 0)
        second, g2 = gemm(mid, b2, out, k, n, n // bn)
        wl = {"kind": "gemm+gemm", "batch": m, "hidden": k, "ffn": n, "dtype": "bf16", "grids": [g1, g2], "tile": [bm, bn, bk]}
        chain("gemm", wave, wl, [first, second], [mid], out, [(1, "row"), (2, "tile")])
    for wave, (m, k, n) in CHAINS["attention"].items():
        q, keys, values, s, p, out = new(m, k), new(k, n), new(n, k), new(m, n), new(m, n), new(m, k)
        rows = 4
        first, g1 = gemm(q, keys, s, n, k, 0)
        last, g2 = gemm(p, values, out, k, n, bm // rows)

        def middle(waits, posts, epoch, policy, begin):
            softmax_k[(m // rows,)](s, p, begin if begin is not None else none, waits if waits is not None else none, posts if posts is not None else none, epoch, n // bn,
                                    N=n, BEGIN=begin is not None, SYNC=waits is not None, ROWS=rows, BM=bm, num_warps=8)
        wl = {"kind": "gemm+softmax+gemm", "batch": m, "hidden": k, "ffn": n, "dtype": "bf16", "grids": [g1, m // rows, g2], "tile": [bm, bn, bk]}
        chain("attention", wave, wl, [first, middle, last], [s, p], out, [(1, "row")])
    c = CONV_CHANNELS
    for wave, images in CONVS.items():
        pixels = images * SIDE * SIDE
        rows = -(-pixels // bm)
        x, mid, out = (new(pixels + 2 * bm, c) for _ in range(3))
        mid.zero_(), out.zero_()
        w1, w2 = new(9 * c, c) / 8, new(9 * c, c) / 8

        def conv(x, w, y):
            x = x[bm:]

            def kernel(waits, posts, epoch, policy, begin):
                conv_k[(rows * (c // bn),)](x, w, y[bm:], begin if begin is not None else none, waits if waits is not None else none, posts if posts is not None else none, epoch, pixels, rows,
                                            BEGIN=begin is not None and posts is not None, WAIT=policy if waits is not None else 0, POST=policy if posts is not None else 0, S=SIDE, C=c, BM=bm, BN=bn, BK=bk, num_warps=8, num_stages=3)
            return kernel
        wl = {"kind": "conv+conv", "batch": images, "hidden": c, "ffn": c, "height": SIDE, "width": SIDE, "filter": 3, "dtype": "bf16", "grids": [rows * (c // bn)] * 2, "tile": [bm, bn, bk]}
        chain("conv", wave, wl, [conv(x, w1, mid), conv(mid, w2, out)], [mid], out, [(1, "row"), (2, "conv")])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("beside", "tiles"))
    p.add_argument("--out", required=True, help="folder for rows, parts and traces")
    p.add_argument("--prefix", default="h", help="what ids of rows begin with")
    p.add_argument("--machine", help="name in the rows; default: the GPU's")
    p.add_argument("--again", action="store_true", help="rows only")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    lab = Lab(argparse.Namespace(machine=args.machine, iterations=11, out=args.out))
    {"beside": beside, "tiles": tiles}[args.what](lab, args)
    if not lab.alone:
        dist.barrier(group=lab.host)
    dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
