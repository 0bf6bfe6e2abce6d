package chrome

import (
	"fmt"
	"strings"
	"testing"
)

// TestMergedBySGLang: the profiles of all ranks in one file, whose processes and correlations are
// told apart by the label of the rank alone.
func TestMergedBySGLang(t *testing.T) {
	for _, labels := range [][2]string{{"[TP00] ", "[TP01] "}, {"[TP00-DP00-EP00] ", "[TP01-DP01-EP01] "}, {"[TP00-PP00] ", "[TP00-PP01] "}} {
		event := func(of int, cat, name string, pid, ts int) string {
			return fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"pid":"%s%d","tid":7,"ts":%d,"dur":5,"args":{"device":0,"stream":7,"correlation":3}}`, cat, name, labels[of], pid, ts)
		}
		text := `{"distributedInfo":{"backend":"nccl","rank":0,"world_size":2},"traceEvents":[` + strings.Join([]string{
			event(0, "cuda_runtime", "cudaLaunchKernel", 100, 10), event(0, "kernel", "gemm", 0, 20),
			event(1, "cuda_runtime", "cudaLaunchKernel", 101, 110), event(1, "kernel", "gemm", 0, 120),
		}, ",") + `]}`
		run, err := Read(strings.NewReader(text), Options{File: "merged-1.trace.json"})
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Ranks) != 2 || run.Ranks[0].ID != 0 || run.Ranks[1].ID != 1 || run.Ranks[1].World != 2 {
			t.Fatalf("%q: ranks %+v, want 0 and 1 of 2", labels, run.Ranks)
		}
		for _, s := range run.Spans {
			if k := run.Kernel(s); k != nil && (k.Launch < 0 || run.RankOf(run.Spans[k.Launch]) != run.RankOf(s)) {
				t.Errorf("%q: a kernel without its rank's launch", labels)
			}
		}
	}
	for _, pid := range []string{"65212", "[TP] 0", "[TPx1] 0", "[DP00] 0", "[Unknown] 7", "[TP99999999999] 1", "[-] 1", "python [3] 4"} {
		if _, _, ok := mergedPid(pid); ok {
			t.Errorf("%q taken for a process of a merged file", pid)
		}
	}
}
