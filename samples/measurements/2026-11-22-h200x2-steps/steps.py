"""Training and inference steps as frameworks run them, each under the settings that a user can switch: measured times and traces.

    torchrun --nproc-per-node 2 steps.py --out OUT [--no-traces] [--only ddp,fsdp,...]

rows.jsonl: workload, variant (what was switched), us per step (median over ranks' slowest), trace (of the variant itself, if recorded).
"""
import argparse, datetime, json, os, statistics, sys, time, traceback
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist
from torch.profiler import profile, ProfilerActivity, record_function

BF = torch.bfloat16
SETS = {
    'first': dict(
        ddp=((4096, 11008, 32, 4, 1, 2048, 'h4096'), (2048, 5504, 16, 12, 4, 2048, 'h2048')),  # H, FF, heads, L, B, S
        fsdp=((4096, 11008, 32, 6, 1, 2048, 'h4096'), (2048, 5504, 16, 12, 4, 2048, 'h2048')),
        tp=((4096, 8192, 28672, 64, 2, 's4096'), (8192, 4096, 14336, 32, 4, 's8192')),  # S, H, FF, heads, L
        moe=((4096, 14336, 3, 8192), (4096, 14336, 3, 24576)),  # H, FF, L, T
        dlrm=((26, 128, 40, 16384), (64, 256, 80, 32768)),  # tables, D, P, B
        decode=((1, 8192, 28672, 8), (32, 8192, 28672, 8)),  # B, H, FF, L
        pipeline=((4096, 11008, 32, 4, 8, 1024),)),
}


class RMS(nn.Module):
    def __init__(s, H): super().__init__(); s.w = nn.Parameter(torch.ones(H))
    def forward(s, x): return F.rms_norm(x, (x.shape[-1],), s.w)


class Block(nn.Module):
    def __init__(s, H, FF, heads):
        super().__init__(); s.heads = heads
        s.n1, s.n2 = RMS(H), RMS(H)
        s.qkv, s.o = nn.Linear(H, 3 * H, bias=False), nn.Linear(H, H, bias=False)
        s.up, s.down = nn.Linear(H, 2 * FF, bias=False), nn.Linear(FF, H, bias=False)
    def forward(s, x):
        B, S, H = x.shape
        q, k, v = s.qkv(s.n1(x)).view(B, S, 3, s.heads, H // s.heads).permute(2, 0, 3, 1, 4)
        x = x + s.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, S, H))
        g, u = s.up(s.n2(x)).chunk(2, -1)
        return x + s.down(F.silu(g) * u)


class GPT(nn.Module):
    def __init__(s, V, H, FF, heads, L):
        super().__init__(); s.emb = nn.Embedding(V, H); s.blocks = nn.ModuleList([Block(H, FF, heads) for _ in range(L)]); s.n = RMS(H); s.head = nn.Linear(H, V, bias=False)
    def forward(s, t):
        x = s.emb(t)
        for b in s.blocks: x = b(x)
        return s.head(s.n(x))


class Lab:
    def __init__(s, out):
        s.rank, s.world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
        s.dev = torch.device('cuda', int(os.environ['LOCAL_RANK'])); torch.cuda.set_device(s.dev)
        dist.init_process_group('nccl', device_id=s.dev, timeout=datetime.timedelta(minutes=5))
        s.cpu = dist.new_group(backend='gloo'); s.out = out; s.t0 = time.time(); s.n = 0
        os.makedirs(out, exist_ok=True); s.groups = {}
        s.name = torch.cuda.get_device_properties(0).name.split()[1].lower()
    def say(s, *a):
        if s.rank == 0: print(f'[{time.time()-s.t0:6.1f}]', *a, flush=True)
    def group(s, ctas=0, prio=False):
        k = (ctas, prio)
        if k not in s.groups:
            o = dist.ProcessGroupNCCL.Options(); o.is_high_priority_stream = prio
            if ctas: o.config.max_ctas = ctas; o.config.min_ctas = min(ctas, 1)
            s.groups[k] = dist.new_group(list(range(s.world)), pg_options=o)
            dist.all_reduce(torch.ones(1, device=s.dev), group=s.groups[k])
        return s.groups[k]
    def time(s, step, n=9, warm=4):
        for _ in range(warm): step()
        torch.cuda.synchronize(); dist.barrier(group=s.cpu)
        ev = [torch.cuda.Event(enable_timing=True) for _ in range(n + 1)]
        ev[0].record()
        for i in range(n): step(); ev[i + 1].record()
        torch.cuda.synchronize()
        t = torch.tensor([ev[i].elapsed_time(ev[i + 1]) * 1e3 for i in range(n)], dtype=torch.float64)
        dist.all_reduce(t, op=dist.ReduceOp.MAX, group=s.cpu)
        return sorted(t.tolist())
    def trace(s, name, step, n=2):
        import gzip, shutil
        from torch.profiler import ExecutionTraceObserver
        d = os.path.join(s.out, 'traces', name); os.makedirs(d, exist_ok=True)
        torch.cuda.synchronize(); dist.barrier(group=s.cpu)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as p:
            for i in range(n):
                with record_function(f'ProfilerStep#{i+1}'): step()
            torch.cuda.synchronize()
        p.export_chrome_trace(os.path.join(d, f'rank{s.rank}.json.gz'))
        # what reads and writes which tensor: an execution trace with a profile of the same step
        et = ExecutionTraceObserver(); et.register_callback(f'/tmp/et{s.rank}.json')
        dist.barrier(group=s.cpu)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True, execution_trace_observer=et) as p:
            with record_function('ProfilerStep#1'): step()
            torch.cuda.synchronize()
        e = os.path.join(d, 'et'); os.makedirs(e, exist_ok=True)
        p.export_chrome_trace(os.path.join(e, f'rank{s.rank}.json.gz'))
        if os.path.exists(f'/tmp/et{s.rank}.json'):
            with open(f'/tmp/et{s.rank}.json', 'rb') as a, gzip.open(os.path.join(e, f'rank{s.rank}.et.json.gz'), 'wb', 6) as b: shutil.copyfileobj(a, b)
    def row(s, workload, variant, step, trace=True, n=11, **extra):
        us = s.time(step, n)
        name = None
        if trace and s.traces:
            name = f"{s.name}x{s.world}_{workload}_" + '_'.join(f'{k}{v}' for k, v in variant.items()).replace('.', '')
            s.trace(name, step)
        r = dict(id=f'f{s.n:03d}', machine=f'{s.name}x{s.world}', world=s.world, workload=workload, variant=variant, us=round(statistics.median(us), 1), min_us=round(us[0], 1), max_us=round(us[-1], 1), trace=name, **extra)
        s.n += 1
        if s.rank == 0:
            with open(os.path.join(s.out, 'rows.jsonl'), 'a') as f: f.write(json.dumps(r) + '\n')
        s.say(workload, variant, r['us'])


def gpt(lab, V=32000, H=2048, FF=5504, heads=16, L=12):
    torch.manual_seed(0)
    with torch.device(lab.dev): m = GPT(V, H, FF, heads, L).to(BF)
    return m


def batch(lab, B, S, V=32000):
    return torch.randint(0, V, (B, S), device=lab.dev), torch.randint(0, V, (B, S), device=lab.dev)


def loss_of(m, x, y):
    o = m(x); return F.cross_entropy(o.view(-1, o.shape[-1]).float(), y.view(-1))


def ddp(lab):
    from torch.nn.parallel import DistributedDataParallel as DDP
    for H, FF, heads, L, B, S, tag in lab.set['ddp']:
        x, y = batch(lab, B, S)
        def build(cap, ctas, prio, overlap=True):
            m = gpt(lab, H=H, FF=FF, heads=heads, L=L)
            d = DDP(m, process_group=lab.group(ctas, prio), bucket_cap_mb=cap, gradient_as_bucket_view=True, device_ids=[lab.dev.index])
            o = torch.optim.SGD(d.parameters(), lr=1e-5)
            g = lab.group(ctas, prio)
            def step():
                if overlap:
                    loss_of(d, x, y).backward()
                else:
                    with d.no_sync(): loss_of(d, x, y).backward()
                    ps = [p.grad for p in reversed(list(m.parameters()))]; bucket, size = [], 0
                    for i, q in enumerate(ps):
                        bucket.append(q); size += q.numel() * 2
                        if size >= cap * 2**20 or i == len(ps) - 1:
                            flat = torch._utils._flatten_dense_tensors(bucket); dist.all_reduce(flat, group=g)
                            for a, b in zip(bucket, torch._utils._unflatten_dense_tensors(flat, bucket)): a.copy_(b)
                            bucket, size = [], 0
                o.step(); o.zero_grad(set_to_none=False)
            return step
        for cap, ctas, prio, ov in ((25, 0, False, True), (25, 0, False, False), (25, 4, False, True), (25, 8, False, True), (25, 2, False, True), (25, 0, True, True), (100, 0, False, True), (100, 0, False, False), (1000, 0, False, True)):
            s = build(cap, ctas, prio, ov)
            lab.row(f'ddp_{tag}', dict(bucket_mb=cap, channels=ctas, priority=prio, overlap=ov), s, trace=(ctas == 0 and not prio and cap < 1000))
            del s; torch.cuda.empty_cache()


def fsdp(lab):
    from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
    from torch.distributed.device_mesh import DeviceMesh
    for H, FF, heads, L, B, S, tag in lab.set['fsdp']:
        x, y = batch(lab, B, S)
        def build(ctas, prio, overlap, reshard=True):
            mesh = DeviceMesh.from_group(lab.group(ctas, prio), 'cuda')
            m = gpt(lab, H=H, FF=FF, heads=heads, L=L)
            for b in m.blocks: fully_shard(b, mesh=mesh, reshard_after_forward=reshard)
            fully_shard(m, mesh=mesh, reshard_after_forward=reshard)
            o = torch.optim.SGD(m.parameters(), lr=1e-5)
            if not overlap:
                st = m._get_fsdp_state(); st._lazy_init(); c = st._comm_ctx; cur = torch.cuda.current_stream()
                c.all_gather_copy_in_stream = c.all_gather_stream = c.reduce_scatter_stream = c.all_reduce_stream = cur
            def step():
                loss_of(m, x, y).backward(); o.step(); o.zero_grad(set_to_none=True)
            return step
        for ctas, prio, ov, rs in ((0, False, True, True), (0, False, False, True), (4, False, True, True), (8, False, True, True), (0, True, True, True), (0, False, True, False)):
            try:
                s = build(ctas, prio, ov, rs)
                lab.row(f'fsdp_{tag}', dict(channels=ctas, priority=prio, overlap=ov, reshard=rs), s, trace=(ctas == 0 and not prio))
                del s
            except Exception as e:
                lab.say('fsdp', ctas, prio, ov, repr(e)[:300])
            torch.cuda.empty_cache()


def tp(lab):
    """Sequence-parallel Llama layers: all-gather -> products -> reduce-scatter, eager, compiled, and compiled to pipelined one-sided operators."""
    import torch.distributed._functional_collectives as fc
    import torch.distributed._symmetric_memory as symm
    gname = dist.group.WORLD.group_name; symm.enable_symm_mem_for_group(gname); W = lab.world
    for S, H, FF, heads, L, tag in lab.set['tp']:
        torch.manual_seed(lab.rank)
        r = lambda *z: torch.randn(*z, device=lab.dev, dtype=BF) * 0.02
        Wt = [(r(H, 3 * H // W), r(H // W, H), r(H, 2 * FF // W), r(FF // W, H)) for _ in range(L)]
        x0 = r(S // W, H)
        def ag(x): return fc.all_gather_tensor(x, 0, gname)
        def rs(x): return fc.reduce_scatter_tensor(x, 'sum', 0, gname)
        def model(x):
            for qkv, o, up, down in Wt:
                q, k, v = (ag(F.rms_norm(x, (H,))) @ qkv).view(1, S, 3, heads // W, H // heads).permute(2, 0, 3, 1, 4)
                a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(S, H // W)
                x = x + rs(a @ o)
                g, u = (ag(F.rms_norm(x, (H,))) @ up).chunk(2, -1)
                x = x + rs((F.silu(g) * u) @ down)
            return x
        def run(f):
            def step():
                with torch.no_grad(): return f(x0)
            return step
        for mode in ('eager', 'compiled', 'async_tp'):
            try:
                torch._dynamo.reset(); import torch._inductor.config as ic
                ic._micro_pipeline_tp = mode == 'async_tp'
                f = model if mode == 'eager' else torch.compile(model, fullgraph=True)
                lab.row(f'tp_sp_{tag}', dict(mode=mode), run(f), n=15)
            except Exception as e:
                lab.say('tp', mode, repr(e)[:400])
        ic._micro_pipeline_tp = False; torch._dynamo.reset(); torch.cuda.empty_cache()


def decode(lab):
    """Tensor-parallel decoding in a captured graph: NCCL's all-reduce against one-shot over symmetric memory."""
    import torch.distributed._symmetric_memory as symm
    W = lab.world
    for B, H, FF, L in lab.set['decode']:
        tag = f'b{B}'
        r = lambda *z: torch.randn(*z, device=lab.dev, dtype=BF) * 0.02
        Wt = [(r(H, 3 * H // W), r(H // W, H), r(H, 2 * FF // W), r(FF // W, H)) for _ in range(L)]
        x0 = r(B, H); buf = symm.empty(B, H, dtype=BF, device=lab.dev); symm.rendezvous(buf, dist.group.WORLD)
        def fwd(reduce):
            x = x0
            for qkv, o, up, down in Wt:
                y = (F.rms_norm(x, (H,)) @ qkv)[:, :H // W]
                x = x + reduce(y, o)
                g, u = (F.rms_norm(x, (H,)) @ up).chunk(2, -1)
                x = x + reduce(F.silu(g) * u, down)
            return x
        def nccl(a, w):
            y = a @ w; dist.all_reduce(y); return y
        def oneshot(a, w):
            torch.mm(a, w, out=buf); return torch.ops.symm_mem.one_shot_all_reduce(buf, 'sum', dist.group.WORLD.group_name)
        def twoshot(a, w):
            torch.mm(a, w, out=buf); return torch.ops.symm_mem.two_shot_all_reduce_(buf, 'sum', dist.group.WORLD.group_name).clone()
        for name, red in (('nccl', nccl), ('oneshot', oneshot), ('twoshot', twoshot)):
            try:
                with torch.no_grad():
                    for _ in range(3): fwd(red)
                    torch.cuda.synchronize(); dist.barrier(group=lab.cpu)
                    g = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(g): fwd(red)
                lab.row(f'decode_tp_{tag}', dict(allreduce=name, graph=True), g.replay, n=21)
                if name == 'nccl':
                    def eager():
                        with torch.no_grad(): fwd(nccl)
                    lab.row(f'decode_tp_{tag}', dict(allreduce=name, graph=False), eager, n=21)
            except Exception as e:
                lab.say('decode', name, repr(e)[:300])


def moe(lab):
    """Two micro-batches through expert-parallel layers: one after the other, and each one's all-to-all beside the other's products."""
    W = lab.world
    r = lambda *z: torch.randn(*z, device=lab.dev, dtype=BF) * 0.02
    for H, FF, L, T in lab.set['moe']:
        tag = f'h{H}_t{T}'
        Wt = [(r(H, FF), r(FF, H), r(H, H)) for _ in range(L)]
        xs = [r(T, H) for _ in range(2)]
        def dense(x, i): return x + F.rms_norm(x, (H,)) @ Wt[i][2]
        def expert(y, i): return F.silu(y @ Wt[i][0]) @ Wt[i][1]
        def a2a(x, g=None, wait=True):
            out = torch.empty_like(x); h = dist.all_to_all_single(out, x, group=g, async_op=True)
            if wait: h.wait()
            return out, h
        def serial(g):
            def step():
                with torch.no_grad():
                    for x in xs:
                        for i in range(L):
                            x = dense(x, i); d, _ = a2a(x, g); e = expert(d, i); c, _ = a2a(e, g); x = x + c
            return step
        def overlapped(g):
            def step():
                with torch.no_grad():
                    x = list(xs); pend = [None, None]
                    for i in range(L):
                        for b in (0, 1):
                            if pend[b] is not None: pend[b][1].wait(); x[b] = x[b] + pend[b][0]
                            x[b] = dense(x[b], i); pend[b] = a2a(x[b], g, False)
                        for b in (0, 1):
                            pend[b][1].wait(); e = expert(pend[b][0], i); pend[b] = a2a(e, g, False)
                    for b in (0, 1): pend[b][1].wait(); x[b] = x[b] + pend[b][0]
            return step
        for ctas, prio in ((0, False), (8, False), (0, True)):
            g = lab.group(ctas, prio)
            lab.row(f'moe_ep_{tag}', dict(schedule='serial', channels=ctas, priority=prio), serial(g), trace=ctas == 0 and not prio)
            lab.row(f'moe_ep_{tag}', dict(schedule='two_batch_overlap', channels=ctas, priority=prio), overlapped(g), trace=ctas == 0 and not prio)


def dlrm(lab):
    for TB, D, P, B in lab.set['dlrm']: dlrm_of(lab, TB // lab.world, D, P, B)


def dlrm_of(lab, TB, D, P, B):
    W = lab.world
    with torch.device(lab.dev):
        bags = nn.ModuleList([nn.EmbeddingBag(200000, D, mode='sum') for _ in range(TB)]).to(BF)
        bot = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, D)).to(BF)
        top = nn.Sequential(nn.Linear(D * (TB * W + 1), 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1)).to(BF)
    idx = [torch.randint(0, 200000, (B, P), device=lab.dev) for _ in range(TB)]; dense = torch.randn(B // W, 512, device=lab.dev, dtype=BF)
    def fwd(chunks, g):
        def step():
            with torch.no_grad():
                rows = B // chunks; pend = []
                for c in range(chunks):
                    e = torch.stack([bag(i[c * rows:(c + 1) * rows]) for bag, i in zip(bags, idx)], 1)  # rows, TB, D
                    out = torch.empty(rows * TB * D, device=lab.dev, dtype=BF); h = dist.all_to_all_single(out, e.reshape(-1), group=g, async_op=True); pend.append((out, h))
                b = bot(dense)
                es = []
                for out, h in pend: h.wait(); es.append(out.view(W, rows // W, TB * D).transpose(0, 1).reshape(rows // W, -1))
                z = torch.cat([torch.cat(es), b], 1); top(z)
        return step
    for chunks, ctas in ((1, 0), (2, 0), (4, 0), (8, 0), (4, 8)):
        lab.row(f'dlrm_d{D}_b{B}', dict(chunks=chunks, channels=ctas), fwd(chunks, lab.group(ctas)), trace=ctas == 0 and chunks in (1, 4))


def pipeline(lab):
    """Two stages (pairs of ranks), GPipe forward with point-to-point sends; micro-batches 1, 2, 4, 8."""
    H, FF, heads, L, B, S = lab.set['pipeline'][0]; half = lab.world // 2; stage = lab.rank // half; peer = lab.rank + half if stage == 0 else lab.rank - half
    torch.manual_seed(0)
    with torch.device(lab.dev): blocks = nn.ModuleList([Block(H, FF, heads) for _ in range(L)]).to(BF)
    for mb in (1, 2, 4, 8):
        x = [torch.randn(B // mb, S, H, device=lab.dev, dtype=BF) for _ in range(mb)]
        def step():
            with torch.no_grad():
                hs = []
                for i in range(mb):
                    y = x[i]
                    if stage: dist.recv(y, peer)
                    for b in blocks: y = b(y)
                    if not stage: hs.append(dist.isend(y.contiguous(), peer))
                for h in hs: h.wait()
        lab.row('pipeline2', dict(microbatches=mb), step, trace=mb in (1, 4))


PARTS = dict(tp=tp, moe=moe, dlrm=dlrm, decode=decode, ddp=ddp, fsdp=fsdp, pipeline=pipeline)

if __name__ == '__main__':
    p = argparse.ArgumentParser(); p.add_argument('--out', required=True); p.add_argument('--only'); p.add_argument('--budget', type=float, default=500); p.add_argument('--set', default='first'); p.add_argument('--no-traces', action='store_true')
    a = p.parse_args(); lab = Lab(a.out); lab.set, lab.traces = SETS[a.set], not a.no_traces
    for name, part in PARTS.items():
        if a.only and name not in a.only.split(','): continue
        if time.time() - lab.t0 > a.budget: lab.say('budget: leaving out', name); continue
        try: part(lab)
        except Exception as e: print(lab.rank, name, repr(e)[:500], flush=True); traceback.print_exc()
        torch.cuda.empty_cache()
    dist.barrier(group=lab.cpu); lab.say('done'); os._exit(0)
