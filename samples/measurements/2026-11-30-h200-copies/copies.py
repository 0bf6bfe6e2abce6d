"""Weights streamed from pinned memory before each of eight GEMMs: on the stream of compute, and a layer ahead on another.

usage: OUT=folder python3 copies.py
"""
import torch, json, os, time
from torch.profiler import profile, schedule
out = os.environ["OUT"]
torch.set_grad_enabled(False)
N, L = 8192, 8
w = [torch.randn(N, N, dtype=torch.bfloat16).pin_memory() for _ in range(L)]
bufs = [torch.empty(N, N, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
side = torch.cuda.Stream()
rows = []
def serial(x):
    for i in range(L):
        bufs[i % 2].copy_(w[i], non_blocking=True)
        x = x @ bufs[i % 2]
    return x
copied = [torch.cuda.Event() for _ in range(L + 1)]
computed = [torch.cuda.Event() for _ in range(L + 1)]
def ahead(x):
    main = torch.cuda.current_stream()
    def fetch(i):
        with torch.cuda.stream(side):
            if i >= 2: side.wait_event(computed[i - 2])
            bufs[i % 2].copy_(w[i], non_blocking=True)
            copied[i].record()
    side.wait_stream(main)
    fetch(0)
    for i in range(L):
        if i + 1 < L: fetch(i + 1)
        main.wait_event(copied[i])
        x = x @ bufs[i % 2]
        computed[i].record()
    return x
def timed(f, x, n=20):
    for _ in range(5): f(x)
    torch.cuda.synchronize()
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    t = []
    for _ in range(5):
        a.record()
        for _ in range(n): f(x)
        b.record(); torch.cuda.synchronize()
        t.append(a.elapsed_time(b) * 1e3 / n)
    return sorted(t)
for M in (1024, 8192, 16384):
    x = torch.randn(M, N, dtype=torch.bfloat16, device="cuda") / 100
    for name, f in (("serial", serial), ("ahead", ahead)):
        t = timed(f, x)
        row = dict(m=M, schedule=name, us=t[2], min_us=t[0], max_us=t[-1])
        print(row, flush=True); rows.append(row)
        with profile(record_shapes=True, schedule=schedule(wait=1, warmup=2, active=3, repeat=1),
                     on_trace_ready=lambda p: p.export_chrome_trace(f"{out}/{name}_{M}.json.gz")) as prof:
            for i in range(6):
                f(x)
                if i == 2: torch.cuda.synchronize()
                prof.step()
            torch.cuda.synchronize()
def h2d(x):
    bufs[0].copy_(w[0], non_blocking=True)
t = timed(h2d, None); rows.append(dict(copy="pinned", bytes=N*N*2, us=t[2])); print(rows[-1])
p = torch.randn(N, N, dtype=torch.bfloat16)
def d2h(x): w[1].copy_(bufs[1], non_blocking=True)
t = timed(d2h, None); rows.append(dict(copy="d2h pinned", bytes=N*N*2, us=t[2])); print(rows[-1])
def pageable(x): bufs[0].copy_(p, non_blocking=True)
t = timed(pageable, None, 3); rows.append(dict(copy="pageable", bytes=N*N*2, us=t[2])); print(rows[-1])
for M in (1024, 8192, 16384):
    x = torch.randn(M, N, dtype=torch.bfloat16, device="cuda") / 100
    t = timed(lambda x: x @ bufs[0], x); rows.append(dict(gemm=M, us=t[2])); print(rows[-1])
print(torch.cuda.get_device_name(), torch.__version__)
json.dump(rows, open(f"{out}/rows.json", "w"))
