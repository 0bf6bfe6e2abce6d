package replay

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// memoryOnly is a machine of two GPUs whose memories, of 1000 bytes a
// nanosecond, are all that limits.
func memoryOnly() machine.Machine {
	m := small(2, 4)
	m.Fabric = machine.Fabric{}
	return m
}

// ends is when the spans of each name end.
func ends(r *trace.Run) map[string]program.Time {
	last := map[string]program.Time{}
	for _, s := range r.Spans {
		last[r.NameOf(s)] = max(last[r.NameOf(s)], s.End)
	}
	return last
}

// Four workgroups compute on GPU 0 while 50,000 bytes are copied into its memory.
func TestArbiter(t *testing.T) {
	hungry := program.Phase{Op: program.Work, Read: 10_000} // asks for all there is
	modest := program.Phase{Op: program.Work, Read: 7500, Time: 100}
	for _, c := range []struct {
		name          string
		arbiter       program.Arbiter
		phase         program.Phase
		compute, copy program.Time
	}{
		{"five flows, a fifth each", program.Arbiter{}, hungry, 50, 90},
		{"half each", program.Arbiter{Policy: program.RoundRobin}, hungry, 80, 90},
		{"compute but for a tenth", program.Arbiter{Policy: program.ComputeFirst, Share: .1}, hungry, 45, 91}, // 4500 bytes copied by 45 ns, which 44.4 is rounded up to
		{"what fair flows leave", program.Arbiter{}, modest, 100, 72},
		{"what one side leaves is the other's", program.Arbiter{Policy: program.RoundRobin}, modest, 100, 72},
		{"what computation leaves", program.Arbiter{Policy: program.ComputeFirst, Share: .1}, modest, 100, 72},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := prog([]program.Stream{
				{Commands: []program.Command{kernel("compute", 4, []program.Phase{c.phase})}},
				{Commands: []program.Command{{Op: program.Start, Copy: &program.Copy{Name: "copy", From: 1, Peer: 0, Bytes: 50_000}}}},
			}, nil)
			p.Arbiter = c.arbiter
			r := mustSimulate(t, memoryOnly(), p, Options{})
			if got := ends(r.Run); got["compute"] != c.compute || got["copy"] != c.copy {
				t.Errorf("ends %v, want compute %d, copy %d", got, c.compute, c.copy)
			}
		})
	}
}

// Each of two kernels states communication's share of GPU 0's memory, alongside which
// GPU 1's keeps the program's; a kernel that states none leaves the share as it is.
// A copy of 1000 bytes a nanosecond is under way on both GPUs throughout.
func TestKernelsSetCommShare(t *testing.T) {
	reads := func(name string, share float64) program.Command {
		c := kernel(name, 4, []program.Phase{{Op: program.Work, Read: 1500}}) // 6000 bytes in all
		c.Kernel.CommShare = share
		return c
	}
	copied := program.Command{Op: program.Start, Copy: &program.Copy{Name: "copy", Bytes: 100_000}}
	other := copied
	other.Copy = &program.Copy{Name: "other copy", From: 1, Peer: 1, Bytes: 100_000}
	for _, c := range []struct {
		policy program.Policy
		want   []program.Time
	}{
		{program.ComputeFirst, []program.Time{12, 20, 28, 36, 12}}, // 500, then 750 bytes a nanosecond
		{program.RoundRobin, []program.Time{12, 24, 36, 48, 12}},
	} {
		p := prog(
			[]program.Stream{{Commands: []program.Command{reads("default", 0), reads("quarter", .25), reads("no share", 0), reads("quarter again", .25)}}, {Commands: []program.Command{copied}}},
			[]program.Stream{{Commands: []program.Command{reads("GPU 1", 0)}}, {Commands: []program.Command{other}}},
		)
		p.Arbiter = program.Arbiter{Policy: c.policy, Share: .5}
		m := memoryOnly()
		ends := ends(mustSimulate(t, m, p, Options{}).Run)
		got := []program.Time{ends["default"], ends["quarter"], ends["no share"], ends["quarter again"], ends["GPU 1"]}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("policy %d: ends\n%s", c.policy, d)
		}
	}
}

// Communication that is sure of all of the memory has it, also where computation
// begins when nothing is left for it: 50,000 bytes are copied by 50 ns, and 4 MB
// read from then on. Where a rounding error is left for it, it would end beyond the
// last representable time at first; that does not fail the run.
func TestArbiterGivesAllToCommunication(t *testing.T) {
	for _, c := range []struct {
		begins program.Time
		share  float64
	}{{0, 1}, {10, 1}, {10, 1 - 1e-16}} {
		compute := kernel("compute", 4, []program.Phase{{Op: program.Work, Read: 1e6}})
		p := prog([]program.Stream{
			{Commands: []program.Command{{Op: program.Delay, Delay: c.begins}, compute}},
			{Commands: []program.Command{{Op: program.Start, Copy: &program.Copy{Name: "copy", From: 1, Peer: 0, Bytes: 50_000}}}},
		}, nil)
		p.Arbiter = program.Arbiter{Policy: program.ComputeFirst, Share: c.share}
		got := ends(mustSimulate(t, memoryOnly(), p, Options{}).Run)
		if got["copy"] != 50 || got["compute"] != 4050 {
			t.Errorf("%+v: ends %v, want copy 50, compute 4050", c, got)
		}
	}
}

// A collective's kernel is communication whatever it does, and shares that half
// with two copies; a compute kernel's stores to its own memory have theirs alone.
func TestSidesOfMemory(t *testing.T) {
	m := memoryOnly()
	endless := func(name string) []program.Command {
		return []program.Command{{Op: program.Start, Copy: &program.Copy{Name: name, From: 1, Peer: 0, Bytes: 1e6}}}
	}
	reads := kernel("one", 1, []program.Phase{{Op: program.Work, Read: 6000}})
	reads.Kernel.Kind = trace.Collective
	stores := kernel("one", 1, []program.Phase{{Op: program.Store, Bytes: 6000}})
	for _, c := range []struct {
		name    string
		one     program.Command
		compute []program.Phase
		want    program.Time
	}{
		{"work of a collective", reads, []program.Phase{{Op: program.Work, Read: 1e6}}, 3 * 6000 / 500},
		{"local stores", stores, work(1000), 6000 / 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := prog([]program.Stream{
				{Commands: []program.Command{c.one}},
				{Commands: []program.Command{kernel("compute", 1, c.compute)}},
				{Commands: endless("copy")},
				{Commands: endless("second copy")},
			}, nil)
			p.Arbiter = program.Arbiter{Policy: program.RoundRobin}
			if got := ends(mustSimulate(t, m, p, Options{}).Run)["one"]; got != c.want {
				t.Errorf("ended at %d, want %d", got, c.want)
			}
		})
	}
}

// An update takes the memory it lands in as much longer as the machine says, a
// hit takes it no time, and bytes are counted as bytes all the same.
func TestUpdatesAndHits(t *testing.T) {
	for _, c := range []struct {
		name    string
		phase   program.Phase
		want    program.Time
		memory  float64
		written float64
	}{
		{"write", program.Phase{Op: program.Work, Write: 8000}, 8, 8000, 8000},
		{"update", program.Phase{Op: program.Work, Write: 8000, Update: true}, 16, 8000, 8000},
		{"read and update", program.Phase{Op: program.Work, Read: 4000, Write: 8000, Update: true}, 20, 12000, 8000},
		{"half hits", program.Phase{Op: program.Work, Read: 8000, Hit: .5}, 4, 4000, 0},
		{"all hits, the cache at 2000 bytes a nanosecond", program.Phase{Op: program.Work, Read: 8000, Hit: 1}, 4, 0, 0},
		{"update there", program.Phase{Op: program.Store, Peer: 1, Bytes: 8000, Update: true}, 16, 0, 0},
		{"put of what was read before", program.Phase{Op: program.Put, Peer: 1, Bytes: 8000, Held: true}, 8, 0, 0},
		{"put as update", program.Phase{Op: program.Put, Peer: 1, Bytes: 8000, Update: true}, 16, 8000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := memoryOnly()
			m.GPU.Update, m.GPU.CacheRate = q(2), q(2000e9)
			r := mustSimulate(t, m, prog([]program.Stream{{Commands: []program.Command{kernel("k", 1, []program.Phase{c.phase})}}}, nil), Options{})
			if r.Makespan != c.want {
				t.Errorf("took %d ns, want %d", r.Makespan, c.want)
			}
			var memory, written float64
			for _, x := range r.Traffic {
				if x.GPU == 0 && x.Resource == Memory {
					memory, written = x.Bytes, x.Written
				}
			}
			if memory != c.memory || written != c.written {
				t.Errorf("%g bytes of memory, %g written; want %g, %g", memory, written, c.memory, c.written)
			}
		})
	}
}
