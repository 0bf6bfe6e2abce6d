package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Backward of two stages with a rank and a micro-batch each, a letter a kernel of 10 us, which the host issues in 10 us:
// X and W are gradients of inputs and of weights of 256 x 512, r sums over rows, g and n add the
// gradients of weights and of a norm or a bias of 256.
//
// Behind the halves' kernels stands what the host takes longer than captured, in us: 0.95 of the whole of 9 kernels
// for 4 of them, and two calls of autograd for the others, on a host of half the pace. The first stage's backward is whole.
func TestHalves(t *testing.T) {
	const rows = 128
	gemm := func(m, n, k int64) workload.Shape {
		return workload.Shape{Kind: workload.GEMM, M: m, N: n, K: k, ElemSize: 2}
	}
	shapes := map[rune]workload.Shape{'X': gemm(rows, 512, 256), 'W': gemm(256, 512, rows), 'n': {Kind: workload.Elementwise, M: 1, N: 256, ElemSize: 2}}
	w := &workload.Workload{World: 2, Ranks: make([][]int32, 2)}
	m := plantest.H200(t, 2)
	w.Calls = []trace.Time{0, plan.Duration(2 * m.Launch.Call.Value)}
	p := &pipelinePlan{
		reading: &reading{w: w, micros: 1, groups: 1, stage: []int{0, 1}, rounds: [][]work{{{}, {}}}},
		shape:   shape{stages: 2, micros: 1, groups: 1}, ids: map[place][]int32{}, pieces: map[place][]pipelinePiece{}, halves: true,
	}
	p.pl = &plan.Planner{Workload: w, Machine: m}
	for rank := range 2 {
		x := &p.rounds[0][rank]
		x.chunks = map[pipelineChunk][]int32{}
		for _, part := range []struct {
			pipelineChunk
			kernels string
		}{{pipelineChunk{Part: forwardPart}, "F"}, {pipelineChunk{Part: backwardPart}, "XWrgnXrnX"}} {
			for _, letter := range part.kernels {
				name := string(letter)
				if shapes[letter].Kind == workload.GEMM {
					name = "gemm " + name
				}
				op := workload.Op{ID: int32(len(w.Ops)), Rank: rank, Kind: trace.Compute, Collective: -1, End: 10_000, Launched: workload.Launched{Gradient: strings.ContainsRune("gn", letter)}, Kernel: &workload.Kernel{Name: name, Shape: shapes[letter]}}
				if letter == 'F' {
					op.Kernel = &workload.Kernel{Name: "gemm F", Shape: gemm(rows, 256, 512)}
				}
				w.Ops, w.Ranks[rank] = append(w.Ops, op), append(w.Ranks[rank], op.ID)
				x.take(part.pipelineChunk, op.ID)
				p.Issues = append(p.Issues, 10_000)
			}
		}
	}
	if why := p.cut(true); why != "" {
		t.Fatal(why)
	}
	text := func(rank int, c pipelineChunk) string {
		var list []string
		for _, x := range p.pieces[place{rank: rank, pipelineChunk: c}] {
			name := strings.TrimPrefix(x.Op.Name, "gemm ")
			if x.Added {
				name = strings.TrimPrefix(x.Part.Name, "sum of one gradient of ")
			}
			if x.Host > 0 {
				name += fmt.Sprintf("+%.1f", float64(x.Host)/1000)
			}
			list = append(list, name)
		}
		return strings.Join(list, " ")
	}
	for _, c := range []struct {
		rank int
		pipelineChunk
		want string
	}{
		{0, pipelineChunk{Part: backwardPart, Split: true}, ""},
		{0, pipelineChunk{Part: weights}, "X W r g n X r n X"},
		{1, pipelineChunk{Part: backwardPart, Split: true}, "X+55.5 X X"},
		{1, pipelineChunk{Part: weights}, "128 x 256+629.2 W r g n 128 x 256 r n"},
	} {
		if got := text(c.rank, c.pipelineChunk); got != c.want {
			t.Errorf("rank %d, %+v: %s, not %s", c.rank, c.pipelineChunk, got, c.want)
		}
	}
	if len(p.pl.Never) != 1 || !strings.Contains(p.pl.Never[0], "take a host 0.7 ms of an iteration") {
		t.Errorf("the doubts are %q", p.pl.Never)
	}
	if s := p.pieces[place{rank: 1, pipelineChunk: pipelineChunk{Part: weights}}][0].Part; s.Read != rows*256*2 || s.Write != s.Read || s.Alone <= 0 {
		t.Errorf("a sum of %d x 256 reads %.0f bytes and writes %.0f in %d ns", rows, s.Read, s.Write, s.Alone)
	}
}

// Gradients of a micro-batch of other rows than captured are sums over its rows.
func TestSumsOfOtherRows(t *testing.T) {
	m := plantest.H200(t, 2)
	p := &pipelinePlan{pl: &plan.Planner{Machine: m, Workload: &workload.Workload{}}}
	op := &workload.Op{Kind: trace.Compute, Collective: -1, Kernel: &workload.Kernel{Name: "gemm W", Shape: workload.Shape{Kind: workload.GEMM, M: 256, N: 512, K: 1024, ElemSize: 2}}}
	for _, c := range []struct {
		of, by int
		want   string
	}{{1, 1, "1024 x 256"}, {1, 4, "4096 x 256"}, {2, 1, "512 x 256"}} {
		all := p.addUp([]pipelinePiece{p.piece(slices.Repeat([]*workload.Op{op}, c.by), 0, c.of, true)})
		if len(all) != 2 || all[0].Part.Name != "sum of one gradient of "+c.want {
			t.Errorf("1 of %d parts of %d: %d pieces, the first %s, want a sum of %s", c.of, c.by, len(all), all[0].Part.Name, c.want)
		}
	}
}

// What a captured program runs only to make gradients of weights apart is no part of its whole backward.
func TestWholeBackwardOfHalves(t *testing.T) {
	w := &workload.Workload{}
	for i := range 5 { // inputs, sum, product, addition, sum of the next group
		w.Ops = append(w.Ops, workload.Op{ID: int32(i), Kind: trace.Compute, Issued: trace.Time(10*i + 1), Collective: -1, Launched: workload.Launched{Backward: i%2 == 0 && i < 4, Gradient: i == 3}, Kernel: &workload.Kernel{}})
	}
	rd, x := &reading{w: w}, work{chunks: map[pipelineChunk][]int32{}, sums: map[int32]bool{}}
	rd.marked(&x, []int32{0, 1, 2, 3, 4}, []mark{{from: 0, to: 5, pipelineChunk: pipelineChunk{Part: backwardPart, Split: true}}, {from: 6, to: 50, pipelineChunk: pipelineChunk{Part: weights}}})
	if got := fmt.Sprint(x.of(backwardPart, 0, 0), x.chunks[pipelineChunk{Part: weights}]); got != "[0 2 3] [1 2 3 4]" {
		t.Errorf("the whole backward and its second half are %s", got)
	}
}

// The host takes for the whole backward what it took for the first half over inputsHost: 100 us over 0.95, on the 9 of 11
// kernels that stay. The first stage's backward was whole.
func TestHostOfWholeBackward(t *testing.T) {
	x := &work{chunks: map[pipelineChunk][]int32{}, sums: map[int32]bool{5: true, 8: true}}
	first := &work{chunks: map[pipelineChunk][]int32{{Part: weights}: {11}}}
	p := &pipelinePlan{reading: &reading{stage: []int{1, 0}, rounds: [][]work{{*x, *first}}}, pl: &plan.Planner{}}
	for id := range int32(12) {
		p.Issues = append(p.Issues, 20_000)
		if c := (pipelineChunk{Part: backwardPart}); id < 5 {
			x.chunks[c] = append(x.chunks[c], id)
		} else if c.Part = weights; id < 11 {
			x.chunks[c] = append(x.chunks[c], id)
		}
	}
	p.callWhole()
	if total := 100_000 / inputsHost; math.Abs(float64(9*p.Issues[0])-total) > 9 || p.Issues[11] != 20_000 {
		t.Errorf("%d ns for each kernel of the whole, not %.0f for all, and %d for the first stage's", p.Issues[0], total, p.Issues[11])
	}
	if share := p.pl.IssueShares[10]; math.Abs(share*20_000-float64(p.Issues[10])) > 1 {
		t.Errorf("a share of %.3f of what the host took is %d ns of 20000", share, p.Issues[10])
	}
}

// A planned message costs a host what a captured one does, in the middle of them.
func TestMessageHost(t *testing.T) {
	p := &pipelinePlan{reading: &reading{messages: [][]int32{{0, 2, 3}}}, Issues: []trace.Time{100, 7, 300, 200}}
	if got := p.messageHosts(); got[0] != 200 {
		t.Errorf("%d ns, not 200", got[0])
	}
}
