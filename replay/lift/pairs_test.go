package lift

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// drawPairs draws them: "0G→0C 1G→1C 0.95: evidence; evidence".
func drawPairs(w *workload.Workload) string {
	var lines []string
	for _, p := range w.Pairs {
		var ranks []string
		for k := range p.First {
			ranks = append(ranks, letters(w, p.First[k:k+1])+"→"+letters(w, p.Second[k:k+1]))
		}
		lines = append(lines, fmt.Sprintf("%s %.2f: %s", strings.Join(ranks, " "), p.Confidence, strings.Join(p.Evidence, "; ")))
	}
	return strings.Join(lines, "\n")
}

// gemm is a GEMM of m×k by k×n of two-byte elements.
func gemm(m, n, k int64) *trace.Operator {
	return &trace.Operator{Name: "aten::mm", Dims: [][]int64{{m, k}, {k, n}}, Types: []string{"c10::Half", "c10::Half"}}
}

// Where accesses are recorded, a collective is paired with the kernels whose output it sends, and
// that read what it brought, not with those next to it on a stream.
func TestPairsOfRecordedAccesses(t *testing.T) {
	parts := map[byte]part{
		'G': {op: gemm(32, 64, 16)},
		'H': {op: gemm(32, 128, 16)},
		'K': {op: gemm(32, 16, 64)},
		'R': comm(trace.AllReduce, trace.None, 0, 4096),
		'C': comm(trace.AllToAll, trace.None, 0, 4096),
	}
	for _, c := range []struct{ text, uses, want string }{
		{"0 7 |GG HH HH HH RR|", "G w1[0,8)\nH r3[0,8) w2[0,8)\nR r1[0,8)", "0G→0R 0.95: recorded accesses; its output is as large as what is sent: 4096 bytes"},
		{"0 7 |GG HH HH HH RR|", "", ""},
		{"0 7 |GG HH KK|", "G w1[0,8)\nH r3[0,8) w2[0,8)\nK r1[0,8)", "0G→0K 0.95: stream order; its 32×64 output has the shape of the other's first input"},
		{"0 7 |GG KK|", "G w1[0,8)\nK r2[0,8)", ""},
		{"0 7 |CC HH KK|", "C w1[0,8)\nH r3[0,8) w2[0,8)\nK r1[0,8)", "0C→0K 0.95: recorded accesses; its first input is as large as what was brought: 4096 bytes"},
	} {
		run := drawing{text: c.text, parts: parts}.run(t)
		recordUses(t, run, c.uses)
		w, err := Workload(run, Options{})
		if err != nil {
			t.Fatal(err)
		}
		sameText(t, "pairs of "+c.text, drawPairs(w), c.want)
	}
}

func TestPairs(t *testing.T) {
	const (
		sent    = "its output is as large as what is sent: 4096 bytes"
		brought = "its first input is as large as what was brought: 4096 bytes"
	)
	add := &trace.Operator{Name: "aten::add", Dims: [][]int64{{32, 64}}, Types: []string{"c10::Half"}}
	parts := map[byte]part{
		'G': {op: gemm(32, 64, 16)},                                      // makes 4096 bytes
		'H': {op: gemm(32, 128, 16)},                                     // makes 8192
		'K': {op: gemm(32, 16, 64)},                                      // reads 4096, makes 1024
		'W': {op: gemm(8, 16, 128)},                                      // its second input has 4096
		'V': {name: "V_gemm"},                                            // of unknown size
		'U': {name: "U_gemm"},                                            // of unknown size
		'P': {name: "P"},                                                 // of unknown work
		'F': {name: "F_flash_attention"},                                 // heavy, no GEMM
		'E': {name: "E_elementwise_kernel", op: add},                     // of 4096 bytes
		'T': {name: "T_reduce_kernel"},                                   // light, of unknown size
		'M': {kind: trace.Copy, copy: trace.Fill, bytes: 4},              //
		'Y': {kind: trace.Copy, copy: trace.DeviceToDevice, bytes: 4096}, //
		'C': comm(trace.AllToAll, trace.None, 0, 4096),                   //
		'R': comm(trace.AllReduce, trace.None, 0, 4096),                  //
		'B': comm(trace.Broadcast, trace.None, 0, 4096),                  //
		'S': {comm: &trace.Comm{Op: trace.AllReduce, Group: trace.None, In: 8192, Out: 8192, ElemSize: 4, Peer: trace.None}},
		'A': {comm: &trace.Comm{Op: trace.AllGather, Group: trace.None, In: 1024, Out: 4096, ElemSize: 2, Peer: trace.None}},
		'X': {comm: &trace.Comm{Op: trace.AllReduce, Group: trace.None, Peer: trace.None}}, // of unknown size
	}
	long := strings.Repeat("P", 12)
	for _, c := range []struct {
		name string
		text string
		want string
	}{
		{
			"on every rank", `0 7 | GG RR |
			                  1 7 | GGG RR|`,
			"0G→0R 1G→1R 0.95: stream order; " + sent,
		},
		{
			"not where one rank lacks it", `0 7 | GG RR |
			                                1 7 | HH RR |`,
			"",
		},
		{
			"by event, on a stream of its own",
			`0 host |g r h     |
			 0 7    | GGHHH    |
			 0 19   |   RRRR   |`,
			"0G→0R 0.95: " + workload.EnqueuedAfter.String() + "; " + sent,
		},
		{
			"in order of launch, not of time",
			`0 host |grhs           |
			 0 7    |  GGHHHHH      |
			 0 19   |       RRRSSS  |`,
			"0G→0R 0.95: " + workload.EnqueuedAfter.String() + "; " + sent + `
			 0H→0S 0.95: ` + workload.EnqueuedAfter.String() + "; its output is as large as what is sent: 8192 bytes",
		},
		{
			"without the host's calls, by time",
			`0 7    | GGHHHHH |
			 0 19   |   RRRR  |`,
			"0G→0R 0.76: " + workload.Timing.String() + "; " + sent,
		},
		{
			"past a fill, through a copy of the size", `0 7 | GGMYY RR |`,
			"0G→0R 0.76: stream order; through Y, of the same size; " + sent,
		},
		{
			"through a kernel of unknown size", `0 7 | GGTTRR |`,
			"0G→0R 0.57: stream order; through T_reduce_kernel; " + sent,
		},
		{
			"as many elements of another type", `0 7 | GG SS |`,
			"0G→0S 0.85: stream order; its output is as large as what is sent: 8192 bytes",
		},
		{
			"past another GEMM, since sizes tell", `0 7 | GG HH RR |`,
			"0G→0R 0.52: stream order; past H, whose output has another size; " + sent,
		},
		{"not past two", `0 7 | GG HH KK RR |`, ""},
		{"not past attention to what is unknown", `0 7 | UU FF RR |`, ""},
		{"not past a collective", `0 7 | GG BB RR |`, "0G→0B 0.95: stream order; " + sent},
		{
			"of unknown size, a GEMM", `0 7 | GG XX |`,
			"0G→0X 0.60: stream order; a GEMM before a collective of unknown size",
		},
		{"of unknown size, no kernel of unknown work", `0 7 | ` + long + ` XX |`, ""},
		{
			"a gather before a GEMM of unknown size", `0 7 | AA UU |`,
			"0A→0U_gemm 0.60: stream order; the first GEMM behind it by its name; one of the two is of unknown size",
		},
		{
			"nor one that was issued ahead, beside another GEMM",
			`0 host |a u w v    |
			 0 7    | UUUU VVV  |
			 0 19   | AA        |`,
			"",
		},
		{"one collective a kernel", `0 7  | GG      |
		                             0 19 |   RR    |
		                             0 23 |   CC    |`, "0G→0R 0.76: " + workload.Timing.String() + "; " + sent},
		{"a GEMM by its name", `0 7 | UU RR |`, "0U_gemm→0R 0.60: stream order; a GEMM by its name, of unknown size"},
		{"nothing but adjacency", `0 7 | ` + long + ` RR |`, "0P→0R 0.45: stream order; a kernel of unknown work"},
		{"which is too little through another kernel", `0 7 | ` + long + `TTRR |`, ""},
		{"nor what others than reductions and exchanges send", `0 7 | UU BB |`, ""},
		{
			"a gathered input", `0 7 | AA MKK |`,
			"0A→0K 0.95: stream order; " + brought,
		},
		{
			"gathered weights", `0 7 | AA WW |`,
			"0A→0W 0.95: stream order; its second input is as large as what was brought: 4096 bytes",
		},
		{
			"exchanged, consumed behind a wait",
			`0 host |c w k f     |
			 0 7    |      KKK FF|
			 0 19   | CCCC       |`,
			"0C→0K 0.95: " + workload.HostWait.String() + "; " + brought,
		},
		{
			"gathered, then through a light kernel", `0 7 | AA EEKK |`,
			"0A→0K 0.76: stream order; through E_elementwise_kernel, of the same size; " + brought,
		},
		{"not of another size", `0 7 | AA GG |`, ""},
		{"reductions feed no pair", `0 7 | RR KK |`, ""},
		{
			"products", `0 7 | GG KK |`,
			"0G→0K 0.95: stream order; its 32×64 output has the shape of the other's first input",
		},
		{
			"GEMMs with an activation between", `0 7 | GG EE MKK |
			                                        1 7 | GG EE MKK |`,
			"0G→0K 1G→1K 0.76: stream order; through E_elementwise_kernel, of the same size; its 32×64 output has the shape of the other's first input",
		},
		{"not GEMMs around a collective", `0 7 | HH RR KK |`, ""},
		{
			"nor around one on another stream",
			`0 host |g r w k     |
			 0 7    | GG     KK  |
			 0 19   |   RRRR     |`,
			"0G→0R 0.95: " + workload.EnqueuedAfter.String() + "; " + sent,
		},
		{
			"an iteration is never left",
			`0 mark |<i#0><i#1>|
			 0 host |g    r    |
			 0 7    | GG   RR  |`,
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			sameText(t, "pairs", drawPairs(lift(t, drawing{text: c.text, parts: parts}, Options{})), c.want)
		})
	}
}

func TestSteps(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		want string
	}{
		{
			"by launch, not by time",
			`0 mark |<s#0><s#1>      |
			 0 host |a b  c d        |
			 0 7    | AA  BB CC   DD |`,
			`s#0: 0A 0B; 1..7
			 s#1: 0C 0D; 8..15`,
		},
		{
			"above the device, where the host tells nothing",
			`0 mark' |<s#0 ><s#1>    |
			 0 7     | AA BB CC   DD |`,
			`s#0: 0A 0B; 1..6
			 s#1: 0C; 7..9`,
		},
		{
			"the profiler's own before others",
			`0 mark |<x#0><ProfilerStep#7>   |
			 0 host |a b      c d            |
			 0 7    | AA  BB   CC   DD       |`,
			`ProfilerStep#7: 0C 0D; 10..17`,
		},
		{
			"the mark under which most time passes",
			`0 mark |<a#0><b#0      ><a#1> |
			 0 host | a     b         c    |
			 0 7    |  A     B         C   |`,
			`b#0: 0B; 8..9`,
		},
		{
			"a name that comes again is another iteration",
			`0 mark |<s#0> <s#0> |
			 0 host | a     b    |
			 0 7    |  A     B   |`,
			`s#0: 0A; 2..3
			 s#0: 0B; 8..9`,
		},
		{
			"no iterations",
			`0 mark |<s#x><#1><s#> |
			 0 host | a   b  c     |
			 0 7    |  A   B  C    |`,
			``,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := lift(t, drawing{text: c.text}, Options{})
			var lines []string
			for i, s := range w.Steps {
				var ids []int32
				for _, op := range w.Ops {
					if op.Step == int32(i) {
						ids = append(ids, op.ID)
					}
				}
				lines = append(lines, fmt.Sprintf("%s: %s; %d..%d", s.Name, letters(w, ids), s.Start[0]/column, s.End[0]/column))
			}
			sameText(t, "steps", strings.Join(lines, "\n"), c.want)
		})
	}
}

func TestStepsOverRanks(t *testing.T) {
	w := lift(t, drawing{text: `
		0 mark |<s#0><s#1>|
		0 host |a    b    |
		0 7    | AA   BB  |
		1 mark |    <s#1> |
		1 host |    b     |
		1 7    |       BB |`}, Options{})
	if len(w.Steps) != 1 {
		t.Fatalf("%d steps, want the one of both ranks", len(w.Steps))
	}
	if s := w.Steps[0]; s.Start[0] != 6*column || s.Start[1] != 7*column || s.End[1] != 9*column {
		t.Errorf("s#1: %v..%v", s.Start, s.End)
	}
}
