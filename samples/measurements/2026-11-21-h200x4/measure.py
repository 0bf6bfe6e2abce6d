"""Micro-benchmarks behind h200-2026-11-21.jsonl: python3 measure.py, on a host with 4 GPUs; rows go to $OUT/rows.jsonl.

Collectives are timed by events behind a sleeping kernel, so that the host is never late; gaps and small collectives by
the profiler. Every time is the slowest rank's, the median of 5 to 9 repetitions after two that do not count.
"""
import os, json, time, statistics, sys, traceback
import torch, torch.distributed as dist, torch.multiprocessing as mp

OUT = os.environ.get("OUT", ".")
T0 = time.time()

def main(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK=str(rank), WORLD_SIZE=str(world), NCCL_NVLS_ENABLE="0")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    f = open(f"{OUT}/rows.jsonl", "a") if rank == 0 else None

    def emit(**row):
        if f:
            f.write(json.dumps(row) + "\n"); f.flush()

    def gather(us, n=world):
        t = torch.tensor(us, device="cuda", dtype=torch.float64)
        dist.all_reduce(t, op=dist.ReduceOp.MAX)
        return t.tolist()

    def section(fn):
        t = time.time()
        try:
            fn()
        except Exception as e:
            if rank == 0: traceback.print_exc()
        if rank == 0: print(fn.__name__, round(time.time() - t, 1), "s", flush=True)

    def group(ranks, ch):
        if ch == 0:
            return dist.new_group(ranks) if len(ranks) < world else dist.group.WORLD
        o = dist.ProcessGroupNCCL.Options()
        o.config.max_ctas = ch; o.config.min_ctas = ch
        return dist.new_group(ranks, pg_options=o)

    buf = torch.empty(512 << 20, dtype=torch.uint8, device="cuda").view(torch.bfloat16).fill_(0.5)
    buf2 = torch.empty(512 << 20, dtype=torch.uint8, device="cuda").view(torch.bfloat16).fill_(0.5)

    def call(op, n, g, w, async_op=False):
        a = buf[:n]; b = buf2[:n]
        if op == "all_reduce": return dist.all_reduce(a, group=g, async_op=async_op)
        if op == "reduce_scatter": return dist.reduce_scatter_tensor(b[: n // w], a, group=g, async_op=async_op)
        if op == "all_gather": return dist.all_gather_into_tensor(b, a[: n // w], group=g, async_op=async_op)
        return dist.all_to_all_single(b, a, group=g, async_op=async_op)

    def timed(fn, iters):
        ts = []
        for i in range(iters + 2):
            torch.cuda._sleep(400000)
            s, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            s.record(); fn(); e.record(); e.synchronize()
            if i >= 2: ts.append(s.elapsed_time(e) * 1e3)
        return ts

    def collectives(w, ops, sizes, chans):
        ranks = list(range(w))
        for ch in chans:
            g = group(ranks, ch)
            if rank < w:
                for op in ops:
                    for by in sizes:
                        ts = timed(lambda: call(op, by // 2, g, w), 5 if by > 64 << 20 else 9)
                        m = torch.tensor([statistics.median(ts), min(ts), max(ts)], device="cuda", dtype=torch.float64)
                        dist.all_reduce(m, op=dist.ReduceOp.MAX, group=g)
                        m = m.tolist()
                        emit(machine=f"h200x{w}", world=w, workload=dict(kind="collective", collective=op, bytes=by), strategy="isolated",
                             params=dict(channels=ch, queued=True) if ch else dict(queued=True), us=round(m[0], 2), min_us=round(m[1], 2), max_us=round(m[2], 2))
            dist.barrier()
            if ch and rank < w: dist.destroy_process_group(g)

    K, M = 1 << 10, 1 << 20
    ALL = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]
    SZ = [64*K, 256*K, M, 2*M, 4*M, 8*M, 16*M, 32*M, 64*M, 128*M, 256*M, 512*M]
    def world4(): collectives(4, ALL, [4*K, 16*K] + SZ, [0]); collectives(4, ALL, SZ, [1, 2, 4, 8, 12, 16, 24, 32])
    def world2(): collectives(2, ALL, [4*K, 16*K] + SZ, [0]); collectives(2, ALL, SZ, [1, 2, 4, 8, 12, 16, 24, 32])

    def kernels(prof):
        ev = [e for e in prof.profiler.kineto_results.events() if "CUDA" in str(e.device_type())]
        return sorted((e.start_ns(), e.start_ns() + e.duration_ns(), e.name()) for e in ev)

    def profiled(fn):
        fn(); torch.cuda.synchronize(); dist.barrier(); torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
            fn(); torch.cuda.synchronize()
        return kernels(p)

    def gaps():
        a = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16); c = torch.empty_like(a)
        small = torch.empty(64, device="cuda")
        s1, s2 = torch.cuda.Stream(), torch.cuda.Stream()
        def same():
            torch.cuda._sleep(3_000_000)
            for _ in range(20): torch.mm(a, a, out=c)
        def memset():
            torch.cuda._sleep(3_000_000)
            for _ in range(20):
                torch.mm(a, a, out=c); small.zero_()
        def hops():
            with torch.cuda.stream(s1): torch.cuda._sleep(4_000_000)
            s = s1
            for i in range(20):
                with torch.cuda.stream(s): torch.mm(a, a, out=c)
                o = s2 if s is s1 else s1
                o.wait_stream(s); s = o
        for name, fn in (("same", same), ("memset", memset), ("hops", hops)):
            k = [x for x in profiled(fn) if "spin" not in x[2]]
            d = [y[0] - x[1] for x, y in zip(k, k[1:])]
            emit(machine="h200x1", world=1, workload=dict(kind="gap", what=name), strategy="isolated", params=dict(kernels=len(k), gaps_ns=d[:40], durs_ns=[x[1]-x[0] for x in k][:10], names=[x[2][:20] for x in k[:3]]), us=round(statistics.median(d) / 1e3, 3) if d else 0)

    def coll_gaps():
        a = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16); c = torch.empty_like(a)
        for nbytes in (16*K, 64*K, 256*K, M, 4*M, 16*M):
            for op in ALL:
                def fn():
                    torch.cuda._sleep(4_000_000)
                    for _ in range(8):
                        torch.mm(a, a, out=c)
                        call(op, nbytes // 2, None, world)
                k = [x for x in profiled(fn) if "spin" not in x[2]]
                g = [x for x in k if "nccl" in x[2]]; m = [x for x in k if "nccl" not in x[2]]
                if len(g) != 8 or len(m) != 8: 
                    if rank == 0: print("odd", op, nbytes, len(g), len(m), [x[2][:30] for x in k[:4]])
                    continue
                st = torch.tensor([[x[0] for x in g], [x[1] for x in g]], device="cuda", dtype=torch.int64)
                ls = [torch.empty_like(st) for _ in range(world)]; dist.all_gather(ls, st)
                tr = [ (min(l[1][i].item() for l in ls) - max(l[0][i].item() for l in ls)) / 1e3 for i in range(8)]
                emit(machine=f"h200x{world}", world=world, workload=dict(kind="collective_kernel", collective=op, bytes=nbytes), strategy="isolated",
                     params=dict(name=g[0][2][:60], transfer_us=[round(x, 2) for x in tr], dur_us=[round((x[1]-x[0])/1e3, 2) for x in g], before_us=[round((y[0]-x[1])/1e3, 2) for x, y in zip(m, g)], after_us=[round((y[0]-x[1])/1e3, 2) for x, y in zip(g, m[1:])]),
                     us=round(statistics.median(tr), 2))

    def host():
        a = torch.randn(256, 256, device="cuda", dtype=torch.bfloat16); c = torch.empty_like(a)
        s2 = torch.cuda.Stream()
        def ev():
            e = torch.cuda.Event(); e.record(); s2.wait_event(e)
        def coll(): call("all_reduce", 8 * K, None, world, async_op=True)
        def collwait(): call("all_reduce", 8 * K, None, world, async_op=True).wait()
        for name, fn in (("mm", lambda: torch.mm(a, a, out=c)), ("add", lambda: c.add_(1)), ("zero", lambda: c.zero_()), ("event", ev), ("collective_async", coll), ("collective_async_wait", collwait), ("collective_sync", lambda: call("all_reduce", 8 * K, None, world))):
            res = []
            for _ in range(5):
                dist.barrier(); torch.cuda.synchronize()
                torch.cuda._sleep(20_000_000)
                t = time.perf_counter()
                for _ in range(50): fn()
                res.append((time.perf_counter() - t) / 50 * 1e6)
                torch.cuda.synchronize()
            emit(machine=f"h200x{world}", world=world, workload=dict(kind="host_issue", what=name), strategy="isolated", params={}, us=round(statistics.median(res), 2), min_us=round(min(res), 2), max_us=round(max(res), 2))

    def stores():
        import triton, triton.language as tl
        import torch.distributed._symmetric_memory as sm
        n = 64 << 20
        t = sm.empty(n // 2, dtype=torch.bfloat16, device="cuda")
        h = sm.rendezvous(t, dist.group.WORLD)
        local = torch.empty(n // 2, dtype=torch.bfloat16, device="cuda")
        kern = stores_kernel()
        for what in ("local", "ring", "incast"):
            peer = {"local": rank, "ring": (rank + 1) % world, "incast": 0}[what]
            dst = h.get_buffer(peer, (n // 2,), torch.bfloat16)
            for progs in (1, 2, 4, 8, 16, 33, 66, 132):
                for tiles in (1, 2, 4, 16, 64):
                    if progs * tiles * 65536 > n: continue
                    dist.barrier(); torch.cuda.synchronize()
                    k = []
                    def fn():
                        for _ in range(5): kern[(progs,)](dst, tiles, num_warps=8)
                    k = [x for x in profiled(fn) if "store" in x[2]]
                    d = [x[1] - x[0] for x in k]
                    m = torch.tensor([statistics.median(d), min(d), max(d)] if d else [0., 0., 0.], device="cuda", dtype=torch.float64)
                    dist.all_reduce(m, op=dist.ReduceOp.MAX); m = m.tolist()
                    emit(machine=f"h200x{world}", world=world, workload=dict(kind="tile_store", pattern=what, bytes=progs * tiles * 65536, tile_bytes=65536), strategy="isolated", params=dict(programs=progs, tiles=tiles), us=round(m[0] / 1e3, 3), min_us=round(m[1] / 1e3, 3), max_us=round(m[2] / 1e3, 3))
        def bar():
            for _ in range(10): h.barrier(channel=0)
        k = profiled(bar); d = [x[1] - x[0] for x in k]
        emit(machine=f"h200x{world}", world=world, workload=dict(kind="symm_barrier"), strategy="profiled", params=dict(name=k[0][2][:60], dur_us=[x / 1e3 for x in d]), us=round(statistics.median(d) / 1e3, 2))

    for s in (host, gaps, coll_gaps, world4, world2, stores): section(s)
    dist.barrier(); torch.cuda.synchronize()
    dist.destroy_process_group()

def stores_kernel():
    import triton, triton.language as tl
    import importlib.util
    src = '''
import triton, triton.language as tl
@triton.jit
def store_tiles(dst, tiles):
    pid = tl.program_id(0)
    offs = tl.arange(0, 128)[:, None] * 256 + tl.arange(0, 256)[None, :]
    for i in range(tiles):
        base = (pid * tiles + i) * 32768
        v = (offs + i).to(tl.bfloat16)
        tl.store(dst + base + offs, v)
'''
    p = f"/tmp/store_tiles_{os.getpid()}.py"; open(p, "w").write(src)
    spec = importlib.util.spec_from_file_location("store_tiles_mod", p); m = importlib.util.module_from_spec(spec); spec.loader.exec_module(m)
    return m.store_tiles

if __name__ == "__main__":
    w = torch.cuda.device_count()
    open(f"{OUT}/env.txt", "w").write(f"{torch.__version__} cuda {torch.version.cuda} nccl {torch.cuda.nccl.version()} gpus {w} {torch.cuda.get_device_name(0)} {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime())}\n")
    mp.spawn(main, args=(w,), nprocs=w)
    print("total", time.time() - T0)
