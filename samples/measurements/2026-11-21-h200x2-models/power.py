#!/usr/bin/env python3
"""Writes into the file named SM clock and power of every GPU, by NVML, until killed: Unix time, GPU, MHz, W, J, reasons for a lower clock."""
import sys, time
import pynvml as n
n.nvmlInit()
hs = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]
f = open(sys.argv[1], "w")
while True:
    for i, h in enumerate(hs):
        try:
            v = n.nvmlDeviceGetFieldValues(h, [186])[0].value.uiVal / 1000
        except Exception:
            v = 0
        try:
            e = n.nvmlDeviceGetTotalEnergyConsumption(h) / 1000
        except Exception:
            e = 0
        c = n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM)
        try:
            why = n.nvmlDeviceGetCurrentClocksThrottleReasons(h)
        except Exception:
            why = -1
        f.write(f"{time.time():.4f},{i},{c},{v:.1f},{e:.3f},{why}\n")
    f.flush()
    time.sleep(0.004)
