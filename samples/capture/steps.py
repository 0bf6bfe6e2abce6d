#!/usr/bin/env python3
"""Measures whole training and inference steps under the settings that frameworks offer, and records them.

    torchrun --nproc-per-node 2 steps.py --out mysteps

Writes mysteps/rows.jsonl, rows that ask: from the trace of one variant of a step, how long does another variant take?
`overlapse validate mysteps/rows.jsonl` predicts them. mysteps/traces/VARIANT holds two steps by PyTorch's profiler, one file
a rank, and in et/ the profile and the execution trace of one more step. Needs PyTorch 2.6 or later with CUDA or ROCm.
"""

import argparse
import contextlib
import gzip
import json
import os
import shutil
import statistics
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from capture import Lab, first_line

BF16 = torch.bfloat16

# Hidden, inner, heads, layers, batch, sequence of a GPT; H, FF, layers, tokens of experts; sequence, H, FF, heads, layers of Llama;
# tables, dimension, pooling, batch of a DLRM; batch, H, FF, layers of decoding; tokens, tokens of a sequence (1: decoding), H, FF, heads,
# layers of a step of serving.
SIZES = {
    "default": {
        "ddp": {"h4096": (4096, 11008, 32, 4, 1, 2048), "h2048": (2048, 5504, 16, 12, 4, 2048)},
        "fsdp": {"h4096": (4096, 11008, 32, 6, 1, 2048), "h2048": (2048, 5504, 16, 12, 4, 2048)},
        "tp": {"s4096": (4096, 8192, 28672, 64, 2), "s8192": (8192, 4096, 14336, 32, 4)},
        "moe": {"t8192": (4096, 14336, 3, 8192), "t24576": (4096, 14336, 3, 24576)},
        "dlrm": {"d128": (26, 128, 40, 16384), "d256": (64, 256, 80, 32768)},
        "decode": {"b1": (1, 8192, 28672, 8), "b32": (32, 8192, 28672, 8)},
        "serving": {
            "decode32": (32, 1, 4096, 14336, 32, 3),
            "decode256": (256, 1, 4096, 14336, 32, 3),
            "prefill1024": (1024, 512, 4096, 14336, 32, 3),
            "prefill4096": (4096, 512, 4096, 14336, 32, 3),
            "prefill16384": (16384, 512, 4096, 14336, 32, 3),
            "prefill4096_h8192": (4096, 512, 8192, 28672, 64, 2),
        },
    },
    "other": {
        "ddp": {"h3072": (3072, 8192, 24, 6, 2, 2048)},
        "fsdp": {"h5120": (5120, 13824, 40, 4, 1, 4096)},
        "tp": {"s6144": (6144, 5120, 13824, 40, 3), "s2048": (2048, 6144, 16384, 48, 3)},
        "moe": {"t16384": (2048, 5632, 4, 16384)},
        "dlrm": {"d192": (40, 192, 20, 32768)},
        "decode": {"b4": (4, 5120, 13824, 12), "b64": (64, 5120, 13824, 12)},
        "serving": {"decode96": (96, 1, 5120, 13824, 40, 3), "prefill8192": (8192, 1024, 5120, 13824, 40, 3)},
    },
    "batches": {
        "decode": {f"b{n}": (n, 6144, 16384, 10) for n in (2, 16, 128)},
        "serving": {f"decode{n}": (n, 1, 6144, 16384, 48, 3) for n in (16, 128)} | {f"prefill{n}": (n, 256, 6144, 16384, 48, 3) for n in (2048, 8192)},
    },
    "small": {
        "ddp": {"h512": (512, 1024, 8, 2, 1, 256)},
        "fsdp": {"h512": (512, 1024, 8, 2, 1, 256)},
        "tp": {"s256": (256, 512, 1024, 8, 2)},
        "moe": {"t256": (512, 1024, 2, 256)},
        "dlrm": {"d16": (4, 16, 4, 512)},
        "decode": {"b1": (1, 512, 1024, 2)},
        "serving": {"decode16": (16, 1, 512, 1024, 8, 2), "prefill256": (256, 64, 512, 1024, 8, 2)},
    },
}


class Steps:
    """Times and records variants of steps, and writes the rows."""

    def __init__(self, lab, args):
        self.lab, self.args = lab, args
        self.groups, self.rows = {}, 0
        self.batches = {}  # by framework and the rest of the size: what was measured with each number of tokens
        self.again = {}
        if args.again:
            with open(args.again) as f:
                for row in map(json.loads, f):
                    if row["strategy"] == "captured":
                        self.again[row["workload"]["name"], json.dumps(row["measured_variant"])] = row["us"]

    def group(self, channels, priority):
        """A process group whose collectives have at most so many workgroups; 0: the library's choice."""
        if (channels, priority) not in self.groups:
            options = dist.ProcessGroupNCCL.Options()
            options.is_high_priority_stream = priority
            if channels:
                options.config.min_ctas, options.config.max_ctas = 1, channels
            group = dist.new_group(list(range(self.lab.world)), pg_options=options)
            dist.all_reduce(torch.ones(1, device=self.lab.device), group=group)
            self.groups[channels, priority] = group
        return self.groups[channels, priority]

    def time(self, step):
        """Microseconds of steps back to back, without a profiler, of the slowest rank; sorted."""
        for _ in range(4):
            step()
        torch.cuda.synchronize()
        dist.barrier(group=self.lab.host)
        events = [torch.cuda.Event(enable_timing=True) for _ in range(self.args.iterations + 1)]
        events[0].record()
        for after in events[1:]:
            step()
            after.record()
        torch.cuda.synchronize()
        us = torch.tensor([a.elapsed_time(b) * 1e3 for a, b in zip(events, events[1:])], dtype=torch.float64)
        dist.all_reduce(us, op=dist.ReduceOp.MAX, group=self.lab.host)
        return sorted(us.tolist())

    def record(self, name, step):
        """Two steps by the profiler, then one more with an execution trace."""
        folder = os.path.join(self.lab.out, "traces", name)
        os.makedirs(os.path.join(folder, "et"), exist_ok=True)
        file = f"rank{self.lab.rank}"
        with self.profiled(os.path.join(folder, file + ".json.gz")):
            for i in range(2):
                with torch.profiler.record_function(f"ProfilerStep#{i + 1}"):
                    step()
        with tempfile.NamedTemporaryFile(suffix=".json") as recorded:
            observer = torch.profiler.ExecutionTraceObserver()
            observer.register_callback(recorded.name)
            with self.profiled(os.path.join(folder, "et", file + ".json.gz"), observer):
                with torch.profiler.record_function("ProfilerStep#1"):
                    step()
            with open(recorded.name, "rb") as plain, gzip.open(os.path.join(folder, "et", file + ".et.json.gz"), "wb", 6) as packed:
                shutil.copyfileobj(plain, packed)

    @contextlib.contextmanager
    def profiled(self, path, observer=None):
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        torch.cuda.synchronize()
        dist.barrier(group=self.lab.host)
        with torch.profiler.profile(activities=activities, record_shapes=True, execution_trace_observer=observer) as profiler:
            yield
            torch.cuda.synchronize()
        profiler.export_chrome_trace(path)

    def measure(self, framework, name, variants, question, batch=None):
        """variants: pairs of settings and a function that builds the step, and whether to record it. question(captured, measured)
        is the strategy and the parameters that turn the one schedule into the other, or None. batch: tokens of the step, and
        the sizes that it shares with others: each is also asked for from the others' captures."""
        done = []
        for variant, build, recorded in variants:
            label = name + "_" + "_".join(f"{k}{v}" for k, v in variant.items())
            try:
                step = build()
                us = self.time(step)
                if recorded:
                    self.record(label, step)
                done.append((variant, us, "traces/" + label if recorded else None))
                self.lab.say(f"{label}: {statistics.median(us):.1f} us")
                del step
            except (RuntimeError, ImportError, AttributeError, TypeError) as e:  # alike on all ranks: a variant that this version lacks
                self.lab.say(f"{label}: skipped: {first_line(e)}")
            torch.cuda.empty_cache()
        if self.lab.rank == 0:
            self.write(framework, name, done, done, question, {})
            if batch:
                like = self.batches.setdefault((framework, *batch[1:]), [])
                for tokens, other, measured in like:
                    self.write(framework, name, measured, done, question, {"tokens": [tokens, batch[0]]})
                    self.write(framework, other, done, measured, question, {"tokens": [batch[0], tokens]})
                like.append((batch[0], name, done))

    def write(self, framework, name, recorded, done, question, params):
        """Rows that ask for each of done from each of recorded."""
        with open(os.path.join(self.lab.out, "rows.jsonl"), "a") as f:
            for captured, captured_us, trace in recorded:
                for measured, us, _ in done:
                    asked = ("captured", {}) if measured == captured else question(captured, measured)
                    if trace is None or asked is None:
                        continue
                    row = {"id": f"{self.args.prefix}{self.rows:04d}", "machine": f"{self.lab.machine}x{self.lab.world}", "world": self.lab.world}
                    row |= {"workload": {"name": name, "kind": "step", "framework": framework}, "strategy": asked[0], "params": {k: v for k, v in (asked[1] | params).items() if v}}
                    row |= {"us": round(statistics.median(us), 1), "min_us": round(us[0], 1), "max_us": round(us[-1], 1)}
                    if before := self.again.get((name, json.dumps(measured))):
                        row |= {"again_us": before} | ({"noisy": True} if abs(before / row["us"] - 1) > 0.05 else {})
                    row |= {"captured_us": round(statistics.median(captured_us), 1), "trace": trace, "captured_variant": captured, "measured_variant": measured}
                    f.write(json.dumps(row) + "\n")
                    self.rows += 1


# ---------------------------------------------------------------------------------------------------------------------
# Training: a GPT under DistributedDataParallel and fully_shard.


class Block(nn.Module):
    def __init__(self, hidden, inner, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.up, self.down = nn.Linear(hidden, 2 * inner, bias=False), nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, s, 3, self.heads, h // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, h))
        gate, value = self.up(self.between(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * value)


class GPT(nn.Module):
    VOCABULARY = 32000

    def __init__(self, hidden, inner, heads, layers):
        super().__init__()
        self.embed = nn.Embedding(self.VOCABULARY, hidden)
        self.blocks = nn.ModuleList(Block(hidden, inner, heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(hidden), nn.Linear(hidden, self.VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt(lab, hidden, inner, heads, layers, batch, sequence):
    torch.manual_seed(0)
    with torch.device(lab.device):
        model = GPT(hidden, inner, heads, layers).to(BF16)
        x, y = (torch.randint(0, GPT.VOCABULARY, (batch, sequence)) for _ in range(2))

    def loss(forward):
        return F.cross_entropy(forward(x).flatten(0, 1).float(), y.flatten())

    return model, loss


def training_question(captured, measured):
    params = {"channels": measured["channels"], "comm_priority": measured["priority"]}
    if "bucket_mb" in measured:
        params["bucket_mb"] = measured["bucket_mb"]
    else:
        params["keep_gathered"] = not measured["reshard"]
    return "multistream" if measured["overlap"] else "bulk", params


def ddp(steps, tag, size):
    def build(bucket_mb, channels, priority, overlap):
        group = steps.group(channels, priority)
        model, loss = gpt(steps.lab, *size)
        wrapped = nn.parallel.DistributedDataParallel(
            model, process_group=group, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True, device_ids=[steps.lab.device.index]
        )
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=1e-5)

        def reduce():
            """The same buckets behind backward."""
            bucket, bytes = [], 0
            gradients = [p.grad for p in reversed(list(model.parameters()))]
            for i, gradient in enumerate(gradients):
                bucket.append(gradient)
                bytes += gradient.numel() * gradient.element_size()
                if bytes >= bucket_mb << 20 or i == len(gradients) - 1:
                    flat = torch.cat([g.flatten() for g in bucket])
                    dist.all_reduce(flat, group=group)
                    for g, part in zip(bucket, flat.split([g.numel() for g in bucket])):
                        g.copy_(part.view_as(g))
                    bucket, bytes = [], 0

        def step():
            with contextlib.nullcontext() if overlap else wrapped.no_sync():
                loss(wrapped).backward()
            if not overlap:
                reduce()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

        return step

    settings = [(25, 0, False, True), (25, 0, False, False), (25, 4, False, True), (25, 8, False, True), (25, 2, False, True)]
    settings += [(25, 0, True, True), (100, 0, False, True), (100, 0, False, False), (1000, 0, False, True)]
    variants = []
    for s in settings:
        variant = dict(zip(("bucket_mb", "channels", "priority", "overlap"), s))
        variants.append((variant, lambda s=s: build(*s), s[1] == 0 and not s[2] and s[0] < 1000))
    steps.measure("ddp", f"ddp_{tag}", variants, training_question)


def fsdp(steps, tag, size):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    def build(channels, priority, overlap, reshard):
        mesh = DeviceMesh.from_group(steps.group(channels, priority), "cuda")
        model, loss = gpt(steps.lab, *size)
        for block in model.blocks:
            fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, reshard_after_forward=reshard)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
        if not overlap:  # all of its streams are one
            state = model._get_fsdp_state()
            state._lazy_init()
            for stream in "all_gather_copy_in_stream", "all_gather_stream", "reduce_scatter_stream", "all_reduce_stream":
                setattr(state._comm_ctx, stream, torch.cuda.current_stream())

        def step():
            loss(model).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        return step

    variants = []
    for s in (0, False, True, True), (0, False, False, True), (4, False, True, True), (8, False, True, True), (0, True, True, True), (0, False, True, False):
        variants.append((dict(zip(("channels", "priority", "overlap", "reshard"), s)), lambda s=s: build(*s), s[0] == 0 and not s[1]))
    steps.measure("fsdp", f"fsdp_{tag}", variants, training_question)


# ---------------------------------------------------------------------------------------------------------------------
# Inference.


def weights(lab, *sizes):
    return [torch.randn(*s, device=lab.device, dtype=BF16) * 0.02 for s in sizes]


def without_grad(work):
    def step():
        with torch.no_grad():
            work()

    return step


def tp(steps, tag, size):
    """Sequence-parallel Llama layers: eager, compiled, and compiled to pipelined one-sided operators."""
    import torch._inductor.config as inductor
    import torch.distributed._functional_collectives as functional
    import torch.distributed._symmetric_memory as symmetric

    sequence, hidden, inner, heads, layers = size
    world, group = steps.lab.world, dist.group.WORLD.group_name
    layer = [weights(steps.lab, (hidden, 3 * hidden // world), (hidden // world, hidden), (hidden, 2 * inner // world), (inner // world, hidden)) for _ in range(layers)]
    (x0,) = weights(steps.lab, (sequence // world, hidden))

    def gather(x):
        return functional.all_gather_tensor(F.rms_norm(x, (hidden,)), 0, group)

    def scatter(x):
        return functional.reduce_scatter_tensor(x, "sum", 0, group)

    def model(x):
        for qkv, out, up, down in layer:
            q, k, v = (gather(x) @ qkv).view(1, sequence, 3, heads // world, hidden // heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + scatter(y.transpose(1, 2).reshape(sequence, hidden // world) @ out)
            gate, value = (gather(x) @ up).chunk(2, -1)
            x = x + scatter((F.silu(gate) * value) @ down)
        return x

    def build(mode):
        symmetric.enable_symm_mem_for_group(group)
        torch._dynamo.reset()
        inductor._micro_pipeline_tp = mode == "async_tp"
        run = model if mode == "eager" else torch.compile(model, fullgraph=True)
        step = without_grad(lambda: run(x0))
        step()  # compiles
        return step

    def question(captured, measured):
        match captured["mode"], measured["mode"]:
            case "compiled", "async_tp":
                return "onesided", {"impl": "torch_async_tp"}
            case "async_tp", "compiled":
                return "bulk", {}
        return None

    steps.measure("tp", f"tp_sp_{tag}", [({"mode": m}, lambda m=m: build(m), True) for m in ("eager", "compiled", "async_tp")], question)
    inductor._micro_pipeline_tp = False


def graphed(steps, step):
    """The step as a captured graph."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    dist.barrier(group=steps.lab.host)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, capture_error_mode="thread_local"):
        step()
    return captured.replay


def decode(steps, tag, size):
    """Tensor-parallel decoding, in a captured graph or launched one by one."""
    import torch.distributed._symmetric_memory as symmetric

    batch, hidden, inner, layers = size
    world, group = steps.lab.world, dist.group.WORLD
    layer = [weights(steps.lab, (hidden, 3 * hidden // world), (hidden // world, hidden), (hidden, 2 * inner // world), (inner // world, hidden)) for _ in range(layers)]
    (x0,) = weights(steps.lab, (batch, hidden))
    kept = []  # the buffer in symmetric memory: captured graphs hold its address

    def forward(reduced):
        x = x0
        for qkv, out, up, down in layer:
            x = x + reduced((F.rms_norm(x, (hidden,)) @ qkv)[:, : hidden // world], out)
            gate, value = (F.rms_norm(x, (hidden,)) @ up).chunk(2, -1)
            x = x + reduced(F.silu(gate) * value, down)

    def nccl(a, w):
        y = a @ w
        dist.all_reduce(y)
        return y

    def in_symmetric_memory(operator):
        if not kept:
            kept.append(symmetric.empty(batch, hidden, dtype=BF16, device=steps.lab.device))
            symmetric.rendezvous(kept[0], group)
        buffer = kept[0]

        def reduced(a, w):
            torch.mm(a, w, out=buffer)
            y = operator(buffer, "sum", group.group_name)
            return y.clone() if y is buffer else y

        return reduced

    def build(allreduce, graph):
        match allreduce:
            case "nccl":
                reduced = nccl
            case "oneshot":
                reduced = in_symmetric_memory(torch.ops.symm_mem.one_shot_all_reduce)
            case "twoshot":
                reduced = in_symmetric_memory(torch.ops.symm_mem.two_shot_all_reduce_)
        step = without_grad(lambda: forward(reduced))
        return graphed(steps, step) if graph else step

    def question(captured, measured):
        if not captured["graph"] and measured["allreduce"] == "nccl":
            return "bulk", {"graph": True}
        if captured == {"allreduce": "nccl", "graph": True} and measured["graph"]:
            return "onesided", {"impl": {"oneshot": "one_shot_all_reduce", "twoshot": "two_shot_all_reduce"}.get(measured["allreduce"])}
        return None

    settings = ("nccl", True), ("nccl", False), ("oneshot", True), ("twoshot", True)
    steps.measure("decode", f"decode_tp_{tag}", [({"allreduce": a, "graph": g}, lambda a=a, g=g: build(a, g), True) for a, g in settings], question, size)


def serving(steps, tag, size):
    """Tensor-parallel prefill or decoding: a batch, or its halves in turn, each one's all-reduce beside the other's kernels."""
    tokens, sequence, hidden, inner, heads, layers = size
    world, past, dim = steps.lab.world, 1024, hidden // heads
    layer = [weights(steps.lab, (hidden, 3 * hidden // world), (hidden // world, hidden), (hidden, 2 * inner // world), (inner // world, hidden)) for _ in range(layers)]
    (x0,) = weights(steps.lab, (tokens, hidden))
    keys, values = weights(steps.lab, *[(tokens // sequence, heads // world, past, dim)] * 2) if sequence == 1 else (None, None)

    def attention(x, i, first):
        rows = x.shape[0] // sequence
        q, k, v = (F.rms_norm(x, (hidden,)) @ layer[i][0]).view(rows, sequence, 3, heads // world, dim).permute(2, 0, 3, 1, 4)
        if sequence == 1:
            k, v = keys[first : first + rows], values[first : first + rows]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=sequence > 1)
        return y.transpose(1, 2).reshape(x.shape[0], hidden // world) @ layer[i][1]

    def mlp(x, i, _):
        gate, value = (F.rms_norm(x, (hidden,)) @ layer[i][2]).chunk(2, -1)
        return (F.silu(gate) * value) @ layer[i][3]

    def forward(batches):
        x, n = list(x0.chunk(batches)), tokens // batches
        pending = [None] * batches
        for part in [(f, i) for i in range(layers) for f in (attention, mlp)] + [None]:
            for b in range(batches):
                if pending[b]:
                    y, work = pending[b]
                    work.wait()
                    x[b] = x[b] + y
                if part:
                    y = part[0](x[b], part[1], b * n // sequence)
                    pending[b] = y, dist.all_reduce(y, async_op=True)

    def build(batches, graph):
        step = without_grad(lambda: forward(batches))
        return graphed(steps, step) if graph else step

    def question(captured, measured):
        if captured["batches"] == 1 and measured["batches"] == 2 and captured["graph"] == measured["graph"]:
            return "multistream", {"interleave": 2}
        if captured == {"batches": 1, "graph": False} and measured == {"batches": 1, "graph": True}:
            return "captured", {"graph": True}
        return None

    variants = [({"batches": b, "graph": g}, lambda b=b, g=g: build(b, g), True) for g in (False, True) for b in (1, 2)]
    steps.measure("serving", f"serving_{tag}", variants, question, size)


def moe(steps, tag, size):
    """Two micro-batches through expert-parallel layers: one after the other, and each one's all-to-all beside the other's products."""
    hidden, inner, layers, tokens = size
    layer = [weights(steps.lab, (hidden, inner), (inner, hidden), (hidden, hidden)) for _ in range(layers)]
    batches = weights(steps.lab, *[(tokens, hidden)] * 2)

    def dense(x, i):
        return x + F.rms_norm(x, (hidden,)) @ layer[i][2]

    def expert(x, i):
        return F.silu(x @ layer[i][0]) @ layer[i][1]

    def exchange(x, group):
        out = torch.empty_like(x)
        return out, dist.all_to_all_single(out, x, group=group, async_op=True)

    def arrived(pending):
        pending[1].wait()
        return pending[0]

    def serial(group):
        for x in batches:
            for i in range(layers):
                x = dense(x, i)
                x = x + arrived(exchange(expert(arrived(exchange(x, group)), i), group))

    def interleaved(group):
        x, pending = list(batches), [None, None]
        for i in range(layers):
            for b in 0, 1:
                if pending[b]:
                    x[b] = x[b] + arrived(pending[b])
                x[b] = dense(x[b], i)
                pending[b] = exchange(x[b], group)
            for b in 0, 1:
                pending[b] = exchange(expert(arrived(pending[b]), i), group)
        for b in 0, 1:
            x[b] = x[b] + arrived(pending[b])

    def question(captured, measured):
        overlaps = measured["schedule"] != "serial"
        return "multistream" if overlaps else "bulk", {"channels": measured["channels"], "comm_priority": measured["priority"], "interleave": 2 * overlaps}

    variants = []
    for channels, priority in (0, False), (8, False), (0, True):
        for schedule, run in ("serial", serial), ("two_batch_overlap", interleaved):
            group = steps.group(channels, priority)
            variant = {"schedule": schedule, "channels": channels, "priority": priority}
            variants.append((variant, lambda run=run, group=group: without_grad(lambda: run(group)), channels == 0 and not priority))
    steps.measure("moe", f"moe_ep_{tag}", variants, question)


def dlrm(steps, tag, size):
    """Embedding bags, all-to-all and MLPs; bags and all-to-all in chunks."""
    tables, dim, pooling, batch = size
    world, table_rows = steps.lab.world, 200000
    mine = tables // world

    def mlp(*widths):
        layers = [m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*layers[:-1]).to(BF16)

    with torch.device(steps.lab.device):
        bags = nn.ModuleList(nn.EmbeddingBag(table_rows, dim, mode="sum") for _ in range(mine)).to(BF16)
        bottom, top = mlp(512, 512, 256, dim), mlp(dim * (tables + 1), 1024, 1024, 512, 1)
        indices = [torch.randint(0, table_rows, (batch, pooling)) for _ in range(mine)]
    (features,) = weights(steps.lab, (batch // world, 512))

    def build(chunks, channels):
        rows, group = batch // chunks, steps.group(channels, False)

        def forward():
            pending = []
            for c in range(chunks):
                e = torch.stack([bag(i[c * rows : (c + 1) * rows]) for bag, i in zip(bags, indices)], 1)
                out = torch.empty(e.numel(), device=e.device, dtype=e.dtype)
                pending.append((out, dist.all_to_all_single(out, e.reshape(-1), group=group, async_op=True)))
            dense = bottom(features)
            parts = []
            for out, work in pending:
                work.wait()
                parts.append(out.view(world, rows // world, mine * dim).transpose(0, 1).reshape(rows // world, -1))
            top(torch.cat([torch.cat(parts), dense], 1))

        return without_grad(forward)

    def question(captured, measured):
        if measured["chunks"] == 1:
            return "bulk", {"channels": measured["channels"]}
        return "decompose", {"channels": measured["channels"], "chunks": measured["chunks"]}

    variants = []
    for chunks, channels in (1, 0), (2, 0), (4, 0), (8, 0), (4, 8):
        variants.append(({"chunks": chunks, "channels": channels}, lambda s=(chunks, channels): build(*s), channels == 0 and chunks in (1, 4)))
    steps.measure("dlrm", f"dlrm_{tag}", variants, question)


FRAMEWORKS = {"tp": tp, "moe": moe, "dlrm": dlrm, "decode": decode, "serving": serving, "ddp": ddp, "fsdp": fsdp}


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="DIR", default="steps", help="where rows.jsonl and traces/ go (default: steps)")
    parser.add_argument("--machine", metavar="NAME", help="name of the machine in the rows, without the number of GPUs (default: from the GPU's name)")
    parser.add_argument("--only", metavar="NAMES", default=",".join(FRAMEWORKS), help=f"comma-separated, of {', '.join(FRAMEWORKS)}")
    parser.add_argument("--sizes", choices=SIZES, default="default", help="other: for four GPUs or more; small: a try-out")
    parser.add_argument("--again", metavar="FILE", help="rows of an earlier run: rows get its times, and those that differ by more than 5 %% are marked noisy")
    parser.add_argument("--prefix", default="s", help="of the ids of rows")
    parser.add_argument("--iterations", type=int, default=11, help="timed iterations (default: 11)")
    args = parser.parse_args(argv)
    for name in args.only.split(","):
        if name not in FRAMEWORKS:
            parser.error(f"--only: no {name}")
    return args


def main(argv):
    args = parse(argv)
    os.makedirs(args.out, exist_ok=True)
    lab = Lab(args)
    steps = Steps(lab, args)
    for name in args.only.split(","):
        for tag, size in SIZES[args.sizes][name].items():
            FRAMEWORKS[name](steps, tag, size)
            torch.cuda.empty_cache()
    lab.say(f"done: {steps.rows} rows in {os.path.join(args.out, 'rows.jsonl')}")
    dist.barrier(group=lab.host)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
