"""Six linear layers trained on 128 MiB of inputs a step: from pageable memory, from pinned memory, and copied during the step before.

usage: OUT=folder python3 inputs.py
"""
import json, os, time
import torch, torch.nn as nn
from torch.profiler import profile, schedule
out, dev = os.environ["OUT"], torch.device("cuda", 0)
def mlp(mode, b=65536, width=512, hidden=2048, layers=6):
    net = nn.Sequential(*[m for k in range(layers) for m in (nn.Linear(width if k == 0 else hidden, hidden), nn.ReLU())], nn.Linear(hidden, 1)).to(dev)
    opt = torch.optim.SGD(net.parameters(), 0.01)
    host = [torch.randn(b, width) for _ in range(3)]
    if mode != "pageable": host = [h.pin_memory() for h in host]
    y, side, state = torch.randn(b, 1, device=dev), torch.cuda.Stream(), {"i": 0, "next": None}
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
        with torch.autocast("cuda", torch.bfloat16): y2 = net(x)
        nn.functional.mse_loss(y2.float(), y).backward()
        opt.step()
    return step
def timed(step, n=20):
    torch.cuda.synchronize()
    t = time.perf_counter()
    for _ in range(n): step()
    torch.cuda.synchronize()
    return (time.perf_counter() - t) / n * 1e6
def capture(step, name):
    save = lambda prof: prof.export_chrome_trace(f"{out}/{name}.json.gz")
    with profile(record_shapes=True, schedule=schedule(wait=2, warmup=2, active=3, repeat=1), on_trace_ready=save) as prof:
        for i in range(7):
            step()
            if i == 3: torch.cuda.synchronize()
            prof.step()
modes, times = ["pageable", "pinned", "batch"], {}
for turn in range(2): # in the opposite order the second time
    for mode in modes[::1 - 2 * turn]:
        torch.manual_seed(1)
        step = mlp(mode)
        for _ in range(4): step()
        times.setdefault(mode, []).extend(timed(step) for _ in range(2))
        if turn == 0: capture(step, f"mlp_{mode}")
        times[mode].append(timed(step))
        del step
        torch.cuda.empty_cache()
json.dump(times, open(f"{out}/times.json", "w"))
