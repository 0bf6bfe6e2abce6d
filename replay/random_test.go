package replay

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// drawMachine draws a machine on which everything is scarce.
func drawMachine(t *rapid.T, gpus int) machine.Machine {
	scarce := func(name string, of ...float64) machine.Quantity {
		return q(rapid.SampledFrom(of).Draw(t, name))
	}
	m := machine.Machine{
		Name: "drawn", GPUs: gpus,
		GPU: machine.GPU{
			CUs: scarce("CUs", 1, 2, 3), Threads: q(8), WGs: scarce("WGs", 2, 8),
			Registers: scarce("registers", 0, 24), Shared: q(100), SharedSpare: q(1), MemoryRates: machine.MemoryRates{Memory: scarce("memory", 0, 40e9, 900e9), CacheRate: scarce("cache", 0, 60e9), Update: scarce("update", 0, 2)},
		},
		Fabric: machine.Fabric{
			Topology: drawTopology(t), Egress: scarce("egress", 0, 10e9, 30e9), Ingress: scarce("ingress", 0, 10e9, 20e9),
			Pair: scarce("pair", 0, 7e9), Latency: scarce("latency", 0, 13e-9), Hop: scarce("hop", 0, 3e-9),
			Message: scarce("flag", 0, 4e-9),
		},
		Network: machine.Network{
			Node: scarce("GPUs of a node", 0, 0, 1, 2, 3), NICs: scarce("NICs", 1, 2),
			Topology: drawTopology(t), Egress: scarce("NIC egress", 0, 5e9), Ingress: scarce("NIC ingress", 0, 4e9),
			Pair: scarce("links of nodes", 0, 3e9), Latency: scarce("network latency", 0, 21e-9), Hop: scarce("network hop", 0, 5e-9),
			Message: scarce("message", 0, 11e-9),
		},
		Engines: machine.Engines{Count: scarce("engines", 0, 1, 2), Rate: scarce("engine rate", 0, 9e9), Latency: scarce("engine latency", 0, 5e-9), Queued: scarce("latency of queued copies", 0, 2e-9)},
	}
	if rows := rapid.SampledFrom([][][]float64{nil, nil, {{1, 1}, {2, 1}}, {{2, 1}, {3, 1}}, {{2, 1}, {4, 2}}}).Draw(t, "groups"); rows != nil {
		m.GPU.Groups = machine.Table{Rows: rows}
		m.GPU.CUs = q(float64(len(m.GPU.Grouping())))
	}
	return m
}

func drawTopology(t *rapid.T) machine.Topology {
	return rapid.SampledFrom([]machine.Topology{machine.Switch, machine.Mesh, machine.Ring, machine.Torus2D, machine.Torus3D}).Draw(t, "topology")
}

// drawProgram draws a program whose waits may or may not be met.
func drawProgram(t *rapid.T) *program.Program {
	p := &program.Program{}
	for i := range 3 {
		p.NewFlag(fmt.Sprint("flag ", i))
	}
	gpus := rapid.SampledFrom([]int{1, 2, 2, 3, 3, 4, 6, 8}).Draw(t, "gpus")
	named := 0
	for range gpus {
		var g program.GPU
		for i := range rapid.IntRange(1, 3).Draw(t, "streams") {
			s := program.Stream{Name: fmt.Sprint(i), Queue: int64(i), Priority: rapid.IntRange(0, 1).Draw(t, "priority")}
			for range rapid.IntRange(0, 4).Draw(t, "commands") {
				named++
				s.Commands = append(s.Commands, drawCommand(t, gpus, fmt.Sprint("k", named)))
			}
			g.Streams = append(g.Streams, s)
		}
		p.GPUs = append(p.GPUs, g)
	}
	p.Arbiter = rapid.SampledFrom([]program.Arbiter{{}, {}, {Policy: program.RoundRobin}, {Policy: program.ComputeFirst, Share: .1}, {Policy: program.ComputeFirst, Share: 1}}).Draw(t, "arbiter")
	var posts program.Stream // that all waits can hope for
	for f := program.Flag(1); f <= 3; f++ {
		if n := rapid.Int64Range(0, 4).Draw(t, "posts"); n > 0 {
			posts.Commands = append(posts.Commands,
				program.Command{Op: program.Delay, Delay: program.Time(rapid.IntRange(0, 50).Draw(t, "delay"))},
				program.Command{Op: program.Post, Flag: f, Count: n})
		}
	}
	posts.Host = true
	p.GPUs[0].Streams = append(p.GPUs[0].Streams, posts)
	return p
}

func drawCommand(t *rapid.T, gpus int, name string) program.Command {
	peer := func(what string) int32 { return int32(rapid.IntRange(0, gpus-1).Draw(t, what)) }
	flag := func() program.Flag { return program.Flag(rapid.IntRange(1, 3).Draw(t, "flag")) }
	gap := program.Time(rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "gap"))
	switch rapid.SampledFrom([]program.Op{program.Launch, program.Launch, program.Launch, program.Launch, program.Start, program.Start, program.Delay, program.Post, program.Wait}).Draw(t, "op") {
	case program.Start:
		return program.Command{Op: program.Start, Delay: gap, Copy: &program.Copy{
			Name: name, From: peer("from"), Peer: peer("to"),
			Bytes: float64(rapid.IntRange(0, 300).Draw(t, "bytes")),
			Time:  program.Time(rapid.SampledFrom([]int{0, 0, 40}).Draw(t, "time")),
			Free:  rapid.SampledFrom([]bool{false, false, true}).Draw(t, "free"),

			Update: rapid.SampledFrom([]bool{false, true}).Draw(t, "update"),
		}}
	case program.Delay:
		return program.Command{Op: program.Delay, Delay: program.Time(rapid.IntRange(0, 30).Draw(t, "delay")), Why: program.LaunchGap}
	case program.Post:
		return program.Command{Op: program.Post, Flag: flag(), Count: 1}
	case program.Wait:
		return program.Command{Op: program.Wait, Flag: flag(), Count: rapid.Int64Range(0, 2).Draw(t, "count")}
	}
	k := &program.Kernel{
		Name: name, WGs: rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 7, 10}).Draw(t, "wgs"),
		Kind:      rapid.SampledFrom([]trace.Kind{trace.Compute, trace.Collective}).Draw(t, "kind"),
		Footprint: program.Footprint{Threads: rapid.SampledFrom([]int{1, 3, 4, 8}).Draw(t, "threads"), Shared: rapid.SampledFrom([]int{0, 40}).Draw(t, "shared")},
		Sharing:   program.Sharing{Lag: rapid.SampledFrom([]float64{0, 0, .1}).Draw(t, "lag"), Pipe: rapid.SampledFrom([]float64{0, .25, .7}).Draw(t, "pipe"), Matrix: rapid.Bool().Draw(t, "matrix"), Channels: rapid.SampledFrom([]bool{false, false, true}).Draw(t, "slowed by channels"), Fed: rapid.SampledFrom([]float64{0, .5, 1}).Draw(t, "fed"), Onset: rapid.SampledFrom([]float64{0, .25, 1}).Draw(t, "onset")},
		Free:      rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "free"),
	}
	k.CommShare = rapid.SampledFrom([]float64{0, 0, 0, .05, .6}).Draw(t, "share for communication")
	k.Footprint.Exclusive = rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "exclusive")
	if n := rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "cluster"); n > 0 {
		k.Cluster, k.WGs = n, k.WGs/n*n
	}
	k.Footprint.Registers = rapid.SampledFrom([]int{0, 20}).Draw(t, "registers") / k.Footprint.Threads
	k.Recipe = drawRecipe(t, gpus)
	if rapid.Bool().Draw(t, "persistent") {
		k.Tiles = rapid.IntRange(1, 12).Draw(t, "tiles")
		k.Owned = rapid.IntRange(-1, 3).Draw(t, "owned")
		k.Prologue, k.Epilogue = drawRecipe(t, gpus), drawRecipe(t, gpus)
	}
	return program.Command{Op: program.Launch, Delay: gap, Kernel: k}
}

// drawRecipe draws one of two kinds of tiles, of which no two need to be alike,
// or of one that has many phases.
func drawRecipe(t *rapid.T, gpus int) func(int, []program.Phase) []program.Phase {
	kinds := [][]program.Phase{drawPhases(t, gpus)}
	if rapid.Bool().Draw(t, "two kinds") {
		kinds = append(kinds, drawPhases(t, gpus))
	}
	times := rapid.SampledFrom([]int{1, 1, 1, 1, 6}).Draw(t, "times over")
	uneven := program.Time(rapid.IntRange(0, 5).Draw(t, "uneven"))
	return func(tile int, buf []program.Phase) []program.Phase {
		for range times {
			for _, p := range kinds[tile%len(kinds)] {
				if p.Time > 0 {
					p.Time += uneven * program.Time(tile)
				}
				if p.Op == program.Store || p.Op == program.Put {
					p.Peer = (p.Peer + int32(tile)) % int32(gpus)
				}
				buf = append(buf, p)
			}
		}
		return buf
	}
}

func drawPhases(t *rapid.T, gpus int) []program.Phase {
	var phases []program.Phase
	for range rapid.IntRange(0, 4).Draw(t, "phases") {
		op := rapid.SampledFrom([]program.PhaseOp{program.Work, program.Work, program.Work, program.Store, program.Store, program.Put, program.Put, program.Sleep, program.PostTo, program.WaitFor}).Draw(t, "phase")
		phases = append(phases, drawPhase(t, gpus, op))
		if op == program.Store && rapid.Bool().Draw(t, "announced") {
			phases = append(phases, drawPhase(t, gpus, program.PostTo))
		}
	}
	return phases
}

func drawPhase(t *rapid.T, gpus int, op program.PhaseOp) program.Phase {
	bytes := func(what string) float64 {
		return float64(rapid.SampledFrom([]int{0, 1, 64, 100, 333}).Draw(t, what))
	}
	p := program.Phase{Op: op}
	if op != program.PostTo && op != program.WaitFor {
		p.Time = program.Time(rapid.SampledFrom([]int{0, 1, 10, 17}).Draw(t, "time"))
	}
	switch op {
	case program.Work:
		p.Read, p.Write = bytes("read"), bytes("write")
		p.Hit = rapid.SampledFrom([]float64{0, 0, .5, 1}).Draw(t, "hit")
	case program.Store:
		p.Bytes, p.Read, p.Write = bytes("bytes"), bytes("read"), bytes("write")
	case program.Put:
		p.DMA, p.Held = rapid.Bool().Draw(t, "by an engine"), rapid.Bool().Draw(t, "read before")
		p.Bytes, p.Flag, p.Count = bytes("bytes"), program.Flag(rapid.IntRange(0, 3).Draw(t, "flag")), 1
	case program.PostTo:
		p.Flag, p.Count = program.Flag(rapid.IntRange(1, 3).Draw(t, "flag")), rapid.Int64Range(0, 2).Draw(t, "count")
		if p.Time = program.Time(rapid.SampledFrom([]int{0, 0, 0, 9}).Draw(t, "seen after")); p.Time == 0 {
			p.Last = rapid.SampledFrom([]int64{0, 0, 1, 2, 5}).Draw(t, "last")
		}
	case program.WaitFor:
		p.Flag, p.Count = program.Flag(rapid.IntRange(1, 3).Draw(t, "flag")), rapid.Int64Range(0, 3).Draw(t, "count")
	}
	if op == program.Work || op == program.Store || op == program.Put {
		p.Update = rapid.SampledFrom([]bool{false, false, true}).Draw(t, "update")
	}
	if op == program.Work || op == program.Store {
		p.Slowdown = rapid.SampledFrom([]float64{0, 0, 0, 1.5, 2}).Draw(t, "beside")
		p.Weight = rapid.SampledFrom([]float64{0, 0, 0, .7, 3}).Draw(t, "weight")
	}
	if op == program.Store || op == program.Put {
		p.Peer = int32(rapid.IntRange(0, gpus-1).Draw(t, "peer"))
	}
	return p
}
