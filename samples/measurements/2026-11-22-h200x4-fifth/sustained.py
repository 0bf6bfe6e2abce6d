#!/usr/bin/env python3
"""The loops of the fifth set for a second without a pause, after one second of rest.

    python3 -m torch.distributed.run --nproc-per-node 4 sustained.py OUT

Writes OUT/sustained.jsonl: a line a loop and way, with the time of every 16 iterations, of the slowest rank.
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../capture"))
from capture import Lab, between_us, event  # noqa: E402
from strategies import SETS, loop, share  # noqa: E402


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    lab = Lab(argparse.Namespace(machine=None, iterations=5, out=out))
    file = open(os.path.join(out, "sustained.jsonl"), "w") if lab.rank == 0 else None
    for case in SETS["fifth"]["loops"]:
        name, shape, op = share(lab, case)
        for overlap in False, True:
            work = loop(lab, shape, op, 16, overlap, lab.group())
            work()
            torch.cuda.synchronize()
            time.sleep(1)
            marks = [event() for _ in range(91)]
            lab.align(3000)
            marks[0].record()
            for mark in marks[1:]:
                work()
                mark.record()
            torch.cuda.synchronize()
            every = lab.slowest([between_us(a, b) for a, b in zip(marks, marks[1:])])
            lab.say(f"{name} {op} {overlap}: {[round(t / 16) for t in every[::6]]}")
            if file:
                file.write(json.dumps({"name": name, "op": op, "overlap": overlap, "every_us": [round(t, 1) for t in every]}) + "\n")
                file.flush()
            del work
            torch.cuda.empty_cache()
    dist.barrier(group=lab.host)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
