package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// list shows the spans of a run below its kernels, one a line.
func list(r *trace.Run) string {
	var out []string
	for _, s := range r.Spans {
		l := r.Lanes[s.Lane]
		line := fmt.Sprintf("%d-%d %s %q on %s %d.%d", s.Start, s.End, s.Kind, r.NameOf(s), l.Kind, l.ID, l.Sub)
		if w := r.Workgroup(s); w != nil {
			line += fmt.Sprintf(" id=%d wg=%d cu=%d peer=%d", w.ID, w.Persistent, w.CU, w.Peer)
		}
		if c := r.Copy(s); c != nil {
			line += fmt.Sprintf(" bytes=%d peer=%d", c.Bytes, c.Peer)
		}
		if s.Parent != trace.None {
			line += fmt.Sprintf(" in %s", r.Spans[s.Parent].Kind)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestRecordingLevels(t *testing.T) {
	kinds := func(o Options) string {
		p := prog(
			[]program.Stream{{Commands: []program.Command{kernel("A", 2, work(10))}}},
			[]program.Stream{{Commands: []program.Command{kernel("A", 2, work(10))}}})
		count := map[string]int{}
		run := mustSimulate(t, small(2, 1), p, o).Run
		for _, s := range run.Spans {
			count[fmt.Sprintf("%d %s", run.RankOf(s), s.Kind)]++
		}
		return fmt.Sprint(count)
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "map[0 compute:1 1 compute:1]"},
		{Options{Level: Workgroups}, "map[0 compute:1 0 workgroup:2 1 compute:1 1 workgroup:2]"},
		{Options{Level: Phases, Ranks: []int{1}}, "map[0 compute:1 1 compute:1 1 compute phase:2 1 workgroup:2]"},
		{Options{Level: Phases, Ranks: []int{}}, "map[0 compute:1 1 compute:1]"},
	} {
		if got := kinds(c.o); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.o, got, c.want)
		}
	}
}

// What a rank puts from inside its kernels is recorded where its workgroups are not: bytes that follow each other in one span.
func TestRecordPuts(t *testing.T) {
	p := &program.Program{}
	puts := func(peer int32) []program.Stream {
		put := program.Phase{Op: program.Put, Peer: peer, Bytes: 100, Flag: p.NewFlag("came"), Count: 1}
		return []program.Stream{{Commands: []program.Command{
			kernel("two", 1, []program.Phase{put, put}), kernel("apart", 1, []program.Phase{put, {Op: program.Work, Time: 1000}, put}),
		}}}
	}
	p.GPUs = []program.GPU{{Streams: puts(1)}, {Streams: puts(0)}}
	sent := func(rank int, o Options) (all []string) {
		run := mustSimulate(t, small(2, 1), p, o).Run
		for _, s := range run.Spans {
			if s.Kind == trace.Transfer && run.RankOf(s) == rank {
				all = append(all, fmt.Sprint(run.NameOf(s), " ", run.Copy(s).Bytes, " on ", run.LaneLabel(s.Lane)))
			}
		}
		return all
	}
	each := []string{"two 100", "two 100", "apart 100", "apart 100"}
	for i := range each {
		each[i] += " on link to rank 0"
	}
	for _, c := range []struct {
		name  string
		ranks []int
		want  []string
	}{
		{"all ranks", nil, each},
		{"this rank", []int{1}, each},
		{"another rank", []int{0}, []string{"two 200 on link to rank 0", "apart 100 on link to rank 0", "apart 100 on link to rank 0"}},
		{"none", []int{}, []string{"two 200 on link to rank 0", "apart 100 on link to rank 0", "apart 100 on link to rank 0"}},
	} {
		if diff := cmp.Diff(c.want, sent(1, Options{Level: Phases, Ranks: c.ranks})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if diff := cmp.Diff(sent(1, Options{Level: Phases, Ranks: []int{}}), sent(1, Options{Level: Workgroups})); diff != "" {
		t.Errorf("workgroups (-want +got):\n%s", diff)
	}
	if got := sent(1, Options{}); got != nil {
		t.Errorf("kernels only: %q", got)
	}
}

func TestRecordAttributes(t *testing.T) {
	ar := &trace.Comm{Op: trace.AllReduce, In: 100, Group: 5, Seq: 99}
	c := kernel("ar", 2, work(10), func(k *program.Kernel) {
		k.Kind, k.Comm = trace.Collective, ar
		k.Attr, k.Setup = trace.Kernel{Op: 12, Comm: 3}, trace.Setup{Block: [3]int32{8, 1, 1}}
	})
	c.Origin = 42
	streams := func() []program.Stream {
		return []program.Stream{
			{Name: "comm", Queue: 20, Priority: 2, Commands: []program.Command{c, c}},
			{Queue: 9, Commands: []program.Command{{Op: program.Start, Origin: 6, Copy: &program.Copy{Name: "pull", From: 1, Bytes: 100}}}},
		}
	}
	p := prog(streams(), nil)
	p.GPUs[0].Streams[0].Queue, p.GPUs[0].Streams[1].Queue = 20, 9
	m := small(2, 1)
	m.GPU.Name, m.Engines = "g", machine.Engines{Count: q(1)}
	r := mustSimulate(t, m, p, Options{Name: "bulk", Level: Workgroups, Ranks: []int{0}}).Run
	if !r.Simulated || r.Name != "bulk" || len(r.Ranks) != 2 || r.Ranks[1].ID != 1 || r.Ranks[1].World != 2 || r.Ranks[0].Device.CUs != 1 {
		t.Errorf("run %q of %+v", r.Name, r.Ranks)
	}
	wantKernel := trace.Kernel{Setup: 1, Origin: 42, Op: trace.None, Launch: trace.None}
	if diff := cmp.Diff([]trace.Setup{{Grid: [3]int32{2, 1, 1}, Block: [3]int32{8, 1, 1}, Stream: 20, Priority: -2}}, r.Setups); diff != "" {
		t.Error(diff)
	}
	second := wantKernel
	second.Comm = 1
	if diff := cmp.Diff([]trace.Kernel{wantKernel, second}, r.Kernels); diff != "" {
		t.Error(diff)
	}
	first := trace.Comm{Op: trace.AllReduce, In: 100}
	next := first
	next.Seq, next.Collective = 1, 1
	if diff := cmp.Diff([]trace.Comm{first, next}, r.Comms); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]trace.Group{{Name: "all", Ranks: []int{0, 1}, Size: 2}}, r.Groups); diff != "" {
		t.Error(diff)
	}
	pull := trace.CopyAttr{Bytes: 100, Stream: 9, Peer: 1, Origin: 6, Op: trace.None, Launch: trace.None, Dir: trace.PeerToPeer}
	if len(r.Copies) != 1 || r.Copies[0] != pull {
		t.Errorf("copies %+v", r.Copies)
	}
	if ar.Seq != 99 || ar.Group != 5 {
		t.Error("the program was changed")
	}
}

// A run of more spans than are wanted has no phases, or its kernels only, and is else the same.
func TestRecordMost(t *testing.T) {
	p := &program.Program{}
	c := kernel("plain", 100, []program.Phase{{Op: program.Work, Time: 10}, {Op: program.Work, Time: 5}})
	p.GPUs = []program.GPU{{Streams: []program.Stream{{Queue: 7, Commands: []program.Command{c}}}}}
	m := small(1, 1)
	all := mustSimulate(t, m, p, Options{Level: Phases})
	workgroups := mustSimulate(t, m, p, Options{Level: Workgroups})
	kernels := mustSimulate(t, m, p, Options{})
	n, fewer := len(all.Run.Spans), len(workgroups.Run.Spans)
	for most, want := range map[int]*Result{0: all, n: all, n - 1: workgroups, fewer: workgroups, fewer - 1: kernels, 1: kernels} {
		got := mustSimulate(t, m, p, Options{Level: Phases, Most: most})
		if got.Level != want.Level || got.Coarse != (want != all) || got.Makespan != all.Makespan {
			t.Errorf("at most %d: level %v, makespan %v of %v", most, got.Level, got.Makespan, all.Makespan)
		}
		if diff := cmp.Diff(list(want.Run), list(got.Run)); diff != "" {
			t.Errorf("at most %d (-want +got):\n%s", most, diff)
		}
	}
	if len(kernels.Run.Spans) >= 100 || len(all.Run.Spans) < 100 {
		t.Errorf("%d spans of kernels, %d with workgroups", len(kernels.Run.Spans), len(all.Run.Spans))
	}
}
