package assemble

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// symmetricBarrier is in the names of the kernels by which a program's ranks wait for each other before they copy from each other's
// symmetric memory, and after (pytorch/pytorch torch/csrc/distributed/c10d/symm_mem/CUDASymmetricMemory.cu).
const symmetricBarrier = "symmetric_memory::barrier_kernel"

// joinSymmetricCopies makes one collective of the kernels and copies by which a program gathers or exchanges over symmetric memory
// itself, as _low_contention_all_gather of torch.distributed._symmetric_memory and gathers of fully_shard do, with one copy or several
// from each other rank:
//
//	stream |barrier|copy|copy from 1|copy from 2|barrier|
//
// It returns the kernels with the copies among them. The GEMMs pipelined with copies (symm_mem::fused_...) stay apart.
func joinSymmetricCopies(b *trace.Builder, kernels []CollectiveKernel) []CollectiveKernel {
	barriers := map[trace.SpanID]int32{} // by span: index of its kernel
	lanes := map[trace.LaneID][]trace.SpanID{}
	for i, k := range kernels {
		if s := b.Span(k.Span); k.Same == trace.None && strings.Contains(b.NameOf(s.Name), symmetricBarrier) {
			barriers[k.Span], lanes[s.Lane] = int32(i), nil
		}
	}
	if len(barriers) == 0 {
		return kernels
	}
	for id := range b.Len() {
		if s := b.Span(trace.SpanID(id)); s.Kind.OnDevice() {
			if _, ok := lanes[s.Lane]; ok {
				lanes[s.Lane] = append(lanes[s.Lane], trace.SpanID(id))
			}
		}
	}
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		spans := lanes[lane]
		slices.SortFunc(spans, func(x, y trace.SpanID) int {
			return cmp.Or(cmp.Compare(b.Span(x).Start, b.Span(y).Start), cmp.Compare(x, y))
		})
		is := func(i int) bool {
			_, ok := barriers[spans[min(i, len(spans)-1)]]
			return ok && i < len(spans)
		}
		for i := 0; i < len(spans); i++ {
			last := i + 1
			for last < len(spans) && b.Span(spans[last]).Kind == trace.Copy {
				last++
			}
			// A third barrier with no copies behind it is of a GEMM pipelined with a reduce-scatter.
			if !is(i) || !is(last) || is(last+1) && (last+2 >= len(spans) || b.Span(spans[last+2]).Kind != trace.Copy) {
				continue
			}
			c, ok := symmetricComm(b, spans[i:last])
			if !ok {
				continue
			}
			first := barriers[spans[i]]
			kernels[first].Comm = c
			kernels[barriers[spans[last]]].Same = first
			for _, id := range spans[i+1 : last] {
				kernels = append(kernels, CollectiveKernel{Row: CopyAsKernel(b, id), Span: id, Seq: trace.None, Same: first, Engines: true})
			}
			i = last
		}
	}
	return kernels
}

// symmetricComm is what the copies behind a barrier move, if they come from other ranks: as many bytes from each.
func symmetricComm(b *trace.Builder, spans []trace.SpanID) (c trace.Comm, ok bool) {
	var bytes int64
	n, even := 0, true
	for _, id := range spans[1:] {
		switch copied := &b.Run.Copies[b.Span(id).Attr]; {
		case copied.Dir == trace.PeerToPeer:
			even = even && (n == 0 || bytes == int64(n)*copied.Bytes)
			bytes, n = bytes+copied.Bytes, n+1
		case copied.Dir != trace.DeviceToDevice:
			return c, false
		}
	}
	world := b.Run.Ranks[b.LaneOf(b.Span(spans[0]).Lane).Rank].World
	size := n + 1
	if world > 1 && n%(world-1) == 0 {
		size = world
	} else if !even {
		return c, false
	}
	op := trace.AllGather
	if n > 0 {
		for id := b.Run.Copies[b.Span(spans[len(spans)-1]).Attr].Launch; id != trace.None; id = b.Span(id).Parent {
			name := b.NameOf(b.Span(id).Name)
			if strings.Contains(name, "symm_mem::fused_") {
				return c, false
			}
			if in := trace.CollectiveOpIn(name); in == trace.AllToAll || in == trace.ReduceScatter { // of which copies do the exchange
				op = trace.AllToAll
			}
		}
	}
	if n == 0 || bytes <= 0 || bytes >= MaxBytes/int64(size) {
		return c, false
	}
	each := bytes / int64(size-1)
	group := b.AddGroup(trace.Group{Size: size, Ranks: ranksOf(size, world)})
	c = trace.Comm{Op: op, Group: group, Peer: trace.None, In: each, Out: each * int64(size)}
	if op == trace.AllToAll {
		c.In, c.Even = c.Out, true
	}
	return c, true
}

// ranksOf are the ranks of a group of so many, if it has all of them.
func ranksOf(size, world int) (ranks []int) {
	if size == world {
		for r := range size {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// CopyAsKernel makes a copy a part of a collective, and returns its row of the builder's kernels.
func CopyAsKernel(b *trace.Builder, id trace.SpanID) int32 {
	s := b.Span(id)
	c := b.Run.Copies[s.Attr]
	s.Kind, s.Attr = trace.Collective, b.AddKernel(trace.Kernel{
		Correlation: c.Correlation, Launch: c.Launch, Comm: trace.None, Op: c.Op, Origin: trace.None, Uses: c.Uses,
		Setup: b.AddSetup(trace.Setup{Stream: c.Stream}),
	})
	return s.Attr
}
