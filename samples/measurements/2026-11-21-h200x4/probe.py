#!/usr/bin/env python3
"""What a collective's speed depends on besides its bytes and channels: the SM clock, where its workgroups sit, what
runs beside it; and who comes first when a collective and the next GEMM become ready together.

    python3 -m torch.distributed.run --nproc-per-node 4 probe.py OUT [SECTION...]

Sections: race, clock, place. Needs CuPy besides PyTorch. Uses beside.py, which lies in the same folder.
"""
import os
import statistics
import sys

import cupy
import torch
import torch.distributed as dist

import beside
from beside import GEMMS, MIB, Lab, collective, event, gemm, pair

SOURCE = r"""
extern "C" {
__device__ __forceinline__ unsigned long long now() { unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }
// One thread: every step ns the global timer and the SM's cycles.
__global__ void watch(unsigned long long* out, int n, unsigned long long step) {
  unsigned long long next = now();
  for (int i = 0; i < n; i++) {
    while (now() < next) __nanosleep(1000);
    next += step;
    out[2 * i] = now();
    out[2 * i + 1] = clock64();
  }
}
// One workgroup an SM; those on an SM of the set stay for ns.
__global__ void hold(const unsigned char* set, unsigned long long ns) {
  extern __shared__ char pad[];
  unsigned sm; asm volatile("mov.u32 %0, %smid;" : "=r"(sm));
  unsigned long long stay = set[sm] ? ns : 20000, from = now();
  while (now() - from < stay) __nanosleep(200);
}
}
"""


class Kernels:
    def __init__(self, lab):
        module = cupy.RawModule(code=SOURCE, options=("-std=c++17",))
        self.watch, self.hold = module.get_function("watch"), module.get_function("hold")
        self.hold.max_dynamic_shared_size_bytes = 200 * 1024
        self.watcher, self.holder = torch.cuda.Stream(), torch.cuda.Stream()
        self.lab = lab

    def watched(self, ms, step_us=100):
        """Starts watching the clock for so long; the answer gives [us since start, MHz] pairs after a synchronize."""
        n = int(ms * 1000 / step_us)
        out = torch.zeros(2 * n, dtype=torch.int64, device=self.lab.device)
        torch.cuda.synchronize()
        with cupy.cuda.ExternalStream(self.watcher.cuda_stream):
            self.watch((1,), (1,), (out.data_ptr(), n, step_us * 1000))

        def read():
            t = out.view(-1, 2).cpu().tolist()
            return [[round((b[0] - t[0][0]) / 1e3), round((b[1] - a[1]) / (b[0] - a[0]) * 1e3)] for a, b in zip(t, t[1:]) if b[0] > a[0]]

        return read

    def take(self, sms, us):
        chosen = torch.zeros(256, dtype=torch.uint8)
        chosen[sms] = 1
        chosen = chosen.to(self.lab.device)
        torch.cuda.current_stream().synchronize()
        with cupy.cuda.ExternalStream(self.holder.cuda_stream):
            self.hold((132,), (128,), (chosen.data_ptr(), int(us * 1000)), shared_mem=200 * 1024)
        return chosen


def race(lab):
    for name, op, ch in ("llama70b_fc2_tp4", "reduce_scatter", 8), ("llama70b_fc2_tp4", "reduce_scatter", None), ("llama70b_fc2_tp4", "all_reduce", None), ("tnlg_fc2_tp4", "reduce_scatter", 8), ("tnlg_fc2_tp4", "reduce_scatter", None), ("llama70b_fc2_tp4", "all_reduce", 8):
        work = pair(lab, name, op, 4, ch)
        for _ in range(3):
            work()
        for how in "aligned", "notick", "free", "freelong", "gap":
            n = 24

            def several(profiled=True):
                if how != "aligned":
                    lab.align(3000 if how != "freelong" else 8000)
                for _ in range(n):
                    if how == "aligned":
                        lab.align(500)
                    elif how == "notick":
                        torch.cuda.synchronize()
                        dist.barrier(group=lab.host)
                        torch.cuda._sleep(int(500 * lab.cycles))
                    elif how == "gap":
                        torch.cuda._sleep(int(200 * lab.cycles))
                    work()

            us = []
            if how.startswith("free"):
                for _ in range(4):
                    start, end = event(), event()
                    lab.align(3000 if how == "free" else 8000)
                    start.record()
                    for _ in range(n):
                        work()
                    end.record()
                    torch.cuda.synchronize()
                    us.append(start.elapsed_time(end) * 1e3 / n)
            elif how == "aligned":
                us = lab.time(work, n, 500)
            ranks, meta = lab.profile(several)
            lab.write("race", {"name": name, "op": op, "channels": ch, "how": how, "all_us": us, "ranks": ranks, "meta": meta})
            if lab.rank == 0:
                first = []
                for r in ranks:
                    g, c = [e for e in r if e[0] == "G"], [e for e in r if e[0] == "C"]
                    k = [0, 0, 0]
                    for i in range(n * 4):
                        if i % 4 == 3 or i < 4:
                            continue
                        before = c[i - 1][1] + c[i - 1][2] if i % 4 else 0
                        if before > g[i][1] + g[i][2] - 3:
                            continue
                        k[0 if c[i][1] < g[i + 1][1] else 1] += 1
                    first.append(k[:2])
                lab.say(f"race {name} {op} ch{ch} {how}: C first / G first by rank {first} us {statistics.median(us) if us else 0:.1f}")


def shared_clock(lab, k):
    """Collectives alone and beside GEMMs, cool and after heating, with the clock of every rank."""
    big = gemm(lab, 8192, 8192, 7168)
    chunk = gemm(lab, 2048, 8192, 7168)
    for op, size in ("all_reduce", 32), ("reduce_scatter", 32), ("all_reduce", 128), ("reduce_scatter", 8), ("all_to_all", 32):
        n = size * MIB // 2
        whole = torch.randn(n, device=lab.device, dtype=torch.bfloat16)
        part = torch.empty(n // 4, device=lab.device, dtype=torch.bfloat16)
        other = torch.empty_like(whole)
        for ch in 4, 8, 16, 24:
            for heat, near in (0, None), (0, "big"), (40, None), (40, "big"), (300, None), (300, "big"), (300, "chunk"), (0, "chunk"):
                if size in (128, 8) and heat == 40:
                    continue
                group = lab.group(ch)
                call = lambda: collective(lab, op, whole, part, other, group)
                reps = 12 if size < 100 else 6
                whole.normal_()
                each = 1400 if near == "big" else 360
                count = 0 if near is None else max(6, int(reps * 3 * (size / 32) * (1500 / ch + 800 * (near == "big") + 200) / each) + 3)
                read = []

                def work():
                    read.append(k.watched(12 + heat * 1.5 + (count * each / 1e3 if near else reps * 0.8 * (size / 32) * 4 / ch * 1.3)))
                    lab.align(300)
                    for _ in range(heat):
                        big()
                    pending = []
                    for i in range(max(1, count)):
                        if near:
                            (big if near == "big" else chunk)()
                        if i == 0:
                            lab.side.wait_stream(torch.cuda.current_stream())
                            with torch.cuda.stream(lab.side):
                                pending = [call() for _ in range(reps)]
                    for p in pending:
                        p.wait()

                import time
                time.sleep(0.12)
                ranks, meta = lab.profile(work)
                clocks = [None] * lab.world
                dist.all_gather_object(clocks, read[-1](), group=lab.host)
                if lab.rank == 0:
                    # the watcher starts a little before the first kernel: align both by their starts
                    keep = [[e for e in r if e[0] != "M"] for r in ranks]
                    keep = [r[:1] + r[max(1, heat - 3):] for r in keep]
                    lab.write("clock", {"op": op, "mib": size, "channels": ch, "heat": heat, "beside": near, "meta": meta, "ranks": keep, "mhz": [c[::2] for c in clocks]})
                    t = beside.transfers(ranks)
                    g = [e[2] for e in keep[0][1:] if e[0] == "G"]
                    inside = []
                    for c, r in zip(clocks, ranks):
                        cs = [e for e in r if e[0] == "C"]
                        t0 = r[0][1]
                        lo, hi = cs[0][1] - t0, cs[-1][1] + cs[-1][2] - t0
                        inside.append(round(statistics.median([m for u, m in c if lo <= u <= hi + 200] or [0])))
                    lab.say(f"clock {op} {size} ch{ch} heat {heat} beside {near}: C {statistics.median(t):.1f} ({min(t):.1f}..{max(t):.1f}) MHz {inside} G {statistics.median(g) if g else 0:.0f} n={len(g)}")


SETS = {
    "spread": lambda n: [(132 // n) // 2 * 2 * i for i in range(n)],
    "pairs": lambda n: [(132 // (n // 2)) // 2 * 2 * i + j for i in range(n // 2) for j in (0, 1)],
    "packed": lambda n: list(range(n)),
    "evens": lambda n: [2 * i for i in range(n)],
}


def place(lab, k):
    """A collective whose workgroups sit on chosen SMs: alone (the others held by idle workgroups, or free) and beside GEMMs."""
    big = gemm(lab, 8192, 8192, 7168)
    o = dist.ProcessGroupNCCL.Options()
    for op, size in ("reduce_scatter", 32), ("all_reduce", 32):
        n = size * MIB // 2
        whole = torch.randn(n, device=lab.device, dtype=torch.bfloat16)
        part = torch.empty(n // 4, device=lab.device, dtype=torch.bfloat16)
        for ch in 4, 8, 16:
            key = ch, "priority"
            if key not in lab.groups:
                o = dist.ProcessGroupNCCL.Options()
                o.is_high_priority_stream = True
                o.config.min_ctas = o.config.max_ctas = ch
                lab.groups[key] = dist.new_group(pg_options=o)
            group = lab.groups[key]
            call = lambda: collective(lab, op, whole, part, None, group)
            call().wait()
            for where in "free", *SETS:
                for near in None, "big":
                    if where == "free" and near:
                        continue
                    us = []
                    whole.normal_()

                    def work():
                        for _ in range(5):
                            lab.align(100)
                            torch.cuda.synchronize()
                            dist.barrier(group=lab.host)
                            sms = SETS[where](ch) if where != "free" else []
                            if where == "free":
                                call().wait()
                            elif near is None:
                                kept = k.take([s for s in range(132) if s not in sms], 4000)
                                torch.cuda._sleep(int(150 * lab.cycles))
                                call().wait()
                            else:
                                kept = k.take(sms, 1200)
                                torch.cuda._sleep(int(150 * lab.cycles))
                                lab.side.wait_stream(torch.cuda.current_stream())
                                with torch.cuda.stream(lab.side):
                                    torch.cuda._sleep(int(400 * lab.cycles))
                                    p = call()
                                for _ in range(3):
                                    big()
                                p.wait()
                            torch.cuda.synchronize()

                    ranks, meta = lab.profile(work)
                    lab.write("place", {"op": op, "mib": size, "channels": ch, "where": where, "beside": near, "meta": meta, "ranks": ranks})
                    if lab.rank == 0:
                        t = beside.transfers(ranks)
                        g = [e[2] for e in ranks[0] if e[0] == "G"]
                        lab.say(f"place {op} {size} ch{ch} {where} beside {near}: C {statistics.median(t):.1f} {t} G {g[:6]}")


def main():
    out, sections = sys.argv[1], sys.argv[2:]
    os.makedirs(out, exist_ok=True)
    lab = Lab(out)
    k = Kernels(lab)
    for s in sections:
        lab.say(s)
        {"race": lambda: race(lab), "clock": lambda: shared_clock(lab, k), "place": lambda: place(lab, k)}[s]()
    dist.barrier(group=lab.host)
    lab.say("done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
