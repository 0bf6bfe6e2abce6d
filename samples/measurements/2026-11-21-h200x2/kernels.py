"""The kernels of decompose runs and their parts alone, with the SM clock: torchrun --nproc-per-node N kernels.py --out DIR"""
import argparse, json, os, statistics
import torch, torch.distributed as dist
import capture
from capture import Lab, gemm, record
from strategies import Book, pair
import pynvml

def main():
    p = argparse.ArgumentParser(); p.add_argument("--out", required=True); a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    lab = Lab(argparse.Namespace(machine="h200", iterations=11, out=a.out))
    pynvml.nvmlInit(); h = pynvml.nvmlDeviceGetHandleByIndex(lab.device.index)
    book = Book(lab, "d"); w = lab.world
    cases = [("moe_wide", (16384, 2048, 28672 // w), "all_to_all", [(2, 0, False), (4, 0, False), (8, 0, False), (4, 8, False)]),
             ("llama8b_fc2", (8192, 4096, 14336 // w), "all_reduce", [(4, 0, False), (4, 8, False), (8, 0, True)]),
             ("llama8b_fc2", (8192, 4096, 14336 // w), "reduce_scatter", [(4, 0, False), (4, 8, False)]),
             ("gpt3_fc2", (4096, 12288, 49152 // w), "all_reduce", [(2, 0, True), (8, 0, False)]),
             ("gpt3_fc1", (4096, 49152 // w, 12288), "all_gather", [(2, 0, False), (4, 0, False)]),
             ("llama8b_qkv", (8192, 6144 // w, 4096), "all_gather", [(2, 0, False), (4, 0, False), (4, 8, False)])]
    for name, shape, op, configs in cases:
        m, n, k = shape
        for chunks, channels, prio in configs:
            work = pair(lab, shape, op, chunks, lab.group(channels or None, prio))
            us = lab.time(work, head_us=400 + 100 * chunks)
            clock = pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM)
            tag = f"dec{chunks}" + (f"_ch{channels}" if channels else "") + ("_prio" if prio else "")
            book.row({"name": name, "kind": "gemm+collective", "m": m, "n": n, "k": k, "collective": op, "bytes": 2 * m * (k if op == "all_gather" else n)}, "decompose",
                     {"chunks": chunks, "channels": channels, "comm_priority": prio, "clock": clock, "all": [round(x, 1) for x in us]}, us, None)
            record(lab, f"{tag}_{name}_{op}", work, 5)
            def aligned():
                lab.align(400 + 100 * chunks); work()
            record(lab, f"aligned_{tag}_{name}_{op}", aligned, 5)
            del work
        for chunks in 1, 2, 4, 8:
            f = gemm(lab, m // chunks, n, k)
            for cool in True, False:
                us = lab.time(f, pause_s=0.02 if cool else 0)
                book.row({"name": name, "kind": "gemm", "m": m // chunks, "n": n, "k": k}, "isolated", {"cool": cool, "clock": pynvml.nvmlDeviceGetClockInfo(h, pynvml.NVML_CLOCK_SM)}, us, None)
            for channels in (0, 8):
                call, refresh = lab.collective(op, 2 * m * (k if op == "all_gather" else n) // chunks, lab.group(channels or None))
                us = lab.time(call, before=refresh)
                book.row({"name": name, "kind": "collective", "collective": op, "bytes": 2 * m * (k if op == "all_gather" else n) // chunks}, "isolated", {"channels": channels}, us, None)
        torch.cuda.empty_cache()
    dist.barrier(group=lab.host); lab.say("done"); dist.destroy_process_group()
main()
