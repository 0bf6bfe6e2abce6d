"""How long a library GEMM takes while a kernel that only waits holds some SMs: python3 held.py"""
import json, os, statistics, sys, time
import torch, cupy
src = r'''
extern "C" __global__ void hold(unsigned* ids, volatile int* stop, long long cycles) {
  if (threadIdx.x == 0) { unsigned r; asm volatile("mov.u32 %0, %smid;" : "=r"(r)); ids[blockIdx.x] = r; }
  long long t = clock64(); while (clock64() - t < cycles) __nanosleep(200);
}'''
hold = cupy.RawKernel(src, "hold"); hold.max_dynamic_shared_size_bytes = 200 * 1024
ids = cupy.zeros(256, dtype=cupy.uint32); stop = cupy.zeros(1, dtype=cupy.int32)
side = cupy.cuda.Stream(non_blocking=True)
for m, n, k in (2048, 4096, 7168), (8192, 4096, 7168), (4096, 2048, 14336), (8192, 2048, 14336), (2048, 8192, 7168), (8192, 8192, 7168), (1024, 12288, 24576), (2048, 3072, 4096), (8192, 4096, 3584), (2048, 4256, 4256):
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16); b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16); c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    for _ in range(3): torch.mm(a, b, out=c)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
        torch.mm(a, b, out=c); torch.cuda.synchronize()
    names = [(e.key, e.count) for e in p.key_averages()]
    row = {"m": m, "n": n, "k": k, "kernels": names, "us": {}}
    for held in (0, 1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64):
        us = []
        for _ in range(7):
            torch.cuda.synchronize()
            torch.cuda._sleep(100000)
            if held:
                with side: hold((held,), (512,), (ids, stop, cupy.int64(5_000_000)), shared_mem=100 * 1024)
                time.sleep(0.0004)
            s, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            s.record(); torch.mm(a, b, out=c); e.record(); e.synchronize()
            us.append(s.elapsed_time(e) * 1e3)
            side.synchronize()
        row["us"][held] = [round(x, 1) for x in sorted(us)]
    print(json.dumps(row), flush=True)
