package schedule

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A rank's forward F and G, a message m, backward B and C, each issued in 400 us. Autograd's thread takes 300 us to run for B,
// and the program's as long for m behind C.
func handingOver() *pipelinePlan {
	const us = 1000
	w := &workload.Workload{World: 1, Ranks: [][]int32{{0, 1, 2, 3, 4}}, Calls: []trace.Time{5 * us}, Collectives: []workload.Collective{{Op: trace.SendRecv}}}
	for i, name := range "FGBCm" {
		op := workload.Op{ID: int32(i), Kind: trace.Compute, Collective: -1, Launched: workload.Launched{Backward: name == 'B' || name == 'C'}, Kernel: &workload.Kernel{Name: string(name)}}
		if name == 'm' {
			op.Kind, op.Collective = trace.Collective, 0
		}
		w.Ops = append(w.Ops, op)
	}
	w.Hosts = []*workload.Host{{Wakes: map[int32]trace.Time{2: 300 * us, 4: 290 * us}}}
	x := work{chunks: map[pipelineChunk][]int32{{Part: forwardPart}: {0, 1}, {Part: backwardPart}: {2, 3}}}
	p := &pipelinePlan{reading: &reading{w: w, stage: []int{0}, rounds: [][]work{{x}}}, pl: &plan.Planner{}, pieces: map[place][]pipelinePiece{}}
	for range w.Ops {
		p.Issues = append(p.Issues, 400*us)
	}
	p.wakes = []wakes{p.wakesOf(0)}
	return p
}

// A chunk of backward wakes autograd's thread, unless it begins where one was captured, and is behind the message that it was
// captured with.
func TestChunksHandOver(t *testing.T) {
	p := handingOver()
	if p.wakes[0] != (wakes{300_000, 290_000}) {
		t.Fatalf("%+v", p.wakes)
	}
	piece := func(id int32) pipelinePiece { return pipelinePiece{Op: &p.w.Ops[id], Part: &p.w.Ops[id]} }
	first := place{pipelineChunk: pipelineChunk{Part: backwardPart}}
	second := place{pipelineChunk: pipelineChunk{Part: backwardPart, Group: 1}}
	forward := place{pipelineChunk: pipelineChunk{Part: forwardPart}}
	half := place{pipelineChunk: pipelineChunk{Part: weights, Group: 1}}
	p.pieces = map[place][]pipelinePiece{first: {piece(2), piece(3)}, second: {piece(3), piece(3)}, forward: {piece(0)}, half: {piece(3)}}
	p.halves = true
	p.handOver()
	hosts := func(at place) (text string) {
		for _, x := range p.pieces[at] {
			text += fmt.Sprint(x.Op.Name, "+", x.Host/1000, " ")
		}
		return text
	}
	for at, want := range map[place]string{first: "B+0 C+290 ", second: "C+300 C+290 ", forward: "F+0 ", half: "C+0 "} {
		if got := hosts(at); got != want {
			t.Errorf("%+v: %s, not %s", at.pipelineChunk, got, want)
		}
	}
	if got := fmt.Sprint(p.Issues); got != "[400000 400000 400000 400000 110000]" {
		t.Errorf("operations are issued in %s ns", got)
	}
	if got := fmt.Sprint(p.pl.IssueShares); got != "[1 1 1 1 0.275]" {
		t.Errorf("shares of what they took are %s", got)
	}
}

// Hand-overs of a second half take longer on a host whose threads wake slowly, and on no other; never longer than all of them to
// threads that slept. Without a record of threads nothing changes.
func TestSlowWakes(t *testing.T) {
	const call, groups = 5_000.0, 14
	for _, c := range []struct {
		wakes []wakes
		want  trace.Time
	}{
		{nil, 0},
		{[]wakes{{}}, 0},
		{[]wakes{{50_000, 30_000}}, 0},
		{[]wakes{{300_000, 290_000}}, 1_029_000}, // 14 groups, of which each takes 0.15 of 250 and of 240 us
	} {
		p := &pipelinePlan{wakes: c.wakes}
		got := p.slowly(0, groups, call)
		if got != c.want {
			t.Errorf("%v: %d ns longer, not %d", c.wakes, got, c.want)
		}
		for _, w := range c.wakes {
			if got > groups*(w.to+w.back) {
				t.Errorf("%v: %d ns longer, more than all hand-overs take", c.wakes, got)
			}
		}
	}
}
