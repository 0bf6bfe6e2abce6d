import contextlib
import types


class OutOfMemoryError(Exception):
    pass


class Stream:
    def __init__(self):
        self.now = 0.0
        streams.append(self)

    def wait_stream(self, other):
        self.now = max(self.now, other.now)

    def wait_event(self, event):
        self.now = max(self.now, event.at)


streams = []
current = [Stream()]
trace = None  # kernels seen by the profiler, while it runs


def kernel(name, us):
    stream = current[-1]
    start, stream.now = stream.now, stream.now + us
    if trace is not None:
        trace.append((name, start, stream.now))


class Event:
    def __init__(self, enable_timing=False):
        self.at = None

    def record(self, stream=None):
        self.at = (stream or current[-1]).now

    def elapsed_time(self, end):
        return (end.at - self.at) / 1e3


@contextlib.contextmanager
def stream(s):
    current.append(s)
    yield
    current.pop()


def current_stream():
    return current[-1]


def synchronize():
    latest = max(s.now for s in streams)
    for s in streams:
        s.now = latest


def _sleep(cycles):
    kernel("sleep", cycles / 1000)


def is_available():
    return True


def set_device(_):
    pass


def empty_cache():
    pass


def get_device_properties(_):
    return types.SimpleNamespace(name="NVIDIA H200", multi_processor_count=132, total_memory=1 << 37)
