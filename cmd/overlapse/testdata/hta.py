# Reads exported files with Holistic Trace Analysis, and checks what it finds.
import sys

from hta.trace_analysis import TraceAnalysis

dir = sys.argv[1]
a = TraceAnalysis(trace_dir=dir + "/kineto", include_last_profiler_step=True)
assert a.t.get_ranks() == [0, 1], a.t.get_ranks()
overlap = a.get_comm_comp_overlap(visualize=False)
print(overlap)
assert all(40 < p < 95 for p in overlap["comp_comm_overlap_pctg"]), "communication is hidden behind computation"
breakdown = a.get_temporal_breakdown(visualize=False)
print(breakdown)
assert all(p < 10 for p in breakdown["idle_time_pctg"]), "devices are nearly never idle"
a = TraceAnalysis(trace_files={0: dir + "/chrome/rank0.json"}, trace_dir=dir + "/chrome", include_last_profiler_step=True)
assert len(a.t.get_trace(0)) > 600
