#!/usr/bin/env python3
"""GEMV and all-reduce: one kernel behind the other, and in one kernel whose workgroups wait for those of the peers.

    torchrun --nproc-per-node 2 gemv.py --out OUT

Writes OUT/rows.jsonl and OUT/traces as strategies.py does, which must lie beside it with capture.py.
"""
import argparse
import os

import torch
import torch.distributed as dist
import triton
import triton.language as tl

from capture import Lab, record
from strategies import Book

GEMVS = [  # n, k of a rank, workgroups
    (8192, 2048, 64), (8192, 8192, 64), (16384, 4096, 132), (16384, 8192, 132), (32768, 2048, 256), (32768, 8192, 256),
]
ROWS = 32  # of a GEMV's tile


@triton.jit
def dot_rows(a, x, tile, K, R: tl.constexpr, BK: tl.constexpr):
    r, k = tile * R + tl.arange(0, R), tl.arange(0, BK)
    acc = tl.zeros((R, BK), dtype=tl.float32)
    for at in range(0, K, BK):
        acc += tl.load(a + r[:, None] * K + (at + k)[None, :]).to(tl.float32) * tl.load(x + at + k).to(tl.float32)[None, :]
    return tl.sum(acc, 1)


@triton.jit
def gemv_ar_k(a, x, y, targets, epochs, K, tiles, rank, WORLD: tl.constexpr, FUSED: tl.constexpr, N: tl.constexpr, R: tl.constexpr, BK: tl.constexpr, FLAG: tl.constexpr):
    """y = A x. FUSED: summed over the ranks; a peer's partial results go straight into its memory, one flag a workgroup and
    peer behind them, and the owner of a tile adds them and stores the sum to all. A buffer: flags, N partial results a rank, N sums."""
    p, wgs = tl.program_id(0), tl.num_programs(0)
    lane = tl.arange(0, R)
    if FUSED:
        epoch = tl.load(epochs + p) + 1
        mine = tl.load(targets + rank).to(tl.pointer_type(tl.float32))
        flags = 2 * 1024 * FLAG
        half = epoch % 2  # buffers alternate between launches
        for s in range(1, WORLD):
            to = (rank + s) % WORLD
            theirs = tl.load(targets + to).to(tl.pointer_type(tl.float32))
            for t in range(p, tiles, wgs):
                if t * WORLD // tiles == to:
                    tl.store(theirs + flags + (half * (WORLD + 1) + rank) * N + t * R + lane, dot_rows(a, x, t, K, R, BK))
            tl.debug_barrier()
            tl.atomic_add(theirs.to(tl.pointer_type(tl.int32)) + p * FLAG, 1, sem="release", scope="sys")
        for t in range(p, tiles, wgs):
            if t * WORLD // tiles == rank:
                tl.store(mine + flags + (half * (WORLD + 1) + rank) * N + t * R + lane, dot_rows(a, x, t, K, R, BK))
        here = mine.to(tl.pointer_type(tl.int32)) + p * FLAG
        while tl.atomic_cas(here, -1, -1, sem="acquire", scope="sys") < epoch * (WORLD - 1):
            pass
        tl.debug_barrier()
        for t in range(p, tiles, wgs):
            if t * WORLD // tiles == rank:
                total = tl.zeros((R,), dtype=tl.float32)
                for s in range(WORLD):
                    total += tl.load(mine + flags + (half * (WORLD + 1) + s) * N + t * R + lane, volatile=True)
                for s in range(WORLD):
                    theirs = tl.load(targets + (rank + s) % WORLD).to(tl.pointer_type(tl.float32))
                    tl.store(theirs + flags + (half * (WORLD + 1) + WORLD) * N + t * R + lane, total)
        tl.debug_barrier()
        for s in range(1, WORLD):
            theirs = tl.load(targets + (rank + s) % WORLD).to(tl.pointer_type(tl.int32))
            tl.atomic_add(theirs + (1024 + p) * FLAG, 1, sem="release", scope="sys")
        while tl.atomic_cas(here + 1024 * FLAG, -1, -1, sem="acquire", scope="sys") < epoch * (WORLD - 1):
            pass
        tl.store(epochs + p, epoch)
    else:
        for t in range(p, tiles, wgs):
            tl.store(y + t * R + lane, dot_rows(a, x, t, K, R, BK))


def graphed(work):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        work()
    return graph.replay


def gemvs(lab, book):
    import torch.distributed._symmetric_memory as symm
    w, count = lab.world, 40
    for n, k, programs in GEMVS:
        tiles = n // ROWS
        a = torch.randn(n, k, device=lab.device, dtype=torch.bfloat16)
        x, y = torch.randn(k, device=lab.device, dtype=torch.bfloat16), torch.empty(n, device=lab.device)
        size = 2 * 1024 * 32 + 2 * (w + 1) * n
        buffer = symm.empty(size, dtype=torch.float32, device=lab.device)
        handle = symm.rendezvous(buffer, dist.group.WORLD)
        buffer.zero_()
        targets = torch.tensor(handle.buffer_ptrs, dtype=torch.int64, device=lab.device)
        epochs = torch.zeros(1024, dtype=torch.int32, device=lab.device)
        torch.cuda.synchronize()
        dist.barrier(group=lab.host)

        def launch(fused):
            gemv_ar_k[(programs,)](a, x, y, targets, epochs, k, tiles, lab.rank, WORLD=w, FUSED=fused, N=n, R=ROWS, BK=128, FLAG=32, num_warps=4)

        def bulk():
            launch(False)
            dist.all_reduce(y)

        bulk()
        wanted = y.clone()
        launch(True)
        torch.cuda.synchronize()
        sums = buffer[2 * 1024 * 32:].view(2, w + 1, n)[1, w]  # the first launch's epoch is 1
        lab.say(f"fused equals bulk: {torch.allclose(sums, wanted, rtol=1e-3, atol=1e-2)}, far by {(sums - wanted).abs().max().item()}")
        wl = {"name": "gemv", "kind": "gemv+collective", "n": n, "k": k, "dtype": "bf16", "collective": "all_reduce", "bytes": 4 * n, "tiles": tiles, "same_build": True}
        trace = f"traces/bulk_triton_gemv_n{n}_k{k}_w{w}"
        record(lab, os.path.basename(trace), bulk, 6)
        for strategy, work in ("bulk", bulk), ("fused", lambda: launch(True)):
            params = {"programs": programs}
            book.row(wl, strategy, params, lab.time(work), trace)
            book.row(wl, strategy, params | {"graph": True}, lab.time(graphed(work)), trace)
            book.row(wl, strategy, params | {"iterations": count, "queued": False}, lab.time(lambda: [work() for _ in range(count)], head_us=0, warm=1), trace, per=count)
        if programs != 132:
            mm = torch.empty(n, device=lab.device, dtype=torch.bfloat16)

            def library():
                torch.mv(a, x, out=mm)
                dist.all_reduce(mm)

            wl = {"name": "gemv", "kind": "gemv+collective", "n": n, "k": k, "dtype": "bf16", "collective": "all_reduce", "bytes": 2 * n}
            trace = f"traces/bulk_gemv_n{n}_k{k}_w{w}"
            record(lab, os.path.basename(trace), library, 6)
            book.row(wl, "bulk", {}, lab.time(library), trace)
            book.row(wl, "bulk", {"graph": True}, lab.time(graphed(library)), trace)
            book.row(wl, "bulk", {"iterations": count, "queued": False}, lab.time(lambda: [library() for _ in range(count)], head_us=0, warm=1), trace, per=count)
        del a, buffer, handle
        torch.cuda.empty_cache()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    lab = Lab(argparse.Namespace(machine=None, iterations=11, out=args.out))
    book = Book(lab, "w")
    gemvs(lab, book)
    dist.barrier(group=lab.host)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
