"""Every kernel of chunked GEMMs and collectives, and their times without the profiler: torchrun --nproc-per-node N kernels.py --out DIR"""
import argparse, gzip, json, os, statistics, time
import torch, torch.distributed as dist
from capture import Lab
from strategies import Book, SETS, pair, share

RUNS = [  # of the pairs of the third set: name, collective, and (chunks, channels, urgent)
    ("odd_in", "all_gather", [(2, 0, False), (4, 0, False), (8, 0, False), (16, 0, False), (4, 6, False), (2, 12, False), (4, 0, True), (8, 16, True)]),
    ("llama405b_op", "all_reduce", [(4, 0, False), (8, 0, False), (16, 0, False), (4, 6, False)]),
    ("llama405b_op", "all_to_all", [(4, 0, False), (8, 0, False), (16, 0, False), (8, 16, True)]),
    ("odd", "reduce_scatter", [(4, 0, False), (8, 0, False), (16, 0, False)]),
    ("qwen7b_fc2", "all_reduce", [(2, 0, False), (2, 0, True)]),
    ("qwen7b_fc2", "reduce_scatter", [(2, 0, False), (8, 0, False), (16, 0, False)]),
]
REPEATS = 8


def kernels(lab, work, head_us):
    """By iteration the kernels of this rank, [kind, start, duration, stream], in microseconds of the machine's clock, and which they were."""
    for _ in range(2):
        work()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(REPEATS):
            lab.align(head_us)
            work()
        torch.cuda.synchronize()
    path = os.path.join(lab.out, f"kernels{lab.rank}.json")
    profiler.export_chrome_trace(path)
    with open(path) as f:
        doc = json.load(f)
    found, names = [], {}
    events = [e for e in doc["traceEvents"] if e.get("ph") == "X" and e.get("cat") in ("kernel", "gpu_memset")]
    after_sleep = False
    for e in sorted(events, key=lambda e: e["ts"]):
        name, args = e["name"], e["args"]
        if "spin" in name:
            after_sleep = True
            continue
        kind = "M" if e["cat"] == "gpu_memset" else "C" if "nccl" in name else "G"
        if kind == "C" and after_sleep:
            kind, after_sleep = "T", False
        else:
            names.setdefault(kind, {}).setdefault(f"{name[:120]} {args.get('grid')} {args.get('block')} {args.get('shared memory')}", 0)
        found.append([kind, round(e["ts"], 1), round(e["dur"], 1), args.get("stream")])
    return found, names


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", required=True)
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    lab = Lab(argparse.Namespace(machine="h200", iterations=15, out=a.out))
    book = Book(lab, "k")
    out = gzip.open(os.path.join(a.out, "chunk_kernels.jsonl.gz"), "wt") if lab.rank == 0 else None
    cases = {(c[0], c[5]): c for c in SETS["third"]["pairs"]}
    for name, op, configs in RUNS:
        _, shape, _ = share(lab, cases[name, op])
        m, n, k = shape
        for chunks, channels, urgent in configs:
            work = pair(lab, shape, op, chunks, lab.group(channels or None, urgent))
            us = lab.time(work, head_us=400 + 100 * chunks)
            torch.cuda.synchronize()
            lab.align(5000)
            began = time.perf_counter()
            work()
            host = (time.perf_counter() - began) * 1e6
            torch.cuda.synchronize()
            params = {"chunks": chunks} | ({"channels": channels} if channels else {}) | ({"comm_priority": True} if urgent else {})
            book.row({"name": name, "kind": "gemm+collective", "m": m, "n": n, "k": k, "dtype": "bf16", "collective": op, "bytes": 2 * m * (k if op == "all_gather" else n)},
                     "decompose", params | {"every_us": [round(x, 1) for x in us], "host_us": round(host, 1)}, us, None)
            found, names = kernels(lab, work, 1500 + 400 * chunks)
            ranks = [None] * lab.world
            dist.all_gather_object(ranks, (found, names), group=lab.host)
            if out:
                ends = [[e[1] + e[2] for e in r[0] if e[0] == "T"] for r in ranks]
                off = [statistics.median(x - y for x, y in zip(e, ends[0])) for e in ends]
                base = min(e[1] for r in ranks for e in r[0])
                out.write(json.dumps({"run": {"name": name, "collective": op} | params, "names": ranks[0][1], "off_us": off,
                                      "ranks": [[[e[0], round(e[1] - o - base, 1), e[2], e[3]] for e in r[0]] for r, o in zip(ranks, off)]}) + "\n")
                out.flush()
            del work
        torch.cuda.empty_cache()
    if out:
        out.close()
    lab.say("done")
    dist.barrier(group=lab.host)
    dist.destroy_process_group()


main()
