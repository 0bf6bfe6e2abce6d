package replay

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// big is a machine of the size of an eight-GPU server's, scaled out on one switch.
func big(gpus int) machine.Machine {
	return machine.Machine{
		Name: "big", GPUs: gpus,
		GPU: machine.GPU{
			CUs: q(132), Threads: q(2048), Registers: q(65536), Shared: q(233472),
			SharedSpare: q(1024), WGs: q(32), MemoryRates: machine.MemoryRates{Memory: q(4.2e12)},
		},
		Fabric: machine.Fabric{Topology: machine.Switch, Egress: q(381e9), Ingress: q(381e9), Latency: q(1.5e-6)},
	}
}

// jitter is a number in 0..n-1 that looks random and is the same every time.
func jitter(i, n int) int {
	x := uint64(i)*0x9e3779b97f4a7c15 + 1
	x ^= x >> 29
	x *= 0xbf58476d1ce4e5b9
	return int((x >> 33) % uint64(n))
}

// BenchmarkPhases runs phases of 105,600 workgroups at once on 100 GPUs, 5 M
// in all, on one core. "even" ones are all alike; "jittered" ones end at
// times of their own, each an instant.
func BenchmarkPhases(b *testing.B) {
	const gpus, wgs, rounds = 100, 1056, 47
	for _, c := range []struct {
		name   string
		phases func(tile int) [2]program.Phase
	}{
		{"compute/even", func(int) [2]program.Phase {
			return [2]program.Phase{{Op: program.Work, Time: 3000}, {Op: program.Work, Time: 2000}}
		}},
		{"compute/jittered", func(tile int) [2]program.Phase {
			return [2]program.Phase{{Op: program.Work, Time: program.Time(3000 + jitter(tile, 2000))}, {Op: program.Work, Time: 2000}}
		}},
		{"memory/even", func(int) [2]program.Phase {
			return [2]program.Phase{{Op: program.Work, Time: 3000, Read: 30000}, {Op: program.Work, Time: 2000, Write: 10000}}
		}},
		{"memory/jittered", func(tile int) [2]program.Phase {
			return [2]program.Phase{{Op: program.Work, Time: program.Time(3000 + jitter(tile, 2000)), Read: 30000}, {Op: program.Work, Time: 2000, Write: 10000}}
		}},
		{"memory/jittered bytes", func(tile int) [2]program.Phase {
			x := program.Time(3000 + jitter(tile, 2000))
			return [2]program.Phase{{Op: program.Work, Time: x, Read: 10 * float64(x)}, {Op: program.Work, Time: 2000, Write: 10000}}
		}},
		{"latency/jittered", func(tile int) [2]program.Phase {
			return [2]program.Phase{{Op: program.Sleep, Time: program.Time(3000 + jitter(tile, 2000))}, {Op: program.Sleep, Time: 2000}}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := prog()
			for g := range gpus {
				k := kernel("k", wgs, nil, threads(256), pipe(.125), persistent(wgs*rounds/2, -1))
				k.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
					x := c.phases(tile + g*wgs*rounds)
					return append(buf, x[:]...)
				}
				p.GPUs = append(p.GPUs, program.GPU{Streams: []program.Stream{{Commands: []program.Command{k}}}})
			}
			b.ReportAllocs()
			for b.Loop() {
				mustSimulate(b, big(gpus), p, Options{})
			}
			phases := float64(b.N) * gpus * wgs * rounds
			b.ReportMetric(phases/b.Elapsed().Seconds()/1e6, "Mphases/s")
		})
	}
}

// BenchmarkEvents is the cost of a phase of a simulation while 100 to 1 M
// workgroups are in one, with and without ties, and how many times that with 100.
func BenchmarkEvents(b *testing.B) {
	for _, spread := range []struct {
		name string
		ns   int
	}{{"ties", 1}, {"distinct", 1e5}} {
		least := 0.0
		for _, pending := range []int{1e2, 1e3, 1e4, 1e5, 1e6} {
			b.Run(fmt.Sprintf("%s/%d", spread.name, pending), func(b *testing.B) {
				tiles := max(8*pending, 1e6)
				k := kernel("k", pending, nil, persistent(tiles, -1))
				k.Kernel.Free = true
				k.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
					return append(buf, program.Phase{Op: program.Sleep, Time: program.Time(1e5 + jitter(tile, spread.ns))})
				}
				p := prog([]program.Stream{{Commands: []program.Command{k}}})
				for b.Loop() {
					mustSimulate(b, big(1), p, Options{})
				}
				each := b.Elapsed().Seconds() / float64(b.N) / float64(tiles) * 1e9
				if pending == 1e2 {
					least = each
				}
				b.ReportMetric(each, "ns/phase")
				b.ReportMetric(each/least, "x")
			})
		}
	}
}

// embedding is a fused embedding and all-to-all: persistent workgroups gather
// rows and store each result to the rank that wants it, remote ranks first.
func embedding(gpus, tiles, wgs int, even bool) *program.Program {
	p := &program.Program{}
	arrived := make([]program.Flag, gpus)
	for g := range arrived {
		arrived[g] = p.NewFlag(fmt.Sprintf("stores to rank %d", g))
	}
	each := tiles / gpus
	for g := range gpus {
		k := &program.Kernel{
			Name: "embedding", WGs: wgs, Tiles: tiles, Owned: -1, Kind: trace.Compute, Sharing: program.Sharing{Pipe: .125},
			Footprint: program.Footprint{Threads: 256, Registers: 32},
		}
		k.Recipe = func(tile int, buf []program.Phase) []program.Phase {
			peer := int32((g + 1 + tile/each) % gpus)
			t := program.Time(8000)
			if !even {
				t += program.Time(jitter(tile+g*tiles, 4000))
			}
			return append(buf,
				program.Phase{Op: program.Work, Time: t, Read: 8 * 1024},
				program.Phase{Op: program.Store, Peer: peer, Bytes: 1024, Time: 100})
		}
		k.Epilogue = func(wg int, buf []program.Phase) []program.Phase {
			for peer := range gpus {
				buf = append(buf, program.Phase{Op: program.PostTo, Flag: arrived[peer], Count: 1, Time: 1500})
			}
			return append(buf, program.Phase{Op: program.WaitFor, Flag: arrived[g], Count: int64(gpus * wgs)})
		}
		p.GPUs = append(p.GPUs, program.GPU{Streams: []program.Stream{{Commands: []program.Command{{Op: program.Launch, Kernel: k}}}}})
	}
	return p
}

// BenchmarkEmbedding is the fused operator at 524,288 logical workgroups a GPU:
// the memory in use, and the time a GPU as a multiple of that with 8 GPUs.
func BenchmarkEmbedding(b *testing.B) {
	of8 := map[bool]float64{}
	for _, gpus := range []int{4, 8, 32, 128} {
		for _, even := range []bool{true, false} {
			b.Run(fmt.Sprintf("gpus=%d/even=%t", gpus, even), func(b *testing.B) {
				debug.FreeOSMemory()
				p := embedding(gpus, 524288, 1056, even)
				b.ReportAllocs()
				for b.Loop() {
					mustSimulate(b, big(gpus), p, Options{})
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.Sys-m.HeapReleased)/1e6, "MB")
				each := b.Elapsed().Seconds() / float64(b.N) / float64(gpus)
				if gpus == 8 {
					of8[even] = each
				}
				if of8[even] > 0 {
					b.ReportMetric(each/of8[even], "x")
				}
				b.ReportMetric(float64(b.N)*float64(gpus)*524288*2/b.Elapsed().Seconds()/1e6, "Mphases/s")
			})
		}
	}
}

// BenchmarkCaptured replays a million kernels as captured: four GPUs, two
// streams each, an event between them now and then.
func BenchmarkCaptured(b *testing.B) {
	p := &program.Program{}
	for range 4 {
		var g program.GPU
		var flags [2]program.Flag
		for s := range flags {
			flags[s] = p.NewFlag("event")
			g.Streams = append(g.Streams, program.Stream{Queue: int64(s)})
		}
		for s := range g.Streams {
			for i := range 125_000 {
				d := program.Time(2000 + jitter(i, 8000))
				g.Streams[s].Commands = append(g.Streams[s].Commands, program.Command{Op: program.Launch, Delay: 1500, Kernel: &program.Kernel{
					Name: fmt.Sprint("kernel ", i%500), WGs: 1, Free: true, Kind: trace.Compute,
					Recipe: func(_ int, buf []program.Phase) []program.Phase {
						return append(buf, program.Phase{Op: program.Work, Time: d})
					},
				}})
				if i%10 == 9 {
					g.Streams[s].Commands = append(g.Streams[s].Commands,
						program.Command{Op: program.Post, Flag: flags[s], Count: 1},
						program.Command{Op: program.Wait, Flag: flags[1-s], Count: int64(i / 10)})
				}
			}
		}
		p.GPUs = append(p.GPUs, g)
	}
	b.ReportAllocs()
	for b.Loop() {
		mustSimulate(b, big(4), p, Options{})
	}
}

// The time of a phase among many is that of its way to memory.
func TestWorkgroupIsTwoCacheLines(t *testing.T) {
	if size := unsafe.Sizeof(workgroup{}); size != 128 {
		t.Errorf("%d bytes, want 128", size)
	}
}

// A program ten times as long allocates no more: workgroups, classes, timers
// and buffers are used anew.
func TestNoAllocationPerPhase(t *testing.T) {
	for _, c := range []struct {
		name    string
		program func(tiles int) *program.Program
	}{
		{"embedding", func(tiles int) *program.Program { return embedding(2, tiles, 64, false) }},
		{"contended", func(tiles int) *program.Program {
			k := kernel("k", 1056, nil, threads(256), pipe(.125), persistent(tiles, -1))
			k.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
				return append(buf,
					program.Phase{Op: program.Work, Time: program.Time(3000 + jitter(tile, 2000)), Read: 30000},
					program.Phase{Op: program.Work, Time: 2000, Write: 10000})
			}
			return prog([]program.Stream{{Commands: []program.Command{k}}}, []program.Stream{{Commands: []program.Command{k}}})
		}},
	} {
		allocations := func(tiles int) float64 {
			p := c.program(tiles)
			return testing.AllocsPerRun(1, func() { mustSimulate(t, big(2), p, Options{}) })
		}
		short, long := allocations(1<<12), allocations(10<<12)
		if more := long - short; more > 0.01*9*2*2*(1<<12) {
			t.Errorf("%s: %g allocations, ten times as many tiles %g", c.name, short, long)
		}
	}
}
