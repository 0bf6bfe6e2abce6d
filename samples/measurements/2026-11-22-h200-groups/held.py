"""Library GEMMs while some SMs are held, with finer steps and two footprints of the holder."""
import json, time, torch, cupy
src = r'''
extern "C" __global__ void hold(unsigned* ids, long long cycles) {
  if (threadIdx.x == 0) { unsigned r; asm volatile("mov.u32 %0, %smid;" : "=r"(r)); ids[blockIdx.x] = r; }
  long long t = clock64(); while (clock64() - t < cycles) __nanosleep(200);
}'''
hold = cupy.RawKernel(src, "hold"); hold.max_dynamic_shared_size_bytes = 200 * 1024
ids = cupy.zeros(256, dtype=cupy.uint32)
side = cupy.cuda.Stream(non_blocking=True)
for m, n, k in (2048, 4096, 7168), (4096, 2048, 14336), (2048, 4096, 28672), (2048, 4224, 14336), (2048, 4256, 8512), (2048, 2048, 14336), (8192, 4096, 7168):
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16); b = torch.randn(k, n, device="cuda", dtype=torch.bfloat16); c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    for _ in range(3): torch.mm(a, b, out=c)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
        torch.mm(a, b, out=c); torch.cuda.synchronize()
    names = [e.key for e in p.key_averages() if "nvjet" in e.key or "emset" in e.key]
    for threads, shared in ((512, 100), (640, 100), (512, 200)):
        row = {"m": m, "n": n, "k": k, "kernels": names, "hold": [threads, shared], "us": {}, "sms": {}}
        for held in (0, 1, 2, 3, 4, 5, 6, 8, 12, 16):
            us = []
            for _ in range(5):
                torch.cuda.synchronize(); torch.cuda._sleep(100000)
                if held:
                    with side: hold((held,), (threads,), (ids, cupy.int64(4_000_000)), shared_mem=shared * 1024)
                    time.sleep(0.0004)
                s, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                s.record(); torch.mm(a, b, out=c); e.record(); e.synchronize()
                us.append(s.elapsed_time(e) * 1e3)
                side.synchronize()
            row["us"][held] = [round(x, 1) for x in sorted(us)]
            row["sms"][held] = sorted(int(i) for i in ids[:held])
        print(json.dumps(row), flush=True)
