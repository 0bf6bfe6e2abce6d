#!/usr/bin/env python3
"""Measures whole models on two GPUs or more, from a cool start and sustained, for `overlapse validate`.

    torchrun --nproc-per-node 2 models.py --out OUT

Writes OUT/rows.jsonl, a row a measurement, and OUT/traces. Beside it, or on PYTHONPATH: capture.py, whose laboratory it uses.
"""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

from capture import Lab, between_us, event, profiled, record


def weight(lab, rows, cols):
    return torch.randn(rows, cols, device=lab.device, dtype=torch.bfloat16) / rows**0.5


def reduced(a, b, chunks):
    """a @ b, summed over ranks; every chunk of rows as soon as it is there."""
    y = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=a.dtype)
    rows, pending = a.shape[0] // chunks, []
    for i in range(chunks):
        mine = y[i * rows : (i + 1) * rows]
        torch.mm(a[i * rows : (i + 1) * rows], b, out=mine)
        pending.append(dist.all_reduce(mine, async_op=True))
    for h in pending:
        h.wait()
    return y


def moe(lab, chunks, tokens, hidden, ffn):
    """A mixture-of-experts layer, expert parallel: dispatch, two GEMMs, combine; in a pipeline of chunks of tokens."""
    x, up, down = torch.randn(tokens, hidden, device=lab.device, dtype=torch.bfloat16), weight(lab, hidden, ffn), weight(lab, ffn, hidden)
    here, mine, back = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    there, home = lab.group(None, False), lab.second
    rows = tokens // chunks

    def work():
        part = [slice(i * rows, (i + 1) * rows) for i in range(chunks)]
        arriving = [dist.all_to_all_single(here[p], x[p], group=there, async_op=True) for p in part]
        leaving = []
        for p, h in zip(part, arriving):
            h.wait()
            mine[p].copy_(F.silu(here[p] @ up) @ down)
            leaving.append(dist.all_to_all_single(back[p], mine[p], group=home, async_op=True))
        for h in leaving:
            h.wait()

    return work


def llama(lab, chunks, tokens, hidden, ffn, layers):
    """Layers of a Llama, tensor parallel, forward."""
    head = 128
    heads, inner = hidden // head // lab.world, ffn // lab.world
    qkv, out = weight(lab, hidden, 3 * heads * head), weight(lab, heads * head, hidden)
    up, down = weight(lab, hidden, 2 * inner), weight(lab, inner, hidden)
    x0 = torch.randn(tokens, hidden, device=lab.device, dtype=torch.bfloat16)

    def work():
        x = x0
        for _ in range(layers):
            q, k, v = (F.layer_norm(x, (hidden,)) @ qkv).view(1, tokens, 3, heads, head).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + reduced(y.transpose(1, 2).reshape(tokens, heads * head), out, chunks)
            gate, value = (F.layer_norm(x, (hidden,)) @ up).chunk(2, dim=-1)
            x = x + reduced(F.silu(gate) * value, down, chunks)

    return work


class Columns(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, chunks):
        ctx.save_for_backward(x, w)
        ctx.chunks = chunks
        return x @ w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g = g.contiguous()
        return reduced(g, w.t(), ctx.chunks), x.t() @ g, None


class Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, chunks):
        ctx.save_for_backward(x, w)
        return reduced(x, w, chunks)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        g = g.contiguous()
        return g @ w.t(), x.t() @ g, None


def train(lab, chunks, tokens, hidden, ffn, layers):
    """A training step of a GPT's layers, tensor parallel: forward, backward, SGD."""
    head, batch = 128, 2
    heads, inner = hidden // head // lab.world, ffn // lab.world
    params = [
        torch.nn.Parameter(weight(lab, r, c))
        for _ in range(layers)
        for r, c in ((hidden, 3 * heads * head), (heads * head, hidden), (hidden, inner), (inner, hidden))
    ]
    x0 = torch.randn(tokens, hidden, device=lab.device, dtype=torch.bfloat16)

    def work():
        with torch.enable_grad():
            x = x0
            for i in range(layers):
                qkv, out, up, down = params[4 * i : 4 * i + 4]
                q, k, v = Columns.apply(F.layer_norm(x, (hidden,)), qkv, chunks).view(batch, tokens // batch, 3, heads, head).permute(2, 0, 3, 1, 4)
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + Rows.apply(y.transpose(1, 2).reshape(tokens, heads * head), out, chunks)
                x = x + Rows.apply(F.gelu(Columns.apply(F.layer_norm(x, (hidden,)), up, chunks)), down, chunks)
            x.backward(x0)
        with torch.no_grad():
            torch._foreach_add_(params, [p.grad for p in params], alpha=-1e-9)
        for p in params:
            p.grad = None

    return work


MODELS = {  # how to make it, iterations that take about 0.7 s
    "moe_ep{w}_t16384": (lambda lab, chunks: moe(lab, chunks, 16384, 4096, 14336), 110),
    "moe_ep{w}_t8192_small": (lambda lab, chunks: moe(lab, chunks, 8192, 5120, 8192), 300),
    "llama70b_tp{w}_prefill_s4096": (lambda lab, chunks: llama(lab, chunks, 4096, 8192, 28672, 3), 36),
    "gpt7b_tp{w}_train_t8192": (lambda lab, chunks: train(lab, chunks, 8192, 4096, 16384, 2), 50),
}


class Book:
    def __init__(self, lab, prefix):
        self.lab, self.n, self.prefix = lab, 0, prefix
        self.file = open(os.path.join(lab.out, "rows.jsonl"), "w") if lab.rank == 0 else None

    def row(self, name, chunks, params, us, trace, from_=0):
        strategy = "decompose" if chunks > 1 else "bulk"
        r = {"id": f"{self.prefix}{self.n:04d}", "machine": f"{self.lab.machine}x{self.lab.world}", "world": self.lab.world,
             "workload": {"kind": "model", "name": name}, "strategy": strategy, "params": ({"chunks": chunks} if chunks > 1 else {}) | params,
             "us": round(statistics.median(us[from_:]), 2), "min_us": round(min(us[from_:]), 2), "max_us": round(max(us[from_:]), 2)}
        if trace:
            r["trace"] = trace
        r["every_us"] = [round(t, 1) for t in us]
        r["at_s"] = round(time.time(), 3)
        self.n += 1
        if self.file:
            self.file.write(json.dumps(r) + "\n")
            self.file.flush()
        self.lab.say(f"{name} chunks={chunks} {params}: {r['us']} {r['min_us']} {r['max_us']}")


def idle(lab, seconds=1.0):
    torch.cuda.synchronize()
    dist.barrier(group=lab.host)
    time.sleep(seconds)


def sustained(lab, work, count):
    idle(lab)
    lab.align(4000)
    marks = [event() for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        work()
        mark.record()
    torch.cuda.synchronize()
    return lab.slowest([between_us(a, b) for a, b in zip(marks, marks[1:])])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--prefix", default="w")
    p.add_argument("--machine")
    p.add_argument("--long", action="store_true", help="also 8 s of one model")
    p.add_argument("--only", default="", help="models whose name begins so")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    lab = Lab(argparse.Namespace(machine=args.machine, iterations=10, out=args.out))
    lab.second = dist.new_group()
    book = Book(lab, args.prefix)
    torch.set_grad_enabled(False)
    for name, (make, count) in MODELS.items():
        if not name.startswith(args.only):
            continue
        name = name.format(w=lab.world)
        trace = f"traces/whole_{name}"
        works = {chunks: make(lab, chunks) for chunks in (1, 2, 4)}
        for work in works.values():
            for _ in range(3):
                work()
        torch.cuda.synchronize()
        lab.say(f"{name} made, {torch.cuda.max_memory_allocated() >> 30} GiB")
        for turn in range(3):  # as validate's rows: three to warm up, ten with a barrier before each, from an idle GPU
            for chunks, work in works.items():
                idle(lab)
                book.row(name, chunks, {"turn": turn}, lab.time(work, head_us=2000), trace)
        for turn in range(2):  # the same without an idle second between strategies
            for chunks, work in works.items():
                book.row(name, chunks, {"turn": turn, "in_a_row": True}, lab.time(work, head_us=2000), trace)
        for turn in range(2):
            for chunks, work in works.items():
                book.row(name, chunks, {"turn": turn, "sustained": True}, sustained(lab, work, count), trace, count // 2)
        idle(lab)
        record(lab, os.path.basename(trace), works[1], 3)
        sustained(lab, works[1], count)
        record(lab, os.path.basename(trace) + "_after_load", works[1], 3)
        works[1]()
        idle(lab)
        with profiled(lab, os.path.basename(trace) + "_while_loaded"):  # the last three of many
            for _ in range(count // 2):
                works[1]()
            for i in range(3):
                with torch.profiler.record_function(f"{os.path.basename(trace)}#{i}"):
                    works[1]()
        for chunks in (2, 4):
            record(lab, os.path.basename(trace) + f"_decompose{chunks}", works[chunks], 3)
        if args.long and name.startswith("moe") and "small" not in name:
            book.row(name, 1, {"sustained": True, "long": True}, sustained(lab, works[1], 1200)[::8], trace, 75)
        del work, works
        torch.cuda.empty_cache()
    dist.barrier(group=lab.host)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
