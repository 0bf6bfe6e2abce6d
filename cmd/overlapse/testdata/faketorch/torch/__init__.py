"""As much of PyTorch as samples/capture/capture.py uses, on a GPU that is a few formulas: streams are clocks in
microseconds, a GEMM takes its flops at 800 TFLOP/s, a collective its bytes at 25 GB/s a channel, half
as long again beside compute. One process plays rank 0; the others do as it does."""

import contextlib

from . import cuda, distributed, nn, profiler, version

__version__ = "0"
bfloat16, float16, float32, uint8, int32, int64 = "bfloat16", "float16", "float32", "uint8", "int32", "int64"


def device(*_):
    return "cuda:0"


class Tensor:
    def __init__(self, *shape, dtype=None):
        self.shape = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape

    def numel(self):
        n = 1
        for side in self.shape:
            n *= side
        return n

    def chunk(self, n, dim=0):
        return [self] * n

    def __iter__(self):
        return iter([self] * 3)

    def __matmul__(self, other):
        cuda.kernel("nvjet", 1000)
        return self

    def __add__(self, other):
        cuda.kernel("elementwise", 10)
        return self

    __mul__ = __truediv__ = __add__

    def __getitem__(self, _):
        return self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *a, **k: self


def randn(*shape, device=None, dtype=None):
    return Tensor(*shape)


empty = zeros = randn


def empty_like(t):
    return t


def mm(a, b, out):
    cuda.kernel("nvjet", 2 + 2 * a.shape[0] * a.shape[1] * b.shape[1] / 800e6)


@contextlib.contextmanager
def no_grad():
    yield
