#!/usr/bin/env python3
"""Records kernels of many kinds on one GPU, as PyTorch's profiler sees them.

usage: kernels.py OUT.json.gz

The same program on two GPUs gives the truth for durations that are predicted from one for the other. Every case runs
ITERATIONS times under a range "case NAME"; operands rotate through more memory than the L2 cache has, as a model's
weights do. Cases "graph ..." replay a captured graph of decode layers, of which a profile has names and grids only.
"""
import gzip, json, sys, tempfile, os
import torch
import torch.nn.functional as F
from torch.profiler import profile, ProfilerActivity, record_function

ITERATIONS = 7
dev = torch.device('cuda')
bf16 = torch.bfloat16
cases = []


def case(name):
    def add(f):
        cases.append((name, f))
        return f
    return add


def rotating(make, size):
    """Returns a function that gives one of several equal operands in turn, of 400 MB together."""
    n = max(2, min(32, int(4e8 // max(size, 1)) + 1))
    all_ = [make() for _ in range(n)]
    at = [0]

    def nxt():
        at[0] = (at[0] + 1) % n
        return all_[at[0]]
    return nxt


def gemms():
    for n, k in [(4096, 4096), (6144, 4096), (28672, 4096), (4096, 14336), (8192, 8192), (1280, 8192), (8192, 1024)]:
        for m in [1, 4, 16, 32, 64, 128, 256, 512, 2048, 8192]:
            def make(m=m, n=n, k=k):
                w = rotating(lambda: torch.randn(n, k, device=dev, dtype=bf16) / 64, n * k * 2)
                x = torch.randn(m, k, device=dev, dtype=bf16)
                return lambda: F.linear(x, w())
            cases.append((f'gemm m={m} n={n} k={k}', make))


def lookups():
    for rows in [100_000, 4_000_000]:
        for width in [32, 64, 128, 256]:
            for pool in [1, 10, 50]:
                def make(rows=rows, width=width, pool=pool):
                    t = torch.randn(rows, width, device=dev)
                    bags = 400_000 // pool if pool > 1 else 200_000
                    i = rotating(lambda: torch.randint(0, rows, (bags, pool), device=dev), 1 << 27)
                    return lambda: F.embedding_bag(i(), t, mode='sum')
                cases.append((f'bag rows={rows} width={width} pool={pool}', make))
    for rows, width in [(32_000, 4096), (4_000_000, 64)]:
        def make(rows=rows, width=width):
            t = torch.randn(rows, width, device=dev, dtype=bf16)
            i = rotating(lambda: torch.randint(0, rows, (16384,), device=dev), 1 << 27)
            return lambda: F.embedding(i(), t)
        cases.append((f'embedding rows={rows} width={width}', make))

        def scatter(rows=rows, width=width):
            t = torch.zeros(rows, width, device=dev)
            i = rotating(lambda: torch.randint(0, rows, (65536,), device=dev), 1 << 27)
            s = torch.randn(65536, width, device=dev)
            return lambda: t.index_add_(0, i(), s)
        cases.append((f'index_add rows={rows} width={width}', scatter))


def pointwise():
    for mb in [0.125, 1, 8, 32, 128, 512]:
        n = int(mb * 2**20) // 2
        size = n * 2

        def two(f, n=n, size=size):
            def make():
                a = rotating(lambda: torch.randn(n, device=dev, dtype=bf16), size)
                return lambda: f(a(), a())
            return make
        cases.append((f'add mb={mb}', two(lambda a, b: a + b)))
        cases.append((f'gelu mb={mb}', two(lambda a, b: F.gelu(a))))
        cases.append((f'silu mb={mb}', two(lambda a, b: F.silu(a))))
        cases.append((f'copy mb={mb}', two(lambda a, b: a.copy_(b))))
        cases.append((f'fill mb={mb}', two(lambda a, b: a.zero_())))
        cases.append((f'float mb={mb}', two(lambda a, b: a.float())))
        rows = max(1, n // 4096)
        view = lambda a, rows=rows: a[:rows * 4096].view(rows, 4096)
        cases.append((f'softmax mb={mb}', two(lambda a, b, v=view: torch.softmax(v(a), -1))))
        cases.append((f'layernorm mb={mb}', two(lambda a, b, v=view: F.layer_norm(v(a), (4096,)))))
        cases.append((f'sum mb={mb}', two(lambda a, b, v=view: v(a).sum(-1))))
        cases.append((f'transpose mb={mb}', two(lambda a, b, v=view: v(a).t().contiguous())))
        cases.append((f'cumsum mb={mb}', two(lambda a, b, v=view: torch.cumsum(v(a), -1))))
        if mb <= 128:
            cases.append((f'sort mb={mb}', two(lambda a, b: torch.sort(a))))
            cases.append((f'topk mb={mb}', two(lambda a, b, v=view: torch.topk(v(a), 8, -1))))


def optimizers():
    for mparams in [1, 30, 200]:
        def make(mparams=mparams):
            p = [torch.randn(mparams * 250_000, device=dev, requires_grad=True) for _ in range(4)]
            for q in p:
                q.grad = torch.randn_like(q)
            fused = torch.optim.AdamW(p, fused=True)
            each = torch.optim.AdamW(p, foreach=True)
            return lambda: (fused.step(), each.step())
        cases.append((f'adamw mparams={mparams}', make))


def attention():
    for b, s, causal in [(4, 4096, True), (16, 1024, True), (1, 16384, True)]:
        def make(b=b, s=s, causal=causal):
            q, k, v = (torch.randn(b, 16, s, 128, device=dev, dtype=bf16, requires_grad=True) for _ in range(3))

            def both():
                o = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                o.backward(o)
            return both
        cases.append((f'attention b={b} s={s}', make))
    for b, s in [(1, 1024), (16, 1024), (64, 4096), (8, 32768)]:
        def make(b=b, s=s):
            q = torch.randn(b, 32, 1, 128, device=dev, dtype=bf16)
            kv = rotating(lambda: torch.randn(2, b, 32, s, 128, device=dev, dtype=bf16), b * s * 32 * 128 * 4)

            def run():
                k, v = kv()
                F.scaled_dot_product_attention(q, k, v)
            return run
        cases.append((f'decode attention b={b} s={s}', make))


def convolutions():
    for c, side in [(64, 56), (256, 28), (512, 14)]:
        def make(c=c, side=side):
            x = torch.randn(64, c, side, side, device=dev, dtype=bf16).to(memory_format=torch.channels_last)
            w = torch.randn(c, c, 3, 3, device=dev, dtype=bf16).to(memory_format=torch.channels_last)
            bn = torch.nn.BatchNorm2d(c).cuda().to(bf16)
            return lambda: bn(F.conv2d(x, w, padding=1))
        cases.append((f'conv c={c} side={side}', make))


def graphs():
    for b, s in [(1, 1024), (32, 1024), (128, 2048)]:
        def make(b=b, s=s):
            h, ff, heads = 4096, 14336, 32
            w = [[torch.randn(*d, device=dev, dtype=bf16) / 64 for d in [(3 * h, h), (h, h), (2 * ff, h), (h, ff)]] for _ in range(3)]
            kv = [torch.randn(2, b, heads, s, 128, device=dev, dtype=bf16) for _ in range(3)]
            x = torch.randn(b, h, device=dev, dtype=bf16)

            def step():
                y = x
                for (qkv, o, up, down), (k, v) in zip(w, kv):
                    z = F.linear(F.rms_norm(y, (h,)), qkv)
                    q = z[:, :h].view(b, heads, 1, 128)
                    a = F.scaled_dot_product_attention(q, k, v).reshape(b, h)
                    y = y + F.linear(a, o)
                    u = F.linear(F.rms_norm(y, (h,)), up)
                    y = y + F.linear(F.silu(u[:, :ff]) * u[:, ff:], down)
                return y
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    step()
            torch.cuda.current_stream().wait_stream(side)
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g):
                step()
            keep.append((w, kv, x, g))
            return g.replay
        cases.append((f'graph decode b={b} s={s}', make))


keep = []


def main(out):
    torch.manual_seed(0)
    gemms(), lookups(), pointwise(), optimizers(), attention(), convolutions(), graphs()
    parts = []
    failed = 0
    for i in range(0, len(cases), 24):
        batch = []
        for name, make in cases[i:i + 24]:
            try:
                f = make()
                for _ in range(3):
                    f()
                torch.cuda.synchronize()
                batch.append((name, f))
            except Exception as e:
                failed += 1
                print('left out', name, str(e)[:200], flush=True)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as p:
            for name, f in batch:
                with record_function('case ' + name):
                    for _ in range(ITERATIONS):
                        f()
                torch.cuda.synchronize()
        path = tempfile.mktemp(suffix='.json')
        p.export_chrome_trace(path)
        d = json.load(open(path))
        os.remove(path)
        parts.append(d)
        del batch
        keep.clear()
        torch.cuda.empty_cache()
    head = parts[0]
    events = []
    corr = 0
    for d in parts:
        top = 0
        for e in d['traceEvents']:
            a = e.get('args') or {}
            for key in ('correlation', 'External id'):
                if isinstance(a.get(key), int) and a[key] > 0:
                    a[key] += corr
                    top = max(top, a[key])
            if e.get('cat') == 'ac2g' and isinstance(e.get('id'), int):
                e['id'] += corr
                top = max(top, e['id'])
            if e.get('cat') in ('cpu_op', 'kernel', 'gpu_memcpy', 'gpu_memset', 'cuda_runtime', 'cuda_driver', 'user_annotation', 'ac2g') or e.get('ph') == 'M' and d is head:
                events.append(e)
        corr = max(corr, top)
    head['traceEvents'] = events
    with gzip.GzipFile(out, 'wb', 9, mtime=0) as f:
        f.write(json.dumps(head, separators=(',', ':')).encode())
    print(len(cases), 'cases', failed, 'left out', len(events), 'events', os.path.getsize(out), 'bytes', torch.cuda.get_device_name())


main(sys.argv[1])
