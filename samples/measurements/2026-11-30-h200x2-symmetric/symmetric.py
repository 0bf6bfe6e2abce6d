"""Blocks of two linear layers by FSDP2 with gathers and reduce-scatters of channels, of NCCL's symmetric kernels, of copy engines (zero-CTA
policy) and of groups of their own; and linear layers by DDP on 128 MiB of inputs a step, from pageable and from pinned memory and
copied during the step before. Without set_symm_mem_for_comm (PyTorch 2.12) collectives get buffers of a registered memory pool.

usage: OUT=folder NCCL_CUMEM_ENABLE=1 torchrun --nproc-per-node 2 symmetric.py
"""
import gc, gzip, json, math, os, shutil, time
import torch, torch.nn as nn, torch.distributed as dist
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.device_mesh import init_device_mesh
from torch.profiler import profile, schedule
rank, world, out = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["OUT"]
dev = torch.device("cuda", rank)
torch.cuda.set_device(dev)
dist.init_process_group("nccl", device_id=dev)
class Comm: # of FSDP2: set_custom_all_gather, set_custom_reduce_scatter
    def __init__(self, group, symmetric):
        self.group, self.symmetric, self.rings, self.pools = group, symmetric, {}, []
    def allocate(self, size, *, dtype, device):
        if not self.symmetric: return torch.empty(*size, dtype=dtype, device=device)
        key = math.prod(size), dtype
        if key not in self.rings:
            backend = self.group._get_backend(dev)
            pool = torch.cuda.MemPool(backend.mem_allocator)
            with torch.cuda.use_mem_pool(pool): ring = [torch.empty(key[0], dtype=dtype, device=device) for _ in range(3)]
            backend.register_mem_pool(pool, symm=True)
            self.pools.append(pool)
            self.rings[key] = [0, ring]
        self.rings[key][0] += 1
        return self.rings[key][1][self.rings[key][0] % 3].view(*size)
class Gather(Comm):
    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        return dist.all_gather_into_tensor(output_tensor, input_tensor, group=self.group, async_op=async_op)
class Scatter(Comm):
    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        return dist.reduce_scatter_tensor(output=output_tensor, input=input_tensor, group=self.group, op=dist.ReduceOp.SUM, async_op=async_op)
def group_of(policy):
    options = dist.ProcessGroupNCCL.Options()
    if policy: options.config.cta_policy = dist.ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO
    group = dist.new_group(list(range(world)), pg_options=options, device_id=dev)
    dist.all_reduce(torch.ones(1, device=dev), group=group)
    return group
groups = {name: group_of(name == "zero") for name in ("one", "zero", "scatters")}
class Block(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)
    def forward(self, x): return x + self.down(nn.functional.gelu(self.up(self.norm(x))))
modes = { # of gathers and of reduce-scatters: the group, and whether buffers are symmetric
    "base": (("one", False), ("one", False)), "gathers": (("one", True), ("one", False)), "sums": (("one", False), ("one", True)),
    "both": (("one", True), ("one", True)), "zero": (("zero", True), ("zero", False)), "group": (("one", False), ("scatters", False)),
}
comms = {m: (Gather(groups[g], s), Scatter(groups[h], t)) for m, ((g, s), (h, t)) in modes.items()}
def fsdp(mode, tokens, width=4096, inner=14336, layers=6):
    net, mesh = nn.Sequential(*[Block(width, inner) for _ in range(layers)]).to(dev), init_device_mesh("cuda", (world,))
    for layer in net: fully_shard(layer, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16))
    fully_shard(net, mesh=mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16))
    for module in net.modules():
        if isinstance(module, FSDPModule):
            module.set_custom_all_gather(comms[mode][0])
            module.set_custom_reduce_scatter(comms[mode][1])
    opt, x = torch.optim.SGD(net.parameters(), 1e-4), torch.randn(tokens, width, device=dev, dtype=torch.bfloat16)
    def step():
        opt.zero_grad(set_to_none=True)
        net(x).float().pow(2).mean().backward()
        opt.step()
    return step
def ddp(mode, rows=65536, width=512, hidden=4096, layers=5):
    net = nn.Sequential(*[m for k in range(layers) for m in (nn.Linear(width if k == 0 else hidden, hidden), nn.ReLU())], nn.Linear(hidden, 1)).to(dev)
    net = nn.parallel.DistributedDataParallel(net, device_ids=[rank])
    opt, host = torch.optim.SGD(net.parameters(), 1e-4), [torch.randn(rows, width) for _ in range(3)]
    if mode != "pageable": host = [h.pin_memory() for h in host]
    side, state = torch.cuda.Stream(), {"i": 0, "next": None}
    def fetch():
        state["i"] += 1
        return host[state["i"] % 3].to(dev, non_blocking=mode != "pageable")
    def step():
        main = torch.cuda.current_stream()
        if mode == "batch":
            if state["next"] is None:
                with torch.cuda.stream(side): state["next"] = fetch()
            main.wait_stream(side)
            x = state["next"]
            x.record_stream(main)
            with torch.cuda.stream(side): state["next"] = fetch()
        else:
            x = fetch()
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16): y = net(x)
        y.float().pow(2).mean().backward()
        opt.step()
    return step
def timed(step, n=12):
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    t = time.perf_counter()
    for _ in range(n): step()
    torch.cuda.synchronize()
    return (time.perf_counter() - t) / n * 1e6
def capture(step, name):
    os.makedirs(f"{out}/{name}", exist_ok=True)
    def save(prof):
        prof.export_chrome_trace(f"/tmp/{name}{rank}.json")
        with open(f"/tmp/{name}{rank}.json", "rb") as f, gzip.open(f"{out}/{name}/rank{rank}.json.gz", "wb") as g: shutil.copyfileobj(f, g)
    with profile(record_shapes=True, schedule=schedule(wait=2, warmup=2, active=3, repeat=1), on_trace_ready=save) as prof:
        for i in range(7):
            step()
            if i == 3: torch.cuda.synchronize()
            prof.step()
times = {}
def measure(name, makes, captured):
    for turn in range(3): # each second time in the opposite order
        for mode in list(makes)[::1 - 2 * (turn % 2)]:
            torch.manual_seed(1)
            step = makes[mode]()
            for _ in range(5): step()
            got = times.setdefault(f"{name}_{mode}", [])
            got.extend(timed(step) for _ in range(2))
            if turn == 0 and mode in captured: capture(step, f"{name}_{mode}")
            del step
            gc.collect()
            torch.cuda.empty_cache()
for tokens in (2048, 6144): measure(f"fsdp_t{tokens}", {m: lambda m=m: fsdp(m, tokens) for m in modes}, ["base"])
measure("ddp_inputs", {m: lambda m=m: ddp(m) for m in ("pageable", "pinned", "batch")}, ["pageable"])
for name, got in times.items():
    slowest = torch.tensor(got, device=dev)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    times[name] = sorted(round(t, 1) for t in slowest.tolist())
    if rank == 0: print(name, times[name], flush=True)
if rank == 0: json.dump(times, open(f"{out}/times.json", "w"))
os._exit(0) # registered pools outlive their groups
