"""A stand-in for PyTorch: an optimizer and a profiler whose traces have GPU work, for tests of samples/capture/overlapse.py."""

import json
import os
import sys
import types


def module(name, **members):
    m = types.ModuleType("torch." + name)
    m.__dict__.update(members)
    sys.modules["torch." + name] = m
    return m


class Optimizer:
    def __init__(self, params=()):
        self.steps = 0


class SGD(Optimizer):
    def step(self, closure=None):
        self.steps += 1
        BUSY.append(self.steps)
        return self.steps


LOG = []  # what profilers recorded
BUSY = []  # the device, since its last synchronization


class profile:
    def __init__(self, *, schedule=None, on_trace_ready=None, record_shapes=False, with_stack=False, profile_memory=False):
        self.on_trace_ready, self.plan, self.now, self.marks = on_trace_ready, schedule, 0, []
        self.record_shapes, self.with_stack, self.profile_memory = record_shapes, with_stack, profile_memory

    def prepare_trace(self):
        LOG.append((self.record_shapes, self.with_stack, self.profile_memory))

    def start(self):
        if self.plan is None or self.plan(0) == "WARMUP":
            self.prepare_trace()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        pass

    def step(self):
        before, self.now = self.plan(self.now), self.now + 1
        now = self.plan(self.now)
        if now == "WARMUP":
            self.prepare_trace()
        if now in ("RECORD", "SAVE"):
            if not self.marks:
                print("the profiler records, the device is", "busy" if BUSY else "idle", file=sys.stderr)
            self.marks.append(self.now)
        if before == "SAVE":
            self.on_trace_ready(self)

    def export_chrome_trace(self, path):
        rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        kernels = os.environ.get("STUB_GPU", "1") == "1"
        events = []
        for i, mark in enumerate(self.marks or [0]):
            at = 1000 * i + 10
            events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{mark}", "pid": 100, "tid": 100, "ts": at, "dur": 990})
            for k, (name, start, dur, stream) in enumerate([("gemm", 20, 400, 7), ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 430, 300, 9)]):
                if kernels:
                    c = 10 * i + k + 1
                    events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 100, "ts": at + 2 * k + 1, "dur": 1, "args": {"correlation": c}})
                    args = {"device": rank, "stream": stream, "correlation": c, "grid": [132, 1, 1], "block": [256, 1, 1]}
                    if stream == 9:
                        args |= {"Collective name": "allreduce", "In msg nelems": 1 << 22, "Out msg nelems": 1 << 22, "dtype": "BFloat16", "Group size": world, "Process Group Name": "0", "Process Group Ranks": str(list(range(world)))}
                    events.append({"ph": "X", "cat": "kernel", "name": name, "pid": rank, "tid": stream, "ts": at + start, "dur": dur, "args": args})
        with open(path, "w") as f:
            json.dump({"deviceProperties": [{"id": i, "name": "NVIDIA H200", "numSms": 132} for i in range(world)], "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world}, "traceEvents": events}, f)


def schedule(wait=0, warmup=0, active=1, repeat=0):
    def plan(step):
        for name, n in (("NONE", wait), ("WARMUP", warmup), ("RECORD", active - 1), ("SAVE", 1)):
            if step < n:
                return name
            step -= n
        return "NONE"

    return plan


class ExecutionTraceObserver:
    def register_callback(self, path):
        self.path = path

    def start(self):
        pass

    def stop(self):
        with open(self.path, "w") as f:
            json.dump({"schema": "1.1.1-chakra.0.0.4", "pid": os.getpid(), "nodes": []}, f)

    def unregister_callback(self):
        pass


class record_function:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


optim = module("optim", Optimizer=Optimizer, SGD=SGD)
profiler = module("profiler", profile=profile, schedule=schedule, ExecutionTraceObserver=ExecutionTraceObserver, record_function=record_function)
cuda = module("cuda", is_available=lambda: True, synchronize=BUSY.clear)
