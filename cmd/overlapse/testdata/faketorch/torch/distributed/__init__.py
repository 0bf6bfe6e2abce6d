import os
import types

from .. import cuda


class Group:
    def __init__(self, channels=24):
        self.channels = channels


group = types.SimpleNamespace(WORLD=Group())


class ProcessGroupNCCL:
    class Options:
        def __init__(self):
            self.config = types.SimpleNamespace(max_ctas=24)


def init_process_group(backend, timeout=None):
    pass


def destroy_process_group():
    pass


def new_group(ranks=None, timeout=None, backend=None, pg_options=None):
    return Group(pg_options.config.max_ctas if pg_options else 24)


def barrier(group=None):
    pass


def all_gather_object(out, mine, group=None):
    out[:] = [mine] * len(out)


def move(name, tensor, group, rounds):
    channels = (group or Group()).channels
    ranks = int(os.environ["WORLD_SIZE"])
    beside = 1.0 if cuda.current_stream() is cuda.current[0] else 1.5  # on a side stream only beside compute
    cuda.kernel(f"ncclDevKernel_{name}", 10 + beside * 2 * tensor.numel() * rounds * (ranks - 1) / ranks / (25e3 * channels))


def all_reduce(t, group=None, async_op=False):
    move("AllReduce", t, group, 2)


def reduce_scatter_tensor(out, t, group=None, async_op=False):
    move("ReduceScatter", t, group, 1)


def all_gather_into_tensor(out, t, group=None, async_op=False):
    move("AllGather", out, group, 1)


def all_to_all_single(out, t, group=None, async_op=False):
    move("SendRecv", t, group, 1)
