package figure11

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A chart is another figure of a paper: one measure of a workload file under some strategies.
type chart struct {
	title, look, sample string
	from, to            string // a text of the workload file and what it is replaced by; "": nothing is
	strategies          []string
	bars                func(w *workload.Workload, out engines.Outcome) []bar
	command             string // its strategies; "": of replay, whose table has the same times
}

type bar struct {
	label string
	value float64
	text  string
}

var charts = []chart{
	{
		title: "SC'24, Figure 13: occupancy", look: "time of the fused kernel's iteration by resident workgroups; the paper has 46 % less from 25 to 75 % and 25 % more from there to 87.5 %, which are the profile's `gpu.crowding`",
		sample: "sc24-embedding-a2a-2nodes", strategies: []string{"bulk", "fused:occupancy=25", "fused:occupancy=50", "fused:occupancy=75", "fused:occupancy=87"}, bars: step,
	},
	{
		title: "SC'24, Figure 14: order", look: "when the kernel of each node ends; at the pooling of this file, 70, lookups hide both orders",
		sample: "sc24-embedding-a2a-2nodes", strategies: []string{"fused:occupancy=87", "fused:order=oblivious:occupancy=87"}, bars: ends,
	},
	{
		title: "SC'24, Figure 14: order, with half of the lookups", look: "the pooling of the figure is not published; in order of their numbers, node 0 computes what node 1 needs last: it has what it needs itself by then, and node 1 waits. The paper has 7 % between the nodes, and 1 % in the aware order",
		sample: "sc24-embedding-a2a-2nodes", from: "pooling: 70", to: "pooling: 35", strategies: []string{"fused:occupancy=87", "fused:order=oblivious:occupancy=87"}, bars: ends,
	},
	{
		title: "T3, Figure 6: compute units for each", look: "the GEMM and the all-reduce, one after the other with all compute units, and at once with 8 and 16 for the all-reduce. The paper, each alone on its part: the all-reduce 41 % longer on 8, 7 % on 16, the GEMM 21 % longer on 64. Here the ports of 8 compute units carry what the link does (claim T3-26)",
		sample: "t3-tnlg-fc2", strategies: []string{"bulk", "multistream:carve=8", "multistream:carve=16"}, bars: kinds,
	},
	{
		title: "T3, Figure 18: bytes of memory", look: "what a GPU reads and writes in an iteration, by cause. The paper at 8 ways: the reduce-scatter reads 2.5 times less, the GEMM 1.2 times, both write 14 % less, the all-gather as before",
		sample: "t3-tnlg-fc2", strategies: []string{"bulk", "trigger"}, bars: bytesByCause, command: "report samples/workloads/t3-tnlg-fc2.yaml --strategy bulk,trigger -o t3.html",
	},
}

// siblings are the charts as text, and Figure 17 of T3.
func siblings(t *testing.T) string {
	var page strings.Builder
	page.WriteString("\n# What else the papers draw\n\nFrom the same samples. `overlapse report` has them as a page: bars of the schedules, what is used over time, bytes by cause.\n")
	for _, c := range charts {
		file, before := "samples/workloads/"+c.sample+".yaml", ""
		if c.from != "" {
			before = fmt.Sprintf("    sed 's/%s/%s/' %s > changed.yaml\n", c.from, c.to, file)
			file = "changed.yaml"
		}
		command := c.command
		if command == "" {
			command = fmt.Sprintf("replay %s --strategy %s", file, strings.Join(c.strategies, ","))
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s.\n\n%s    overlapse %s\n\n```\n", c.title, strings.ToUpper(c.look[:1])+c.look[1:], before, command)
		text, err := os.ReadFile("../workloads/" + c.sample + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		w, m := plantest.OperatorOf(t, strings.Replace(string(text), c.from, c.to, 1))
		var all []bar
		for _, s := range c.strategies {
			name, set, _ := strings.Cut(s, ":")
			for _, b := range c.bars(w, enginetest.Outcome(t, w, m, name, enginetest.Settings(set))) {
				b.label = strings.TrimSpace(s + "  " + b.label)
				all = append(all, b)
			}
		}
		most := slices.MaxFunc(all, func(a, b bar) int { return int(a.value - b.value) }).value
		for _, b := range all {
			fmt.Fprintf(&page, "%-50s %10s  %s\n", b.label, b.text, strings.Repeat("█", int(50*b.value/most+.5)))
		}
		page.WriteString("```\n")
	}
	page.WriteString(memoryOverTime(t))
	page.WriteString(streamsOverTime(t))
	return page.String()
}

// streamsOverTime is resource-aware overlap's Figure 1(c): the GEMMs of one stream and the all-reduces of the other.
func streamsOverTime(t *testing.T) string {
	var page strings.Builder
	const columns = 100
	strategies := []string{"bulk", "multistream:buffers=2", "multistream:buffers=2:priority=on"}
	fmt.Fprintf(&page, "\n## Resource-aware, Figure 1(c): two streams\n\nGEMMs above, all-reduces below; the shade changes with each kernel. One after the other; overlapped, where every GEMM takes all slots before the all-reduce that is ready, and gains nothing; with priority each all-reduce runs beside the next GEMM, and the last one alone.\n\n    overlapse view samples/workloads/resource-aware-mb-ar.yaml --strategy %s\n\n```\n", strings.Join(strategies[1:], ","))
	w, m := plantest.SampleOperator(t, "resource-aware-mb-ar")
	var longest trace.Time
	for i, s := range strategies {
		name, set, _ := strings.Cut(s, ":")
		out := enginetest.Detailed(t, w, m, name, enginetest.Settings(set), replay.Options{})
		run := out.Result.Run
		if i == 0 {
			longest = run.End
		}
		fmt.Fprintf(&page, "%s, %.2f ms\n", s, float64(run.End)/1e6)
		for _, of := range []struct {
			kind  trace.Kind
			marks string
		}{{trace.Compute, "█▓"}, {trace.Collective, "▚░"}} {
			line, n := slices.Repeat([]rune{' '}, columns), 0
			for _, span := range run.Spans {
				if span.Kind != of.kind || run.RankOf(span) != 0 {
					continue
				}
				for c := range columns {
					if at := longest * trace.Time(2*c+1) / (2 * columns); at >= span.Start && at < span.End {
						line[c] = []rune(of.marks)[n%2]
					}
				}
				n++
			}
			page.WriteString(strings.TrimRight(string(line), " ") + "\n")
		}
	}
	page.WriteString("```\n")
	return page.String()
}

// step is the time of an iteration.
func step(_ *workload.Workload, out engines.Outcome) []bar {
	return []bar{timeBar("", out.Time)}
}

func timeBar(label string, t trace.Time) bar {
	return bar{label, float64(t), fmt.Sprintf("%.2f ms", float64(t)/1e6)}
}

// ends are when the kernels of each rank end: what it has sent may still be under way.
func ends(_ *workload.Workload, out engines.Outcome) (bars []bar) {
	run := out.Result.Run
	last := make([]trace.Time, len(run.Ranks))
	for _, s := range run.Spans {
		if run.Lanes[s.Lane].Kind == trace.Queue {
			last[run.RankOf(s)] = max(last[run.RankOf(s)], s.End)
		}
	}
	for rank, t := range last {
		bars = append(bars, timeBar(fmt.Sprintf("node %d", rank), t))
	}
	return bars
}

// kinds are the mean times of kernels that compute and of collectives, and that of an iteration.
func kinds(_ *workload.Workload, out engines.Outcome) []bar {
	var sums, counts [2]trace.Time
	for _, s := range out.Result.Run.Spans {
		switch s.Kind {
		case trace.Compute:
			sums[0], counts[0] = sums[0]+s.End-s.Start, counts[0]+1
		case trace.Collective:
			sums[1], counts[1] = sums[1]+s.End-s.Start, counts[1]+1
		}
	}
	return []bar{timeBar("GEMM", sums[0]/counts[0]), timeBar("all-reduce", sums[1]/counts[1]), timeBar("an iteration", out.Time)}
}

// bytesByCause are those of T3's Figure 18.
func bytesByCause(w *workload.Workload, out engines.Outcome) (bars []bar) {
	for _, m := range verdict.MemoryByCause(w, out) {
		for _, x := range []struct {
			how   string
			bytes float64
		}{{"reads", m.Read}, {"writes", m.Written}} {
			bars = append(bars, bar{m.Cause + " " + x.how, x.bytes, fmt.Sprintf("%.0f MB", x.bytes/1e6)})
		}
	}
	return bars
}

// memoryOverTime is T3's Figure 17: how much of a GPU's memory bandwidth an iteration uses, over time.
func memoryOverTime(t *testing.T) string {
	var page strings.Builder
	fmt.Fprintf(&page, "\n## T3, Figure 17: memory over time\n\nShare of the memory's bandwidth, from the first iteration's start to the last one's end: with the reduce-scatter in the GEMM, the updates of a stage's tiles are bursts, behind them its reads. The paper has bursts of the GEMM alone too; here a GEMM without triggers counts as reads and writes spread over its tiles, as bulk shows.\n\n    overlapse report samples/workloads/t3-tnlg-fc2.yaml --strategy bulk,trigger,trigger:arbitration=mca -o t3.html\n\n```\n")
	const columns = 100
	w, m := plantest.SampleOperator(t, "t3-tnlg-fc2")
	for _, s := range []string{"bulk", "trigger", "trigger:arbitration=mca"} {
		name, set, _ := strings.Cut(s, ":")
		out := enginetest.Detailed(t, w, m, name, enginetest.Settings(set), replay.Options{Ranks: []int{0}, Usage: true})
		for _, u := range out.Result.Usage {
			if u.GPU != 0 || u.Of != replay.Memory.String() {
				continue
			}
			var line strings.Builder
			for i := range columns {
				from, to := i*len(u.Shares)/columns, max((i+1)*len(u.Shares)/columns, i*len(u.Shares)/columns+1)
				line.WriteRune([]rune(" ▁▂▃▄▅▆▇█")[int(8*slices.Max(u.Shares[from:to])+.5)])
			}
			fmt.Fprintf(&page, "%s, %.2f ms\n%s\n", s, float64(program.Time(len(u.Shares))*u.Width)/1e6, line.String())
		}
	}
	page.WriteString("```\n")
	return page.String()
}
