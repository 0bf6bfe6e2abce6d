"""When a library GEMM frees its SMs, and what kernels that hold SMs cost the next one."""
import json, os, sys, time
import torch, cupy
out = open(os.path.join(sys.argv[1], "tail.jsonl"), "w")
src = r'''
__device__ __forceinline__ unsigned long long now() { unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
extern "C" __global__ void hold(unsigned long long* o, long long ns) {
  unsigned long long t = now();
  if (threadIdx.x == 0) { unsigned r; asm volatile("mov.u32 %0, %smid;" : "=r"(r)); o[2 * blockIdx.x] = t; o[2 * blockIdx.x + 1] = r; }
  while (now() - t < ns) __nanosleep(100);
}
extern "C" __global__ void stamp(unsigned long long* o) { o[0] = now(); }
'''
hold = cupy.RawKernel(src, "hold"); hold.max_dynamic_shared_size_bytes = 200 * 1024
stamp = cupy.RawKernel(src, "stamp")
main = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
ts = torch.cuda.Stream(); torch.cuda.set_stream(ts); main = cupy.cuda.ExternalStream(ts.cuda_stream)
a_, b_ = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
st = [cupy.zeros(2, dtype=cupy.uint64) for _ in range(4)]
h1, h2 = cupy.zeros(400, dtype=cupy.uint64), cupy.zeros(400, dtype=cupy.uint64)
def spin(us):
    t = time.perf_counter()
    while time.perf_counter() - t < us * 1e-6: pass
def till(t):
    while time.perf_counter() < t: pass
def mark(i):
    with main: stamp((1,), (1,), (st[i],))
def put(stream, buf, n, us):
    with stream: hold((n,), (512,), (buf, cupy.int64(int(us * 1000))), shared_mem=100 * 1024)
def say(**k): out.write(json.dumps(k) + "\n"); out.flush()
def blocks(buf, n, t0): 
    v = buf.get()[:2 * n]; return sorted((round((int(v[2 * i]) - t0) / 1e3, 1), int(v[2 * i + 1])) for i in range(n))
SHAPES = [(2048, 4096, 7168), (4096, 2048, 14336), (2048, 4256, 4256), (2048, 8192, 7168), (1024, 12288, 24576), (8192, 4096, 7168), (8192, 8192, 7168), (2048, 3072, 4096), (4096, 8192, 8192), (2048, 5120, 3456), (1024, 8192, 7168), (4096, 3072, 6144)]
for m, n, k in SHAPES:
    A = torch.randn(m, k, device="cuda", dtype=torch.bfloat16); B = torch.randn(k, n, device="cuda", dtype=torch.bfloat16); C = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    mm = lambda: torch.mm(A, B, out=C)
    for _ in range(3): mm()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
        mm(); torch.cuda.synchronize()
    names = [(e.key, e.count) for e in p.key_averages()]
    base = dict(m=m, n=n, k=k, kernels=names)
    alone = []
    for _ in range(7):
        torch.cuda._sleep(100000); mark(0); mm(); mark(1); torch.cuda.synchronize(); alone.append((int(st[1].get()[0]) - int(st[0].get()[0])) / 1e3)
    g = sorted(alone)[3]
    # 1. when each SM comes free: a kernel of one block an SM, launched while the GEMM runs
    for rep in range(2):
        at = time.perf_counter(); torch.cuda._sleep(200000); mark(0); mm(); mark(1); till(at + 125e-6)
        put(b_, h2, 132, g + 200); torch.cuda.synchronize()
        t0 = int(st[0].get()[0]); say(what="freed", gemm=round((int(st[1].get()[0]) - t0) / 1e3, 1), alone=g, blocks=blocks(h2, 132, t0), **base)
    # 2. SMs held first, for a fraction of the GEMM
    for held in (4, 8, 16, 24):
        for frac in (0.25, 0.65, 1.05, 3):
            us = []
            for rep in range(5):
                put(a_, h1, held, 80 + g * frac); spin(40); torch.cuda._sleep(60000); mark(0); mm(); mark(1); torch.cuda.synchronize()
                t0 = int(st[0].get()[0]); hb = blocks(h1, held, t0)
                us.append((round((int(st[1].get()[0]) - t0) / 1e3, 1), round(hb[0][0] + 80 + g * frac, 1)))
            say(what="held", held=held, frac=frac, gemm_and_until=sorted(us), sms=[s for _, s in hb], alone=g, **base)
    # 3. SMs taken in the tail of one GEMM, held into the next
    for held in (4, 8, 16, 24):
        for frac in (0.5, 1.0):
            rows = []
            for rep in range(3):
                at = time.perf_counter(); torch.cuda._sleep(200000); mark(0); mm(); mark(1); mm(); mark(2); till(at + 125e-6)
                put(a_, h1, held, g * frac); torch.cuda.synchronize()
                t0, t1, t2 = (int(st[i].get()[0]) for i in range(3))
                hb = blocks(h1, held, t0)
                rows.append(dict(g1=round((t1 - t0) / 1e3, 1), g2=round((t2 - t1) / 1e3, 1), starts=[x for x, _ in hb], sms=[s for _, s in hb]))
            say(what="tail", held=held, frac=frac, rows=rows, alone=g, **base)
print("done")
