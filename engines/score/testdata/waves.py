# Times a GEMM with an all-reduce of its output on two GPUs: one after the other, in chunks of rows, and counted in groups
# of waves as FlashOverlap does (one GEMM, a waiting kernel and a call of NCCL on an urgent stream for each group; tiles are
# stored in the order in which they leave). Prints one JSON row a line, in us, the mean of 30 in a loop.
import json

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import triton
import triton.language as tl

BM, BN, BK, GROUP, SMS = 256, 128, 64, 8, 132


@triton.jit
def matmul(a, b, c, count, size, first, N, K, SIGNAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    p, cols = tl.program_id(0), N // BN
    wide = GROUP * cols
    row, col = p // wide * GROUP + (p % wide) % GROUP, (p % wide) // GROUP
    rm, rn, rk = row * BM + tl.arange(0, BM), col * BN + tl.arange(0, BN), tl.arange(0, BK)
    A, B = a + rm[:, None] * K + rk[None, :], b + rn[None, :] * K + rk[:, None]
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(tl.load(A), tl.load(B), acc)
        A += BK
        B += BK
    tl.store(c + (first + p) * BM * BN + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :], acc.to(tl.float16))
    if SIGNAL:
        tl.debug_barrier()
        tl.atomic_add(count + p // size, 1, sem="release")


@triton.jit
def wait(count, i, n):
    v = tl.atomic_add(count + i, 0, sem="acquire")
    while v < n:
        v = tl.atomic_add(count + i, 0, sem="acquire")
    tl.atomic_xchg(count + i, 0)


def run(rank, _):
    options = dist.ProcessGroupNCCL.Options()
    options.is_high_priority_stream = True
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2, init_method="tcp://127.0.0.1:29511", pg_options=options)
    comm, tile = torch.cuda.Stream(priority=-5), BM * BN
    for M, N, K in ((8192, 8192, 2048), (8192, 8192, 4096), (8192, 8192, 8192), (16384, 8192, 4096)):
        tiles = M // BM * (N // BN)
        a, b = (torch.randn(x, K, device="cuda").half() * 0.5 for x in (M, N))
        c, count = torch.empty(M * N, device="cuda", dtype=torch.half), torch.zeros(256, device="cuda", dtype=torch.int32)

        def gemm(size=0, first=0, n=tiles):
            matmul[(n,)](a[first * BM // (N // BN):], b, c, count, max(size, 1), first, N, K, size > 0, BM, BN, BK, GROUP, num_stages=3, num_warps=8)

        def bulk():
            gemm()
            dist.all_reduce(c)

        def waves(n):
            size = -(-(-(-tiles // SMS)) // n) * SMS
            gemm(size)
            with torch.cuda.stream(comm):
                for i in range(-(-tiles // size)):
                    m = min(size, tiles - i * size)
                    wait[(1,)](count, i, m, num_warps=1)
                    dist.all_reduce(c[i * size * tile:(i * size + m) * tile])
            torch.cuda.current_stream().wait_stream(comm)

        def chunks(n):
            for i in range(n):
                gemm(0, i * tiles // n, tiles // n)
                comm.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(comm):
                    dist.all_reduce(c[i * tiles // n * tile:(i + 1) * tiles // n * tile])
            torch.cuda.current_stream().wait_stream(comm)

        cases = {"gemm": gemm, "ar": lambda: dist.all_reduce(c), "bulk": bulk}
        cases |= {f"chunks{n}": lambda n=n: chunks(n) for n in (2, 4)}
        cases |= {f"waves{n}": lambda n=n: waves(n) for n in (2, 4, 8, 16)}
        cases["bulk again"] = bulk
        row = {"row": "waves", "m": M, "n": N, "k": K, "tiles": tiles}
        for name, f in cases.items():
            for _ in range(5):
                f()
            torch.cuda.synchronize()
            dist.barrier()
            torch.cuda.synchronize()
            events = [torch.cuda.Event(enable_timing=True) for _ in range(31)]
            events[0].record()
            for e in events[1:]:
                f()
                e.record()
            torch.cuda.synchronize()
            row[name] = round(events[0].elapsed_time(events[30]) / 30 * 1e3, 1)
        if rank == 0:
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    mp.spawn(run, (0,), 2)
