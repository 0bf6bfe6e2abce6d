package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

func TestMarkOf(t *testing.T) {
	for name, want := range map[string]string{
		"PP:2F0": "2 {0 0}", "PP:0B11": "0 {1 11}", "PP:12I3": "12 {1 3} split", "PP:1W7": "1 {2 7}",
		"PP:0SEND_F0": "", "PP:2RECV_B1": "", "PP:0UNSHARD": "", "PP:F1": "", "PP:2F": "", "2F0": "", "PP:": "",
	} {
		got := ""
		if m, ok := markOf(name); ok {
			if got = fmt.Sprintf("%d {%d %d}", m.stage, m.Part, m.Micro); m.Split {
				got += " split"
			}
		}
		if got != want {
			t.Errorf("%s: %q, not %q", name, got, want)
		}
	}
}

// What is launched between two marks belongs to the first; a mark without a kernel is a chunk too.
func TestMarked(t *testing.T) {
	w := &workload.Workload{}
	for i, at := range []trace.Time{5, 12, 17, 22, 45, 55} {
		w.Ops = append(w.Ops, workload.Op{ID: int32(i), Issued: at, Collective: -1, Kernel: &workload.Kernel{}})
	}
	within := func(from, to trace.Time, c pipelineChunk) mark { return mark{from: from, to: to, pipelineChunk: c} }
	rd, x := &reading{w: w}, work{chunks: map[pipelineChunk][]int32{}}
	rd.marked(&x, []int32{0, 1, 2, 3, 4, 5}, []mark{
		within(10, 15, pipelineChunk{Part: forwardPart}), within(20, 25, pipelineChunk{Part: forwardPart, Group: 1}),
		within(30, 35, pipelineChunk{Part: backwardPart, Group: 1, Split: true}), within(40, 50, pipelineChunk{Part: weights, Group: 1}),
	})
	got := fmt.Sprint(x.head, x.microBatchOrder, x.of(forwardPart, 0, 0, 1), x.of(backwardPart, 0, 1), x.tail, x.count)
	want := "[0] [{0 0 0 false} {0 0 1 false} {1 0 1 true} {2 0 1 false}] [1 2 3] [4] [5] [2 1]"
	if got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
}

// actions are what a rank does, as PyTorch names it.
func actions(p *pipelinePlan, rank int) string {
	var list []string
	name := func(stage int, c pipelineChunk, before string) {
		part := "FBW"[c.Part : c.Part+1]
		if c.Split {
			part = "I"
		}
		list = append(list, fmt.Sprint(stage, before, part, c.Micro))
	}
	stages := p.shape.stages
	posts := p.Posts()
	var mine []sentMessage
	for s := range posts {
		if to, _, _ := p.Beside(s.From, s.pipelineChunk, 1); to == rank {
			mine = append(mine, s)
		}
	}
	slices.SortFunc(mine, func(a, b sentMessage) int { return cmp.Compare(posts[a].Turn, posts[b].Turn) })
	for i, c := range p.Orders[rank] {
		for len(mine) > 0 && posts[mine[0]].Steps <= i {
			_, c, _ := p.Beside(mine[0].From, mine[0].pipelineChunk, 1)
			name(c.Group*stages+rank, c, "RECV_")
			mine = mine[1:]
		}
		name(c.Group*stages+rank, c, "")
		if _, _, ok := p.Beside(rank, c, 1); ok {
			c.Split = false
			name(c.Group*stages+rank, c, "SEND_")
		}
	}
	return strings.Join(list, " ")
}

// The order of what ranks compute, send and receive is that of PyTorch 2.11 on two ranks of two stages
// each: the ranges of a run of ScheduleInterleaved1F1B and one of ScheduleInterleavedZeroBubble.
func TestActionsAreThoseOfPyTorch(t *testing.T) {
	for schedule, want := range map[string][2]string{
		"interleaved": {`
				0F0 0SEND_F0 2RECV_F0 0F1 0SEND_F1 2RECV_F1 2F0 2SEND_F0 2F1 2SEND_F1 2RECV_B0 0F2 0SEND_F2 2B0
				2SEND_B0 2RECV_B1 0F3 0SEND_F3 2RECV_F2 2B1 2SEND_B1 0RECV_B0 2F2 2SEND_F2 2RECV_F3 0B0 0RECV_B1 2F3
				2SEND_F3 0B1 2RECV_B2 0F4 0SEND_F4 2B2 2SEND_B2 2RECV_B3 0F5 0SEND_F5 2RECV_F4 2B3 2SEND_B3 0RECV_B2
				2F4 2SEND_F4 2RECV_F5 0B2 0RECV_B3 2F5 2SEND_F5 0B3 2RECV_B4 0F6 0SEND_F6 2B4 2SEND_B4 2RECV_B5 0F7
				0SEND_F7 2RECV_F6 2B5 2SEND_B5 0RECV_B4 2F6 2SEND_F6 2RECV_F7 0B4 0RECV_B5 2F7 2SEND_F7 0B5 2RECV_B6
				2B6 2SEND_B6 2RECV_B7 2B7 2SEND_B7 0RECV_B6 0B6 0RECV_B7 0B7`, `
				1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3RECV_F1 3B0 3SEND_B0 1RECV_F2 3F1 1RECV_B0
				3B1 3SEND_B1 1RECV_F3 1F2 1SEND_F2 1RECV_B1 1B0 1SEND_B0 3RECV_F2 1F3 1SEND_F3 1B1 1SEND_B1 3RECV_F3
				3F2 3B2 3SEND_B2 1RECV_F4 3F3 1RECV_B2 3B3 3SEND_B3 1RECV_F5 1F4 1SEND_F4 1RECV_B3 1B2 1SEND_B2
				3RECV_F4 1F5 1SEND_F5 1B3 1SEND_B3 3RECV_F5 3F4 3B4 3SEND_B4 1RECV_F6 3F5 1RECV_B4 3B5 3SEND_B5
				1RECV_F7 1F6 1SEND_F6 1RECV_B5 1B4 1SEND_B4 3RECV_F6 1F7 1SEND_F7 1B5 1SEND_B5 3RECV_F7 3F6 3B6
				3SEND_B6 1RECV_B6 3F7 3B7 3SEND_B7 1RECV_B7 1B6 1SEND_B6 1B7 1SEND_B7`},
		"zb": {`
				0F0 0SEND_F0 2RECV_F0 0F1 0SEND_F1 2RECV_F1 2F0 2SEND_F0 2F1 2SEND_F1 2RECV_B0 2I0 2SEND_B0 2W0
				2RECV_B1 0F2 0SEND_F2 2I1 2SEND_B1 2RECV_F2 2W1 0RECV_B0 0F3 0SEND_F3 0I0 2RECV_F3 0W0 0RECV_B1 2F2
				2SEND_F2 0I1 0W1 2RECV_B2 2F3 2SEND_F3 2I2 2SEND_B2 2W2 2RECV_B3 0F4 0SEND_F4 2I3 2SEND_B3 2RECV_F4
				2W3 0RECV_B2 0F5 0SEND_F5 0I2 2RECV_F5 0W2 0RECV_B3 2F4 2SEND_F4 0I3 0W3 2RECV_B4 2F5 2SEND_F5 2I4
				2SEND_B4 2W4 2RECV_B5 0F6 0SEND_F6 2I5 2SEND_B5 2RECV_F6 2W5 0RECV_B4 0F7 0SEND_F7 0I4 2RECV_F7 0W4
				0RECV_B5 2F6 2SEND_F6 0I5 0W5 2RECV_B6 2F7 2SEND_F7 2I6 2SEND_B6 2W6 2RECV_B7 2I7 2SEND_B7 2W7
				0RECV_B6 0I6 0W6 0RECV_B7 0I7 0W7`, `
				1RECV_F0 1F0 1SEND_F0 1RECV_F1 1F1 1SEND_F1 3RECV_F0 3F0 3RECV_F1 3I0 3SEND_B0 1RECV_B0 3F1 3I1
				3SEND_B1 1RECV_F2 3W0 1RECV_B1 1F2 1SEND_F2 1I0 1SEND_B0 1RECV_F3 3W1 1F3 1SEND_F3 1I1 1SEND_B1
				3RECV_F2 1W0 3F2 3I2 3SEND_B2 3RECV_F3 1W1 1RECV_B2 3F3 3I3 3SEND_B3 1RECV_F4 3W2 1RECV_B3 1F4
				1SEND_F4 1I2 1SEND_B2 1RECV_F5 3W3 1F5 1SEND_F5 1I3 1SEND_B3 3RECV_F4 1W2 3F4 3I4 3SEND_B4 3RECV_F5
				1W3 1RECV_B4 3F5 3I5 3SEND_B5 1RECV_F6 3W4 1RECV_B5 1F6 1SEND_F6 1I4 1SEND_B4 1RECV_F7 3W5 1F7
				1SEND_F7 1I5 1SEND_B5 3RECV_F6 1W4 3F6 3I6 3SEND_B6 3RECV_F7 1W5 1RECV_B6 3F7 3I7 3SEND_B7 1RECV_B7
				3W6 1I6 1SEND_B6 3W7 1I7 1SEND_B7 1W6 1W7`},
	} {
		rd := &reading{stage: []int{0, 1}, chain: []int{0, 0}, ranks: [][]int{{0, 1}}}
		p := &pipelinePlan{reading: rd, shape: shape{stages: 2, micros: 8, groups: 2}, inTurns: true}
		orders, why := p.shape.orders(schedule)
		if why != "" {
			t.Fatal(why)
		}
		p.Orders = orders
		for rank, want := range want {
			if want = strings.Join(strings.Fields(want), " "); actions(p, rank) != want {
				t.Errorf("%s, rank %d:\n%s\nnot\n%s", schedule, rank, actions(p, rank), want)
			}
		}
	}
}
