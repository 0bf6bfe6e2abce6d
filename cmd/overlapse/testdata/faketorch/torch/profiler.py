import contextlib
import types

from . import cuda


class ProfilerActivity:
    CPU, CUDA = "cpu", "cuda"


class Profile:
    def events(self):
        return [types.SimpleNamespace(name=n, device_type="DeviceType.CUDA", time_range=types.SimpleNamespace(start=a, end=b)) for n, a, b in self.seen]

    def export_chrome_trace(self, path):
        with open(path, "w") as f:
            f.write("{}")


@contextlib.contextmanager
def profile(activities, record_shapes=False):
    p = Profile()
    p.seen = cuda.trace = []
    yield p
    cuda.trace = None


@contextlib.contextmanager
def record_function(name):
    yield
