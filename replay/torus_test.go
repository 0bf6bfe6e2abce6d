package replay

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// torus is a machine of single GPUs on a torus of links of 25 bytes a nanosecond, 700 ns each.
func torus(gpus int) machine.Machine {
	m := small(gpus, 1)
	m.Network = machine.Network{
		Node: q(1), NICs: q(1), Topology: machine.Torus2D,
		Egress: q(100e9), Ingress: q(100e9), Pair: q(25e9), Latency: q(700e-9), Hop: q(700e-9),
	}
	return m
}

// allToAll puts a buffer of the bytes, cut by size into shares for each other
// GPU, from every GPU of the machine.
func allToAll(gpus int, share func(from, to int) float64) *program.Program {
	p := &program.Program{}
	arrived := make([]program.Flag, gpus)
	for g := range arrived {
		arrived[g] = p.NewFlag("arrived")
	}
	for g := range gpus {
		var puts []program.Phase
		for i := 1; i < gpus; i++ {
			to := (g + i) % gpus
			puts = append(puts, program.Phase{Op: program.Put, Peer: int32(to), Bytes: share(g, to), Flag: arrived[to], Count: 1})
		}
		puts = append(puts, program.Phase{Op: program.WaitFor, Flag: arrived[g], Count: int64(gpus - 1)})
		p.GPUs = append(p.GPUs, program.GPU{Streams: []program.Stream{{Commands: []program.Command{kernel("all-to-all", 1, puts)}}}})
	}
	return p
}

// storeToAll is allToAll by so many workgroups of each GPU, each of which stores
// to one GPU after another.
func storeToAll(gpus, wgs int, share func(from, to int) float64) *program.Program {
	p := &program.Program{}
	for g := range gpus {
		k := kernel("stores", wgs, nil, threads(1), pipe(.1))
		k.Kernel.Recipe = func(w int, buf []program.Phase) []program.Phase {
			for i := range gpus - 1 {
				to := (g + 1 + (i+w)%(gpus-1)) % gpus
				buf = append(buf, program.Phase{Op: program.Store, Peer: int32(to), Bytes: share(g, to) / float64(wgs)})
			}
			return buf
		}
		p.GPUs = append(p.GPUs, program.GPU{Streams: []program.Stream{{Commands: []program.Command{k}}}})
	}
	return p
}

// uneven is the shares of an all-to-all of which no two are alike: each, and up to half the spread more or less.
func uneven(gpus int, each, spread float64) func(from, to int) float64 {
	return func(from, to int) float64 {
		return each * (1 - spread/2 + spread*float64(jitter(from*gpus+to, 1000))/999)
	}
}

// least is how long the fullest link of a torus is busy, in nanoseconds.
func least(m machine.Machine, share func(from, to int) float64) float64 {
	load := map[machine.Step]float64{}
	most := 0.0
	layout := m.Network.Topology.Layout(m.GPUs)
	for from := range m.GPUs {
		for to := range m.GPUs {
			for _, s := range layout.Route(from, to, nil) {
				load[s] += share(from, to)
				most = max(most, load[s])
			}
		}
	}
	return most / perNanosecond(m.Network.Pair.Value)
}

// An all-to-all of equal shares takes as long as its fullest link is busy, and
// the latency of the last bytes. Of a ring of n, n²/8 pairs cross a link, in
// each of the other rings through which they may go on.
func TestTorusAllToAll(t *testing.T) {
	for _, c := range []struct {
		topology machine.Topology
		gpus     int
		shares   float64 // over the fullest link
	}{{machine.Ring, 8, 8}, {machine.Torus2D, 16, 2 * 4}, {machine.Torus2D, 32, 8 * 4}, {machine.Torus3D, 64, 2 * 16}} {
		const each = 100_000
		m := torus(c.gpus)
		m.Network.Topology = c.topology
		equal := func(int, int) float64 { return each }
		r := mustSimulate(t, m, allToAll(c.gpus, equal), Options{})
		want := program.Time(c.shares * each / 25)
		if r.Makespan < want || r.Makespan > want+20*700 {
			t.Errorf("%s of %d: %d ns, want %d and at most twenty links' latency", c.topology, c.gpus, r.Makespan, want)
		}
		if got := program.Time(least(m, equal)); got != want {
			t.Errorf("%s of %d: the fullest link is busy for %d ns, want %d", c.topology, c.gpus, got, want)
		}
	}
}

// BenchmarkTorus is an all-to-all of 64 MiB a node on a torus of 16 by 8.
func BenchmarkTorus(b *testing.B) {
	const gpus, each = 128, float64(64<<20) / 128
	for _, c := range []struct {
		name  string
		share func(from, to int) float64
	}{
		{"equal", func(int, int) float64 { return each }},
		{"jittered", uneven(gpus, each, .2)},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := allToAll(gpus, c.share)
			b.ReportAllocs()
			var took program.Time
			for b.Loop() {
				took = mustSimulate(b, torus(gpus), p, Options{}).Makespan
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N), "ms/run")
			b.ReportMetric(float64(took)/1e3, "simulated-us")
		})
	}
}

// The flags of a program take the latency of one link and a hop for each further one (rule F3).
func TestLatencyByPath(t *testing.T) {
	far, cluster := machinetest.Load(t, "torus128"), machinetest.Load(t, "h800:16")
	for _, c := range []struct {
		m        machine.Machine
		from, to int32
		want     program.Time // ns
	}{
		{far, 0, 0, 0},
		{far, 0, 1, 700},
		{far, 0, 15, 700},            // the other way round
		{far, 0, 16*4 + 8, 12 * 700}, // the far corner of 16 by 8: 8 and 4 links
		{cluster, 0, 7, 730},
		{cluster, 0, 8, 2000},
	} {
		f := newFabric(&c.m, &program.Program{GPUs: make([]program.GPU, c.m.GPUs)})
		if got := f.latency(c.from, c.to); got != c.want {
			t.Errorf("%s from %d to %d: %d ns, want %d", c.m.Name, c.from, c.to, got, c.want)
		}
	}
}
