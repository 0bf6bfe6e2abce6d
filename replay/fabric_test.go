package replay

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// nodes is small in nodes of so many GPUs, each with one NIC of 10 bytes a
// nanosecond, 20 ns apart.
func nodes(gpus, node int) machine.Machine {
	m := small(gpus, 1)
	m.Fabric.Latency = q(3e-9)
	m.Network = machine.Network{
		Node: q(float64(node)), NICs: q(1), Topology: machine.Switch,
		Egress: q(10e9), Ingress: q(10e9), Latency: q(20e-9),
	}
	return m
}

// arrivals runs one kernel of one workgroup a GPU with the phases given and says
// when each flag that they post has been seen.
func arrivals(t *testing.T, m machine.Machine, phases map[int][]program.Phase) []program.Time {
	t.Helper()
	p := prog(make([][]program.Stream, m.GPUs)...)
	for g := range m.GPUs {
		if list := phases[g]; list != nil {
			p.GPUs[g].Streams = []program.Stream{{Commands: []program.Command{kernel("send", 1, list)}}}
		}
	}
	posts := 0
	for _, list := range phases {
		for _, x := range list {
			if x.Flag != program.NoFlag {
				posts++
			}
		}
	}
	for i := range posts {
		f := p.NewFlag("seen")
		p.GPUs[m.GPUs-1].Streams = append(p.GPUs[m.GPUs-1].Streams, program.Stream{Queue: int64(100 + i), Commands: []program.Command{
			{Op: program.Wait, Flag: f, Count: 1},
			{Op: program.Launch, Kernel: &program.Kernel{Name: "seen", WGs: 1, Free: true, Recipe: func(int, []program.Phase) []program.Phase { return work(1) }}},
		}})
	}
	r := mustSimulate(t, m, p, Options{})
	var at []program.Time
	for _, s := range r.Run.Spans {
		if r.Run.NameOf(s) == "seen" {
			at = append(at, s.Start)
		}
	}
	slices.Sort(at)
	return at
}

func TestPutsBetweenNodes(t *testing.T) {
	send := func(peer int32, bytes float64, flag program.Flag) program.Phase {
		return program.Phase{Op: program.Put, Peer: peer, Bytes: bytes, Flag: flag, Count: 1}
	}
	slow := nodes(2, 1)
	slow.Network.Message = q(7e-9)
	paired := nodes(4, 2)
	ring := nodes(4, 1)
	ring.Network.Topology, ring.Network.Hop, ring.Network.Pair = machine.Ring, q(5e-9), q(4e9)
	for _, c := range []struct {
		name   string
		m      machine.Machine
		phases map[int][]program.Phase
		want   []program.Time
	}{
		{"bytes, then the latency of the network", nodes(2, 1), map[int][]program.Phase{0: {send(1, 100, 1)}}, []program.Time{10 + 20}},
		{"in a node, links and their latency", paired, map[int][]program.Phase{0: {send(1, 100, 1)}}, []program.Time{1 + 3}},
		{"a NIC serves both GPUs of its node", paired, map[int][]program.Phase{0: {send(2, 100, 1)}, 1: {send(3, 100, 2)}}, []program.Time{20 + 20, 20 + 20}},
		{"into one NIC", nodes(3, 1), map[int][]program.Phase{0: {send(2, 100, 1)}, 1: {send(2, 100, 2)}}, []program.Time{20 + 20, 20 + 20}},
		// Payload and flag are a message each: a put starts every 14 ns, and takes 7 though its byte would take less.
		{"message rate", slow, map[int][]program.Phase{0: {send(1, 1, 1), send(1, 1, 2), send(1, 1, 3)}}, []program.Time{7 + 20, 14 + 7 + 20, 28 + 7 + 20}},
		{"a flag alone is one message", slow, map[int][]program.Phase{0: {send(1, 0, 1), send(1, 0, 2)}}, []program.Time{20, 7 + 20}},
		{"two links round the ring", ring, map[int][]program.Phase{0: {send(2, 100, 1)}}, []program.Time{25 + 20 + 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := arrivals(t, c.m, c.phases); !slices.Equal(got, c.want) {
				t.Errorf("seen at %v, want %v", got, c.want)
			}
		})
	}
}

// A post after stores waits for the farthest of the GPUs stored to.
func TestPostFollowsStores(t *testing.T) {
	store := func(peer int32) program.Phase { return program.Phase{Op: program.Store, Peer: peer, Bytes: 100} }
	post := program.Phase{Op: program.PostTo, Flag: 1, Count: 1}
	for _, c := range []struct {
		phases []program.Phase
		want   program.Time
	}{
		{[]program.Phase{post}, 0},
		{[]program.Phase{store(0), post}, 1}, // a tenth of a nanosecond, rounded up
		{[]program.Phase{store(1), post}, 1 + 3},
		{[]program.Phase{store(1), store(2), post}, 1 + 10 + 20},
		{[]program.Phase{store(2), store(1), post}, 10 + 1 + 20},
	} {
		if got := arrivals(t, nodes(4, 2), map[int][]program.Phase{0: c.phases}); !slices.Equal(got, []program.Time{c.want}) {
			t.Errorf("%v: seen at %v, want %d", c.phases, got, c.want)
		}
	}
}

// What crosses a network is counted at the NICs, not at the links of the node.
func TestTrafficBetweenNodes(t *testing.T) {
	m := nodes(2, 1)
	p := prog([]program.Stream{{Commands: []program.Command{kernel("k", 1, []program.Phase{{Op: program.Store, Peer: 1, Bytes: 100}})}}}, nil)
	r := mustSimulate(t, m, p, Options{Usage: true})
	want := []traffic{{0, NICEgress, "k", 100, 0}, {1, Memory, "k", 100, 100}, {1, nicIngress, "k", 100, 0}}
	if !slices.Equal(r.Traffic, want) {
		t.Errorf("got %v, want %v", r.Traffic, want)
	}
	if share := used(r)[useKey{0, NICEgress.String()}]; math.Abs(share-1) > 1e-9 {
		t.Errorf("the NIC was used %g of the time", share)
	}
}

// A store to everyone leaves once and comes in everywhere else of the node, where
// the slowest ingress decides; only a switch can do it.
func TestStoreToEveryone(t *testing.T) {
	m := small(4, 1)
	m.Fabric = machine.Fabric{Topology: machine.Switch, Egress: q(2e9), Ingress: q(1e9)}
	m.Network.Node = q(2)
	m.Network.Egress, m.Network.Ingress = q(1e9), q(1e9)
	k := kernel("broadcast", 1, nil)
	k.Kernel.Recipe = func(_ int, buf []program.Phase) []program.Phase {
		return append(buf, program.Phase{Op: program.Store, Peer: program.Everyone, Bytes: 1000})
	}
	run := func(nodes float64) *Result {
		m.Network.Node = q(nodes)
		r, err := Simulate(m, prog([]program.Stream{{Commands: []program.Command{k}}}, nil, nil, nil), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for node, peers := range map[float64]int{4: 3, 2: 1} {
		r := run(node)
		if r.Makespan != 1000 {
			t.Errorf("1000 bytes into ingresses of a byte a nanosecond: %d ns", r.Makespan)
		}
		out, in := 0.0, 0.0
		for _, x := range r.Traffic {
			switch x.Resource {
			case Egress:
				out += x.Bytes
			case ingress:
				in += x.Bytes
			}
		}
		if out != 1000 || in != float64(peers)*1000 {
			t.Errorf("nodes of %g: %g bytes left and %g came, want 1000 and %d", node, out, in, peers*1000)
		}
	}
	m.Fabric.Topology = machine.Mesh
	if _, err := Simulate(m, prog([]program.Stream{{Commands: []program.Command{k}}}, nil, nil, nil), Options{}); err == nil || !strings.Contains(err.Error(), "want a switch") {
		t.Errorf("on a mesh: %v", err)
	}
}
