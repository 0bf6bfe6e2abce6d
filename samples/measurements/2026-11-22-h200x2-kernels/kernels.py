"""What the fourth set's far rows rest on, kernel by kernel: python3 -m torch.distributed.run --nproc-per-node 2 kernels.py --out DIR [part ...]

channels   collectives alone by channels, with the workgroups and threads that their kernels have
products   library products after a pause, of many sizes: kernel, grid, microseconds by the profiler
runs       the kernels of chunked and looped pairs of the fourth set, the clock behind them, and their times without the profiler
beside     gathers and reduce-scatters beside products
"""
import argparse, gzip, itertools, json, os, random, statistics, time
import torch, torch.distributed as dist
from capture import Lab, between_us, event, gemm, kernels_beside
from strategies import SETS, loop, pair, share

MIB = 1 << 20
LIMITS = {"channels": 110, "products": 60, "runs": 330, "beside": 120}  # seconds


def profile(lab, work):
    """Every kernel of this rank: [name and grid, start, duration, stream] in microseconds, and those names."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    path = os.path.join("/tmp", f"kernels{lab.rank}.json")
    profiler.export_chrome_trace(path)
    with open(path) as f:
        doc = json.load(f)
    events = [e for e in doc["traceEvents"] if e.get("ph") == "X" and e.get("cat") in ("kernel", "gpu_memset")]
    names, found = {}, []
    for e in sorted(events, key=lambda e: e["ts"]):
        a = e["args"]
        name = "memset" if e["cat"] == "gpu_memset" else e["name"].replace("(anonymous namespace)::", "").split("(")[0][:90] + f" {a['grid'][0] * a['grid'][1] * a['grid'][2]}x{a['block'][0]}"
        found.append([names.setdefault(name, len(names)), round(e["ts"], 2), round(e["dur"], 2), a.get("stream")])
    return found, list(names)


def gathered(lab, thing):
    ranks = [None] * lab.world
    dist.all_gather_object(ranks, thing, group=lab.host)
    return ranks


class Out:
    def __init__(self, lab, name):
        self.file = gzip.open(os.path.join(lab.out, name), "wt") if lab.rank == 0 else None

    def put(self, row):
        if self.file:
            self.file.write(json.dumps(row, separators=(",", ":")) + "\n")
            self.file.flush()


def late(lab, began, limit):
    """Whether rank 0 has no time left."""
    return gathered(lab, time.monotonic() - began > limit)[0]


def channels(lab):
    out, began = Out(lab, "channels.jsonl.gz"), time.monotonic()
    sizes = [4 * MIB, 16 * MIB, 32 * MIB, 64 * MIB, 72 * MIB, 128 * MIB, 256 * MIB]
    for n in (5, 4, 6, 8, 10, 3, 20, 16, 12, 24, 0, 7, 32, 14, 28, 9):
        group = lab.group(n or None)
        for op in "all_to_all", "reduce_scatter", "all_gather", "all_reduce":
            if late(lab, began, LIMITS["channels"]):
                lab.say("channels: out of time")
                return
            calls = [lab.collective(op, size, group)[0] for size in sizes]

            def work():
                for _ in range(4):
                    lab.align(1500)
                    for call in calls:
                        call()

            found, names = profile(lab, work)
            mine = [e for e in found if "nccl" in names[e[0]]]
            each = 1 + len(sizes)  # the first of each turn aligns the ranks
            mine = [e for i, e in enumerate(mine) if i % each]
            ranks = gathered(lab, mine)
            for s, size in enumerate(sizes):
                us = [min(r[i][2] for r in ranks) for i in range(s, len(mine), len(sizes))]
                out.put({"op": op, "channels": n, "bytes": size, "kernel": names[mine[s][0]], "us": us})
        lab.say(f"channels {n}")


def shapes():
    """Sizes of products: those of the sets' chunks, and others."""
    held, seen = [], set()
    for name, sizes in SETS.items():
        counts = sorted({c[0] for c in sizes["decompose"]} | {1})
        for case in sizes["pairs"] + sizes["loops"]:
            _, m, n, k, by, _ = case
            n, k = (n // 2, k) if by == "n" else (n, k // 2)
            for c in counts:
                if (m // c, n, k) not in seen:
                    seen.add((m // c, n, k))
                    held.append((name, m // c, n, k))
    r = random.Random(4)
    sides = [1024, 1536, 2048, 2560, 3072, 3584, 4096, 4608, 5120, 6144, 7168, 7680, 8192, 9216, 10240, 11264, 12288, 14336, 16384, 18432, 20480, 24576, 28672]
    depths = [1024, 1536, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 9216, 10240, 12288, 14336, 16384, 18432, 20480, 24576, 28672]
    other = []
    while len(other) < 900:
        m = r.choice([2048, 3072, 4096, 5120, 6144, 8192, 10240, 12288, 16384])
        n, k = r.choice(sides), r.choice(depths)
        if m * n * k > 8192 * 8192 * 12288:
            continue
        for c in 1, 2, 4, 8, 16:
            t = m // c, n, k
            if t not in seen:
                seen.add(t)
                other.append(("other", *t))
    return held + other


def products(lab):
    out, began = Out(lab, "products.jsonl.gz"), time.monotonic()
    todo = shapes()[lab.rank::lab.world]
    repeats = 5
    big = max(max(m * k, k * n, m * n) for _, m, n, k in shapes())
    a, b, c = (torch.randn(big, device=lab.device, dtype=torch.bfloat16) for _ in range(3))
    b /= 64
    done, rows = [], []
    per = 60
    for at in range(0, len(todo), per):
        if time.monotonic() - began > LIMITS["products"]:
            break
        part = todo[at:at + per]

        def work():
            for _, m, n, k in part:
                pause = 0.0015 + 5 * 2.0 * m * n * k / 7e14
                x, y, z = a[:m * k].view(m, k), b[:k * n].view(k, n), c[:m * n].view(m, n)
                for _ in range(repeats):
                    torch.mm(x, y, out=z)
                    torch.cuda.synchronize()
                    time.sleep(pause)

        if at == 0:
            work()
        found, names = profile(lab, work)
        main, i = [e for e in found], 0
        # a product: perhaps a memset, a kernel, perhaps a reduction of its parts
        groups = []
        for e in main:
            name = names[e[0]]
            if name == "memset":
                groups.append([e])
            elif "educe" in name and groups:
                groups[-1].append(e)
            elif groups and names[groups[-1][-1][0]] == "memset":
                groups[-1].append(e)
            else:
                groups.append([e])
        if len(groups) != len(part) * repeats:
            lab.say(f"products: {len(groups)} groups for {len(part) * repeats}")
            continue
        for p, (what, m, n, k) in enumerate(part):
            g = groups[p * repeats:(p + 1) * repeats]
            rows.append({"set": what, "m": m, "n": n, "k": k, "kernels": [names[e[0]] for e in g[0]], "us": [round(sum(e[2] for e in x if names[e[0]] != "memset"), 2) for x in g]})
    for r in gathered(lab, rows):
        for row in r:
            out.put(row)
    lab.say(f"products: {len(rows)} on this rank")


def clock_after(lab, cycles=400_000):
    """Events around a kernel that spins so many cycles, on the current stream: how fast the clock is."""
    start, end = event(), event()
    start.record()
    torch.cuda._sleep(cycles)
    end.record()
    return lambda: cycles / between_us(start, end)


def timed(lab, work, head_us, iterations, warm=3):
    """Lab.time, and the clock in MHz right behind each iteration of each rank."""
    for _ in range(warm):
        work()
    us, mhz = [], []
    for _ in range(iterations):
        start, end = event(), event()
        lab.align(head_us)
        start.record()
        work()
        end.record()
        read = clock_after(lab)
        torch.cuda.synchronize()
        us.append(between_us(start, end))
        mhz.append(round(read()))
    return [round(x, 1) for x in lab.slowest(us)], gathered(lab, mhz)


def runs(lab):
    out, began = Out(lab, "runs.jsonl.gz"), time.monotonic()
    cases = {(c[0], c[5]): c for c in SETS["fourth"]["pairs"] + SETS["fourth"]["loops"]}
    D = SETS["fourth"]["decompose"]
    todo = [("gemma27b_fc2", "all_reduce", D[i]) for i in (0, 1, 2, 4, 5, 6)]
    todo += [("command_r_in", "all_gather", c) for c in D]
    todo += [("command_r", "all_to_all", c) for c in [(0, False), (5, False), (20, True)]]
    todo += [("grok_op", "reduce_scatter", c) for c in [(0, False), (5, False)]]
    todo += [("yi_in", "all_gather", D[i]) for i in (1, 2, 4, 7)]
    todo += [("phi_fc2", "all_to_all", D[i]) for i in (1, 4, 5, 6)]
    todo += [("gemma27b_fc2", "reduce_scatter", D[i]) for i in (0, 2, 4, 6, 7)]
    todo += [("grok_op", "reduce_scatter", D[6])]
    todo += [("command_r", "all_reduce", D[i]) for i in (0, 4, 2)]
    todo += [("yi_in", "all_gather", D[i]) for i in (0, 5, 6)]
    for name, op, config in todo:
        if late(lab, began, LIMITS["runs"]):
            lab.say("runs: out of time")
            break
        _, shape, _ = share(lab, cases[name, op])
        ways = [("decompose", pair(lab, shape, op, config[0], lab.group(config[1] or None, config[2])), 400 + 100 * config[0], 12, 10)] if len(config) == 3 else [
            (s, loop(lab, shape, op, 16, s == "multistream", lab.group(config[0] or None, config[1])), 1500, 4, 3) for s in ("bulk", "multistream")]
        for strategy, work, head, iterations, repeats in ways:
            us, mhz = timed(lab, work, head, iterations)

            def traced():
                for _ in range(repeats):
                    lab.align(head + 1200)
                    work()
                    torch.cuda._sleep(200_000)

            found, names = profile(lab, traced)
            again, mhz2 = timed(lab, work, head, 4, 1)
            ranks = gathered(lab, (found, names))
            # the ends of the collective that follows each sleep align the ranks
            ends = []
            for f, nm in ranks:
                e, after = [], False
                for k in f:
                    if "spin" in nm[k[0]]:
                        after = True
                    elif "nccl" in nm[k[0]] and after:
                        e.append(k[1] + k[2])
                        after = False
                ends.append(e)
            off = [statistics.median(x - y for x, y in zip(e, ends[0])) for e in ends]
            base = min(k[1] for f, _ in ranks for k in f)
            out.put({"name": name, "op": op, "shape": shape, "strategy": strategy, "config": config, "us": us, "mhz": mhz, "after_us": again, "after_mhz": mhz2, "names": [nm for _, nm in ranks],
                     "ranks": [[[k[0], round(k[1] - o - base, 1), round(k[2], 1), k[3]] for k in f] for (f, _), o in zip(ranks, off)]})
            lab.say(f"{name} {op} {strategy} {config}: {statistics.median(us):.1f} {min(us)} {max(us)} then {statistics.median(again):.1f}")
        del ways, work
        torch.cuda.empty_cache()


def beside(lab):
    out, began = Out(lab, "beside.jsonl.gz"), time.monotonic()
    for op, n, size in itertools.product(("all_gather", "reduce_scatter"), (24, 4, 8, 16), (8, 16, 32, 128)):
        if late(lab, began, LIMITS["beside"]):
            lab.say("beside: out of time")
            return
        size *= MIB
        shape = (2048, 4256, 4256) if size <= 32 * MIB else (8192, 8192, 7168)
        call, _ = lab.collective(op, size, lab.group(n))
        us, more = kernels_beside(lab, call, gemm(lab, *shape))
        us = [round(x, 2) for x in us]
        out.put({"machine": "h200x2", "world": 2, "workload": {"kind": "collective", "collective": op, "bytes": size}, "strategy": "beside_cublas",
                 "params": {"channels": n, "kernel": True, "alone_us": more["alone_us"], "gemm": list(shape)}, "us": statistics.median(us), "min_us": min(us), "max_us": max(us)})
        torch.cuda.empty_cache()
    lab.say("beside done")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    p.add_argument("parts", nargs="*", default=["channels", "products", "runs"])
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    lab = Lab(argparse.Namespace(machine="h200", iterations=9, out=a.out))
    for part in a.parts or ["channels", "products", "runs"]:
        try:
            globals()[part](lab)
        except Exception as e:
            import traceback
            print(f"rank {lab.rank}: {part}: {type(e).__name__}: {e}", flush=True)
            traceback.print_exc()
        lab.say(f"{part} done")
    dist.barrier(group=lab.host)
    dist.destroy_process_group()


main()
