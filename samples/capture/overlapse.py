"""Captures a few steps of every rank for overlapse. Copy this file beside your script.

    import overlapse
    with torch.profiler.profile(schedule=torch.profiler.schedule(wait=2, warmup=1, active=3, repeat=1),
                                on_trace_ready=overlapse.handler("out")) as prof:
        for i, batch in enumerate(batches):
            step(batch)
            if i == 2: torch.cuda.synchronize()  # last warm-up step: the recorded steps start on an idle device
            prof.step()

Each rank writes out/rankN.json.gz, with shapes, and what operators read and write in one more step into out/et.
When all ranks have, rank 0 runs `overlapse replay out` beside the program, if it is on the PATH.
`overlapse capture -- torchrun train.py` does this for a script that was not changed. Needs PyTorch 2.0 (1.13: no et).
"""

import atexit
import ctypes
import functools
import glob
import gzip
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time

PATIENCE = 300  # seconds that rank 0 waits for the files of the others


def setting(*names, default=0):
    return next((int(os.environ[n]) for n in names if os.environ.get(n, "").isdigit()), default)


def rank():
    return setting("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def say(text):
    print(f"overlapse: rank {rank()}: {text}", file=sys.stderr, flush=True)


def write(prof, name):
    """Writes a profile whole or not at all."""
    os.makedirs(os.path.dirname(name), exist_ok=True)
    part = f"{name}.{os.getpid()}.part.json"
    prof.export_chrome_trace(part)
    with open(part, "rb") as raw, gzip.open(part + ".gz", "wb", 5) as packed:
        shutil.copyfileobj(raw, packed)
    os.remove(part)
    os.replace(part + ".gz", name)


class handler:
    """on_trace_ready of torch.profiler.profile: writes this rank's trace into a folder."""

    def __init__(self, out, answer=True):
        from torch.profiler import profile

        self.out, self.done, self.answer, self.extra = os.path.abspath(out), False, answer, None
        prepare = profile.prepare_trace

        def prepare_trace(prof):  # the right options, whatever the script says: stacks and memory slow the host
            if isinstance(prof.on_trace_ready, handler):
                prof.record_shapes, prof.with_stack, prof.profile_memory = True, False, False
            prepare(prof)

        profile.prepare_trace = prepare_trace

    def __call__(self, prof):
        if self.done:
            return  # a schedule that repeats: the first trace counts
        self.done = True
        try:
            write(prof, f"{self.out}/rank{rank()}.json.gz")
            self.one_more(prof)
        except Exception as e:  # a capture must not end a training
            say(f"cannot write the trace: {e!r}")
        if self.answer and rank() == 0:
            threading.Thread(target=self.replay).start()  # the program waits for it when it ends

    def one_more(self, prof):
        """Records what operators read and write in the next step, which that makes slower."""
        import torch.profiler as tp

        if not hasattr(tp, "ExecutionTraceObserver"):
            return
        os.makedirs(self.out + "/et", exist_ok=True)
        self.observer, self.extra = tp.ExecutionTraceObserver(), tp.profile(record_shapes=True)
        self.observer.register_callback(f"{self.out}/et/rank{rank()}.et.json")
        self.extra.start()
        self.observer.start()
        self.mark = tp.record_function("ProfilerStep#0")
        self.mark.__enter__()
        step = prof.step

        def last():
            prof.step = step
            self.close()
            step()

        prof.step = last  # of this profiler only
        atexit.register(self.close)  # if no step follows

    def close(self):
        import torch

        extra, self.extra = self.extra, None
        try:
            if extra is None:
                return
            self.mark.__exit__(None, None, None)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.observer.stop()
            self.observer.unregister_callback()
            extra.stop()
            write(extra, f"{self.out}/et/rank{rank()}.json.gz")
        except Exception as e:
            say(f"cannot write the execution trace: {e!r}")

    def replay(self):
        n, end = 0, time.time() + PATIENCE
        world = setting("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", default=1)
        while n < world and time.time() < end:
            time.sleep(1)
            n = len(glob.glob(self.out + "/rank*.json.gz"))
        if n < world:
            say(f"{n} of {world} ranks are in {self.out}: copy the others there, then overlapse replay {self.out}")
        elif shutil.which("overlapse"):
            subprocess.run(["overlapse", "replay", self.out], check=False)
        else:
            say(f"captured; next, where overlapse is: overlapse replay {self.out}")


class Steps:
    """Counts the steps of the first optimizer of a script that was not changed, and captures some of them."""

    def __init__(self, torch):
        self.warmup, self.steps = setting("OVERLAPSE_WARMUP", default=5), setting("OVERLAPSE_STEPS", default=3)
        self.count, self.first, self.prof, self.roctx = 0, None, None, None
        if os.environ.get("OVERLAPSE_ROCPROF"):
            self.roctx = ctypes.CDLL("librocprofiler-sdk-roctx.so")
        init = torch.optim.Optimizer.__init__

        def hooked(optimizer, *args, **kwargs):
            init(optimizer, *args, **kwargs)
            inner = type(optimizer).step

            @functools.wraps(inner)
            def step(this, *args, **kwargs):
                result = inner(this, *args, **kwargs)
                self.first = self.first or id(this)
                if self.first == id(this):
                    self.step()
                return result

            if not hasattr(inner, "overlapse"):
                step.overlapse = True
                type(optimizer).step = step

        torch.optim.Optimizer.__init__ = hooked
        atexit.register(self.at_exit)

    def step(self):
        import torch
        import torch.profiler as tp

        self.count += 1
        if self.roctx:
            if self.count == self.warmup:
                self.roctx.roctxProfilerResume(0)
            if self.warmup < self.count <= self.warmup + self.steps:
                self.roctx.roctxRangePop()
            if self.count == self.warmup + self.steps:
                self.roctx.roctxProfilerPause(0)
            if self.warmup <= self.count < self.warmup + self.steps:
                self.roctx.roctxRangePushA(b"ProfilerStep#%d" % self.count)
        elif self.count == self.warmup:
            plan = tp.schedule(wait=0, warmup=1, active=self.steps, repeat=1)
            self.prof = tp.profile(schedule=plan, on_trace_ready=handler(os.environ["OVERLAPSE_OUT"], answer=False))
            self.prof.start()
        elif self.prof and self.count <= self.warmup + self.steps + 2:
            if self.count == self.warmup + 1 and torch.cuda.is_available():
                torch.cuda.synchronize()  # the profiler records from here on: what was launched before is of no recorded step
            self.prof.step()

    def at_exit(self):
        if 0 < self.count <= self.warmup + self.steps:
            say(f"ended after {self.count} steps: to warm up for {self.warmup} and record {self.steps} takes {self.warmup + self.steps + 1} (--warmup, --steps)")


class AfterImport:
    """Counts steps from the import of torch on."""

    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            if spec and spec.loader:
                load = spec.loader.exec_module
                spec.loader.exec_module = lambda module: (load(module), Steps(module))
            return spec
