"""Steps of one GPU, launched by the host and as a captured graph: measured times, and a profile of each.

    python3 graph.py OUT

rows.jsonl: from the profile of one way of launching to the measured time of the other, and of itself.
"""
import gzip, json, os, statistics, sys, time
import torch, torch.nn as nn, torch.nn.functional as F
from torch.profiler import profile, ProfilerActivity, record_function

out = sys.argv[1]; dev = torch.device('cuda'); BF = torch.bfloat16; rows = []
torch.manual_seed(0)
NAME = torch.cuda.get_device_properties(0).name.split()[1].lower()
r = lambda *z: torch.randn(*z, device=dev, dtype=BF) * 0.02


def median(step, n=31, warm=5):
    """Median, least and most microseconds of a step, from event to event of steps in a row."""
    for _ in range(warm): step()
    torch.cuda.synchronize()
    ev = [torch.cuda.Event(enable_timing=True) for _ in range(n + 1)]; ev[0].record()
    for i in range(n): step(); ev[i + 1].record()
    torch.cuda.synchronize()
    t = sorted(ev[i].elapsed_time(ev[i + 1]) * 1e3 for i in range(n))
    return statistics.median(t), t[0], t[-1]


def trace(name, step, n=3):
    d = os.path.join(out, 'traces'); os.makedirs(d, exist_ok=True); path = os.path.join(d, name + '.json')
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], record_shapes=True) as p:
        for i in range(n):
            with record_function(f'ProfilerStep#{i+1}'): step()
        torch.cuda.synchronize()
    p.export_chrome_trace(path)
    with open(path, 'rb') as a, gzip.GzipFile(path + '.gz', 'wb', 9, mtime=0) as b: b.write(a.read())
    os.remove(path)
    return 'traces/' + name + '.json.gz'


def measure(tag, kind, step, stream=None):
    """step must be able to run in a captured graph."""
    s = stream or torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for _ in range(5): step()
    torch.cuda.current_stream().wait_stream(s); torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g): step()
    ways = {'off': step, 'on': g.replay}
    us = {k: median(f) for k, f in ways.items()}
    again = {k: median(f)[0] for k, f in ways.items()}
    traces = {k: trace(f'{tag}_graph_{k}', f) for k, f in ways.items()}
    for src, dst in (('off', 'off'), ('off', 'on'), ('on', 'on')):
        m = us[dst]
        row = dict(id=f'x{len(rows):03d}', machine=NAME + 'x1', world=1, workload=dict(name=tag, kind='step', framework=kind), strategy='captured', params=dict(graph=True) if src != dst else {},
                   us=round(m[0], 1), min_us=round(m[1], 1), max_us=round(m[2], 1), again_us=round(again[dst], 1), captured_us=round(us[src][0], 1), trace=traces[src])
        if abs(again[dst] / m[0] - 1) > .05: row['noisy'] = True
        rows.append(row)
    print(tag, {k: round(v[0], 1) for k, v in us.items()}, {k: round(v, 1) for k, v in again.items()}, flush=True)
    del g; torch.cuda.empty_cache()


def decoder(B, H, FF, L, heads, past):
    """One token a request: products of few rows, attention over a cache."""
    W = [(r(H, 3 * H), r(H, H), r(H, 2 * FF), r(FF, H)) for _ in range(L)]
    kv = [(r(B, heads, past, H // heads), r(B, heads, past, H // heads)) for _ in range(L)]
    x0 = r(B, H)
    def step():
        with torch.no_grad():
            x = x0
            for (qkv, o, up, down), (k, v) in zip(W, kv):
                q, kn, vn = (F.rms_norm(x, (H,)) @ qkv).chunk(3, -1)
                k[:, :, -1], v[:, :, -1] = kn.view(B, heads, -1), vn.view(B, heads, -1)
                a = F.scaled_dot_product_attention(q.view(B, heads, 1, -1), k, v)
                x = x + a.reshape(B, H) @ o
                g, u = (F.rms_norm(x, (H,)) @ up).chunk(2, -1)
                x = x + (F.silu(g) * u) @ down
            return x
    return step


def experts(B, H, FF, L, E, top):
    """Tokens through experts of which each takes its rows by an index; shapes do not change."""
    W = [(r(H, E), r(E, H, 2 * FF), r(E, FF, H)) for _ in range(L)]; x0 = r(B, H)
    def step():
        with torch.no_grad():
            x = x0
            for route, up, down in W:
                w, e = (F.rms_norm(x, (H,)) @ route).softmax(-1).topk(top)
                y = torch.einsum('bh,bthf->btf', x, up[e]); g, u = y.chunk(2, -1)
                x = x + (torch.einsum('btf,btfh->bth', F.silu(g) * u, down[e]) * w[..., None]).sum(1)
            return x
    return step


class Block(nn.Module):
    def __init__(s, H, FF, heads):
        super().__init__(); s.heads = heads; s.n1, s.n2 = nn.RMSNorm(H), nn.RMSNorm(H)
        s.qkv, s.o, s.up, s.down = nn.Linear(H, 3 * H, bias=False), nn.Linear(H, H, bias=False), nn.Linear(H, 2 * FF, bias=False), nn.Linear(FF, H, bias=False)
    def forward(s, x):
        B, S, H = x.shape
        q, k, v = s.qkv(s.n1(x)).view(B, S, 3, s.heads, H // s.heads).permute(2, 0, 3, 1, 4)
        x = x + s.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(B, S, H))
        g, u = s.up(s.n2(x)).chunk(2, -1)
        return x + s.down(F.silu(g) * u)


def training(B, S, H, FF, heads, L, opt):
    with dev: m = nn.Sequential(*[Block(H, FF, heads) for _ in range(L)]).to(BF)
    o = torch.optim.AdamW(m.parameters(), lr=1e-5, capturable=True) if opt == 'adamw' else torch.optim.SGD(m.parameters(), lr=1e-5)
    x, y = r(B, S, H), r(B, S, H)
    def step():
        o.zero_grad(set_to_none=True); F.mse_loss(m(x).float(), y.float()).backward(); o.step()
    return step


def convolutions(B, C, L):
    """Small images through convolutions, norms and additions."""
    with dev: m = nn.Sequential(*[nn.Sequential(nn.Conv2d(C, C, 3, padding=1, bias=False), nn.GroupNorm(8, C), nn.SiLU()) for _ in range(L)]).to(BF)
    x = r(B, C, 32, 32)
    def step():
        with torch.no_grad():
            h = x
            for b in m: h = h + b(h)
            return h
    return step


def tables(B, T, D, rows_, layers):
    """Embedding bags, their concatenation and an MLP."""
    E = [r(rows_, D) for _ in range(T)]; ids = torch.randint(0, rows_, (T, B * 20), device=dev); off = torch.arange(0, B * 20, 20, device=dev)
    W = [r(T * D if i == 0 else 1024, 1024) for i in range(layers)]
    def step():
        with torch.no_grad():
            x = torch.cat([F.embedding_bag(ids[t], E[t], off, mode='sum') for t in range(T)], 1)
            for w in W: x = F.relu(x @ w)
            return x
    return step


for tag, kind, build in (
        ('decode_b1_h4096', 'decode', lambda: decoder(1, 4096, 11008, 8, 32, 1024)),
        ('decode_b32_h4096', 'decode', lambda: decoder(32, 4096, 11008, 8, 32, 1024)),
        ('decode_b8_h2048', 'decode', lambda: decoder(8, 2048, 5504, 12, 16, 512)),
        ('decode_b128_h8192', 'decode', lambda: decoder(128, 8192, 28672, 4, 64, 2048)),
        ('experts_b16', 'moe', lambda: experts(16, 2048, 1408, 8, 16, 4)),
        ('training_s128', 'training', lambda: training(1, 128, 1024, 2816, 16, 6, 'sgd')),
        ('training_s512_adamw', 'training', lambda: training(2, 512, 1024, 2816, 16, 6, 'adamw')),
        ('training_s2048', 'training', lambda: training(4, 2048, 2048, 5504, 16, 4, 'sgd')),
        ('convolutions_b4', 'inference', lambda: convolutions(4, 128, 12)),
        ('convolutions_b64', 'inference', lambda: convolutions(64, 256, 12)),
        ('tables_b2048', 'dlrm', lambda: tables(2048, 26, 64, 100_000, 4))):
    try: measure(tag, kind, build())
    except Exception as e: print(tag, repr(e)[:300], flush=True)
    torch.cuda.empty_cache()
with open(os.path.join(out, 'rows.jsonl'), 'w') as f:
    for x in rows: f.write(json.dumps(x) + '\n')
print(NAME, torch.__version__, torch.version.cuda, len(rows), 'rows')
