package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// drawn is backward of two micro-batches on one rank, a letter a kernel of 10 us: A and B depend on the
// rows, m is a fill, and g adds to a gradient.
func drawn(t *testing.T, chunks ...string) *pipelinePlan {
	w := &workload.Workload{World: 1}
	p := &pipelinePlan{
		reading: &reading{w: w, micros: len(chunks), groups: 1, rounds: [][]work{{{chunks: map[pipelineChunk][]int32{}}}}},
		pl:      &plan.Planner{Workload: w, Machine: plantest.H200(t, 2)},
		shape:   shape{stages: 1, groups: 1}, ids: map[place][]int32{}, pieces: map[place][]pipelinePiece{},
	}
	kernels := map[rune]*workload.Kernel{}
	for micro, text := range chunks {
		at := place{pipelineChunk: pipelineChunk{Part: backwardPart, Micro: micro}}
		for _, letter := range text {
			if kernels[letter] == nil {
				kernels[letter] = &workload.Kernel{Name: string(letter), Tiling: workload.Tiling{WGs: 1 << 14}}
			}
			op := workload.Op{ID: int32(len(w.Ops)), Kind: trace.Compute, Collective: -1, Start: 0, End: 10_000, Launched: workload.Launched{Backward: true, Gradient: letter == 'g'}, Kernel: kernels[letter]}
			if letter == 'm' {
				op.Kind = trace.Copy
			}
			w.Ops = append(w.Ops, op)
			p.ids[at] = append(p.ids[at], op.ID)
		}
	}
	return p
}

// piecesOf lists a planned micro-batch's kernels with their times in us.
func piecesOf(p *pipelinePlan, micro int) string {
	var list []string
	for _, x := range p.pieces[place{pipelineChunk: pipelineChunk{Part: backwardPart, Micro: micro}}] {
		list = append(list, fmt.Sprintf("%s%.0f", x.Op.Name, float64(x.Part.DurAlone())/1000))
	}
	return strings.Join(list, " ")
}

// Kernels of other numbers of micro-batches take their share of the rows; gradients are added whole, once
// for each micro-batch but the first. Fewer micro-batches are fewer kernels, and what does not run alike
// runs one after another.
func TestOtherNumbersOfMicroBatches(t *testing.T) {
	for _, c := range []struct {
		captured []string
		micros   int
		want     []string
	}{
		{[]string{"AB", "AgBg"}, 2, []string{"A10 B10", "A10 g10 B10 g10"}},
		{[]string{"AB", "AgBg"}, 4, []string{"A6 B6", "A6 g10 B6 g10", "A6 g10 B6 g10", "A6 g10 B6 g10"}},
		{[]string{"AB", "AgBg"}, 1, []string{"A19 B19"}},
		{[]string{"AmB", "AgBg", "AgmBg", "AgBg"}, 2, []string{"A19 m10 B19", "A19 g10 m10 B19 g10"}},
		{[]string{"AB", "BgAg"}, 1, []string{"A10 B10 B10 g10 A10 g10"}},
		{[]string{"AB"}, 2, []string{"A6 B6", "A6 B6"}},
	} {
		p := drawn(t, c.captured...)
		p.shape.micros = c.micros
		p.take(place{pipelineChunk: pipelineChunk{Part: backwardPart}})
		var got []string
		for micro := range c.micros {
			got = append(got, piecesOf(p, micro))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v in %d: %q, not %q", c.captured, c.micros, got, c.want)
		}
	}
}
