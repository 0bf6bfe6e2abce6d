package assemble

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// Copies from every other rank between two barriers of symmetric memory are one collective with them. On a stream, b is a barrier,
// p a copy from another rank, q one of twice as many bytes, h one on the same GPU, o one to the host, g a GEMM.
func TestSymmetricCopies(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		world        int
		caller       string // of the copies
		want         string
	}{
		{"two ranks", "bpb", 2, "", "all_gather of 200 from 100 by 3"},
		{"several copies from each rank", "bpqb", 2, "", "all_gather of 600 from 300 by 4"},
		{"a copy of the own part first", "ghbhpppb", 4, "", "all_gather of 400 from 100 by 6"},
		{"a part of the ranks", "bpppb", 16, "", "all_gather of 400 from 100 by 5"},
		{"one after another", "bpbbpb", 2, "aten::copy_", "all_gather of 200 from 100 by 3, all_gather of 200 from 100 by 3"},
		{"an exchange", "bpppb", 4, "symm_mem::all_to_all_vdev", "all_to_all of 400 from 400 by 5"},
		{"the exchange in front of a sum", "bpppb", 4, "symm_mem::_low_contention_reduce_scatter", "all_to_all of 400 from 400 by 5"},
		{"of unknown ranks", "bpqb", 16, "", ""},
		{"no copy", "bb", 2, "", ""},
		{"on the same GPU", "bhb", 2, "", ""},
		{"to the host", "bpob", 2, "", ""},
		{"one barrier", "bpp", 2, "", ""},
		{"a GEMM between", "bpgb", 2, "", ""},
		{"a reduce-scatter pipelined with its GEMM", "bgbpbb", 2, "", ""},
		{"a pipelined GEMM by name", "bpb", 2, "symm_mem::fused_all_gather_matmul", ""},
	} {
		b := &trace.Builder{}
		rank := b.AddRank(trace.Rank{World: c.world})
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None})
		host := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: rank, Peer: trace.None})
		caller := trace.SpanID(trace.None)
		if c.caller != "" {
			caller = b.Add(trace.Span{End: 100, Lane: host, Name: b.Intern(c.caller), Kind: trace.Marker, Parent: trace.None, Attr: trace.None})
		}
		var kernels []CollectiveKernel
		for i, r := range c.stream {
			s := trace.Span{Start: trace.Time(10 * i), End: trace.Time(10*i + 9), Lane: lane, Parent: trace.None}
			if strings.ContainsRune("bg", r) {
				s.Kind, s.Attr = trace.Compute, b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Launch: trace.None})
				if r == 'b' {
					s.Kind, s.Name = trace.Collective, b.Intern("void c10d::"+symmetricBarrier+"(unsigned int**, int)")
				}
			} else {
				s.Kind, s.Attr = trace.Copy, b.AddCopy(trace.CopyAttr{
					Bytes: map[rune]int64{'p': 100, 'q': 200, 'h': 100, 'o': 4}[r], Launch: caller, Op: trace.None,
					Dir: map[rune]trace.CopyDir{'p': trace.PeerToPeer, 'q': trace.PeerToPeer, 'h': trace.DeviceToDevice, 'o': trace.DeviceToHost}[r],
				})
			}
			id := b.Add(s)
			if r == 'b' {
				unknown := trace.Comm{Group: trace.None, Peer: trace.None}
				kernels = append(kernels, CollectiveKernel{Row: s.Attr, Span: id, Seq: trace.None, Same: trace.None, Comm: unknown})
			}
		}
		AddCollectives(b, kernels)
		parts := map[int32]int{}
		for _, k := range b.Run.Kernels {
			if k.Comm != trace.None {
				parts[k.Comm]++
			}
		}
		var got []string
		for row, comm := range b.Run.Comms {
			if comm.Engines {
				got = append(got, fmt.Sprintf("%s of %d from %d by %d", comm.Op, comm.Out, comm.In, parts[int32(row)]))
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %q, want %q", c.name, text, c.want)
		}
	}
}
