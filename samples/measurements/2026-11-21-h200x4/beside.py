#!/usr/bin/env python3
"""Where the time goes when a NCCL collective runs beside cuBLAS GEMMs, on all ranks at once.

    python3 -m torch.distributed.run --nproc-per-node 4 beside.py OUT [SECTION...]

Sections: micro, hot, decompose, multistream. Writes OUT/SECTION.jsonl: per configuration the untraced times of the
slowest rank and every rank's kernels as the profiler saw them, [kind, start us, duration us]; kinds: G a GEMM,
C a collective, M a memset. Clocks of the ranks are the profiler's: align them by the ends of collectives.
"""
import datetime
import json
import math
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist

MIB = 1 << 20
GEMMS = {
    "llama70b_fc2_tp4": (8192, 8192, 7168),
    "tnlg_fc2_tp4": (8192, 4256, 4256),
    "moe_down": (8192, 4096, 3584),
}
CHUNKS = {"llama70b_chunk": (2048, 8192, 7168), "tnlg_chunk": (2048, 4256, 4256)}


class Lab:
    def __init__(self, out):
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(self.device)
        dist.init_process_group("nccl", timeout=datetime.timedelta(minutes=20))
        self.host = dist.new_group(backend="gloo", timeout=datetime.timedelta(minutes=20))
        self.groups, self.out, self.began = {None: dist.group.WORLD}, out, time.monotonic()
        self.side = torch.cuda.Stream()
        self.tick = torch.zeros(1, device=self.device)
        dist.all_reduce(self.tick)
        torch.cuda.synchronize()
        start, end = event(), event()
        for _ in range(2):
            start.record()
            torch.cuda._sleep(20_000_000)
            end.record()
            torch.cuda.synchronize()
        self.cycles = 20_000_000 / (start.elapsed_time(end) * 1e3)
        if self.rank == 0:
            open(os.path.join(out, "machine.json"), "w").write(json.dumps({
                "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "gpu": torch.cuda.get_device_properties(0).name, "gpus": self.world, "torch": torch.__version__,
                "cuda": torch.version.cuda, "nccl": ".".join(map(str, torch.cuda.nccl.version())),
                "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith("NCCL_")}}) + "\n")

    def say(self, text):
        if self.rank == 0:
            print(f"[{time.monotonic() - self.began:6.1f}] {text}", flush=True)

    def group(self, channels):
        if channels not in self.groups:
            o = dist.ProcessGroupNCCL.Options()
            o.config.min_ctas = o.config.max_ctas = channels
            self.groups[channels] = dist.new_group(pg_options=o)
        return self.groups[channels]

    def align(self, head_us):
        torch.cuda.synchronize()
        dist.barrier(group=self.host)
        torch.cuda._sleep(int(head_us * self.cycles))
        dist.all_reduce(self.tick)

    def time(self, work, n, head_us, before=None):
        us = []
        for _ in range(n):
            if before:
                before()
            start, end = event(), event()
            self.align(head_us)
            start.record()
            work()
            end.record()
            torch.cuda.synchronize()
            us.append(start.elapsed_time(end) * 1e3)
        ranks = [None] * self.world
        dist.all_gather_object(ranks, us, group=self.host)
        return [round(max(x), 2) for x in zip(*ranks)]

    def profile(self, work):
        """Every rank's kernels during work(), on rank 0."""
        torch.cuda.synchronize()
        dist.barrier(group=self.host)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
            work()
            torch.cuda.synchronize()
        with tempfile.NamedTemporaryFile(suffix=".json") as f:
            p.export_chrome_trace(f.name)
            found = json.load(open(f.name))["traceEvents"]
        mine, meta = [], {}
        for e in found:
            if e.get("cat") not in ("kernel", "gpu_memset"):
                continue
            name = e["name"]
            kind = "C" if name.startswith("nccl") else "M" if "emset" in name else "G" if "nvjet" in name or "gemm" in name.lower() else "O"
            if kind == "O":
                continue
            if kind == "C":
                meta.setdefault("C", [name[:50], e["args"]["grid"][0]])
                if e["dur"] > 0 and e["args"]["grid"][0] == 1 and "f32" in name.lower():
                    kind = "T"  # the tick of align
            elif kind == "G":
                meta.setdefault("G", [name, e["args"]["grid"], e["args"].get("stream")])
            mine.append([kind, float(e["ts"]), float(e["dur"])])
        mine.sort(key=lambda x: x[1])
        ranks = [None] * self.world
        dist.all_gather_object(ranks, (mine, meta), group=self.host)
        base = min(r[0][0][1] for r in ranks)
        return [[[k, round(t - base, 1), round(d, 1)] for k, t, d in r[0]] for r in ranks], ranks[0][1]

    def write(self, section, row):
        if self.rank == 0:
            with open(os.path.join(self.out, section + ".jsonl"), "a") as f:
                f.write(json.dumps(row, separators=(",", ":")) + "\n")


def event():
    return torch.cuda.Event(enable_timing=True)


def gemm(lab, m, n, k):
    a = torch.randn(m, k, device=lab.device, dtype=torch.bfloat16)
    b = torch.randn(k, n, device=lab.device, dtype=torch.bfloat16) / k**0.5
    c = torch.empty(m, n, device=lab.device, dtype=torch.bfloat16)
    return lambda: torch.mm(a, b, out=c)


def collective(lab, op, whole, part, other, group):
    match op:
        case "all_reduce":
            return dist.all_reduce(whole, group=group, async_op=True)
        case "reduce_scatter":
            return dist.reduce_scatter_tensor(part, whole, group=group, async_op=True)
        case "all_gather":
            return dist.all_gather_into_tensor(whole, part, group=group, async_op=True)
        case "all_to_all":
            return dist.all_to_all_single(other, whole, group=group, async_op=True)


def transfers(ranks):
    """Per collective: min duration over ranks, start skew and the fastest rank's wait. In order of start."""
    cs = [[e for e in r if e[0] == "C"] for r in ranks]
    n = min(map(len, cs))
    return [min(c[i][2] for c in cs) for i in range(n)]


def micro(lab, section, ops, sizes, channels, gemms, heat=0, reps=10):
    calls = {name: gemm(lab, *shape) for name, shape in gemms.items()}
    hot = gemm(lab, 8192, 8192, 7168) if heat else None
    each = {name: statistics.median(lab.time(f, 5, 200)) for name, f in calls.items()}
    for op in ops:
        for size in sizes:
            n = int(size * MIB) // 8 * 4
            whole = torch.randn(n, device=lab.device, dtype=torch.bfloat16)
            part = torch.empty(n // lab.world, device=lab.device, dtype=torch.bfloat16)
            other = torch.empty_like(whole)
            for ch in channels:
                group = lab.group(ch)
                call = lambda: collective(lab, op, whole, part, other, group)
                whole.normal_()
                alone = statistics.median(lab.time(lambda: call().wait(), 5, 200))
                for name in [None, *gemms]:
                    count = 0 if name is None else reps * (math.ceil(2.2 * alone / each[name]) + 1) + 3
                    whole.normal_()

                    def work():
                        if heat:
                            for _ in range(heat):
                                hot()
                        lab.align(300 + 12 * count)
                        pending = []
                        for i in range(max(1, count)):
                            if count:
                                calls[name]()
                            if i == 0:
                                lab.side.wait_stream(torch.cuda.current_stream())
                                with torch.cuda.stream(lab.side):
                                    pending = [call() for _ in range(reps)]
                        for p in pending:
                            p.wait()

                    if heat:  # the align above would let it cool: keep the host ahead instead
                        def work(count=count, name=name):
                            lab.align(300)
                            for _ in range(heat):
                                hot()
                            pending = []
                            for i in range(max(1, count)):
                                if count:
                                    calls[name]()
                                if i == 0:
                                    lab.side.wait_stream(torch.cuda.current_stream())
                                    with torch.cuda.stream(lab.side):
                                        pending = [call() for _ in range(reps)]
                            for p in pending:
                                p.wait()

                    ranks, meta = lab.profile(work)
                    if heat:  # drop the heating but its last five
                        ranks = [[e for e in r if e[0] != "M"] for r in ranks]
                        ranks = [r[max(0, heat - 5):] for r in ranks]
                    row = {"op": op, "mib": size, "bytes": n * 2, "channels": ch, "beside": name, "alone_event_us": round(alone, 1), "meta": meta, "heat": heat, "ranks": ranks}
                    lab.write(section, row)
                    if lab.rank == 0:
                        t = transfers(ranks)
                        g = [e[2] for e in ranks[0] if e[0] == "G"]
                        lab.say(f"{section} {op} {size} ch{ch} beside {name}: C {statistics.median(t):.1f} ({min(t):.1f}..{max(t):.1f}) grid {meta.get('C')} G {statistics.median(g) if g else 0:.1f} ({min(g or [0]):.1f}..{max(g or [0]):.1f}) n={len(g)}")


def pair(lab, name, op, chunks, channels, what="both"):
    m, n, k = GEMMS[name]
    a = torch.randn(m, k, device=lab.device, dtype=torch.bfloat16)
    b = torch.randn(k, n, device=lab.device, dtype=torch.bfloat16) / k**0.5
    c = torch.empty(m, n, device=lab.device, dtype=torch.bfloat16)
    other = torch.empty_like(c)
    part = torch.empty(m // lab.world, n, device=lab.device, dtype=torch.bfloat16)
    rows, kept, group = m // chunks, m // chunks // lab.world, lab.group(channels)

    def work():
        pending = []
        for i in range(chunks):
            mine = c[i * rows : (i + 1) * rows]
            if what != "C":
                torch.mm(a[i * rows : (i + 1) * rows], b, out=mine)
            if what != "G":
                pending.append(collective(lab, op, mine, part[i * kept : (i + 1) * kept], other[i * rows : (i + 1) * rows], group))
        for handle in pending:
            handle.wait()

    return work


def looped(lab, section, row, work, iterations, head_us, timed):
    for _ in range(3):
        work()
    us = lab.time(work, timed, head_us)

    def several():
        for _ in range(iterations):
            lab.align(head_us)
            work()

    ranks, meta = lab.profile(several)
    lab.write(section, row | {"us": statistics.median(us), "all_us": us, "meta": meta, "ranks": ranks})
    if lab.rank == 0:
        cs = [e[2] for e in ranks[0] if e[0] == "C"]
        g = [e[2] for e in ranks[0] if e[0] == "G"]
        lab.say(f"{section} {row}: {statistics.median(us):.1f} ({min(us):.1f}..{max(us):.1f})  C r0 {cs[:8]} G r0 {g[:8]} {meta.get('C')}")


def decompose(lab):
    for name, ops in ("tnlg_fc2_tp4", ("reduce_scatter", "all_reduce")), ("llama70b_fc2_tp4", ("reduce_scatter", "all_reduce")), ("moe_down", ("all_to_all",)):
        for op in ops:
            for ch in 4, 8, 16, None:
                for chunks, what in (4, "both"), (1, "both"), (4, "C"), (2, "both"), (8, "both"):
                    if name == "moe_down" and chunks in (2, 8):
                        continue
                    looped(lab, "decompose", {"name": name, "op": op, "channels": ch, "chunks": chunks, "what": what}, pair(lab, name, op, chunks, ch, what), 6, 500, 11)
            looped(lab, "decompose", {"name": name, "op": op, "channels": None, "chunks": 4, "what": "G"}, pair(lab, name, op, 4, None, "G"), 6, 400, 11)
        torch.cuda.empty_cache()


def multistream(lab):
    count = 16
    for name, op in ("llama70b_fc2_tp4", "all_reduce"), ("llama70b_fc2_tp4", "all_to_all"):
        m, n, k = GEMMS[name]
        a = torch.randn(m, k, device=lab.device, dtype=torch.bfloat16)
        b = torch.randn(k, n, device=lab.device, dtype=torch.bfloat16) / k**0.5
        cs = [torch.empty(m, n, device=lab.device, dtype=torch.bfloat16) for _ in range(count)]
        other = torch.empty_like(cs[0])
        part = torch.empty(m // lab.world, n, device=lab.device, dtype=torch.bfloat16)
        for ch in 4, 8, 16, None:
            group = lab.group(ch)
            for buffers in 16, 2, 1, 0:  # 1: bulk, 0: collectives only
                def work():
                    pending = []
                    for i in range(count):
                        if buffers and i >= buffers:
                            pending[i - buffers].wait()
                        mine = cs[i % (buffers or 16)]
                        if buffers:
                            torch.mm(a, b, out=mine)
                        pending.append(collective(lab, op, mine, part, other, group))
                    for p in pending:
                        p.wait()

                looped(lab, "multistream", {"name": name, "op": op, "channels": ch, "buffers": buffers}, work, 1, 1500, 5)
        del cs


def main():
    out, sections = sys.argv[1], sys.argv[2:]
    os.makedirs(out, exist_ok=True)
    lab = Lab(out)
    for s in sections:
        lab.say(s)
        if s == "micro":
            micro(lab, s, ("all_reduce", "reduce_scatter", "all_to_all"), (8, 16, 32), (4, 8, 16, 24), CHUNKS)
            micro(lab, s, ("all_reduce", "reduce_scatter"), (64, 128), (4, 8, 16, 24), {"llama70b_chunk": CHUNKS["llama70b_chunk"]})
        elif s == "hot":
            micro(lab, s, ("all_reduce", "reduce_scatter"), (32,), (4, 8, 16, 24), {"llama70b_fc2_tp4": GEMMS["llama70b_fc2_tp4"]}, heat=250)
        elif s == "decompose":
            decompose(lab)
        elif s == "multistream":
            multistream(lab)
    dist.barrier(group=lab.host)
    lab.say("done")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
