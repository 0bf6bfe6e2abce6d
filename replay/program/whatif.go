package program

import "github.com/overlapse/overlapse/replay/machine"

// A WhatIf is a machine that differs in one respect, to see what a program is
// sensitive to. Of is the same program there: not planned anew. The zero value
// changes nothing.
type WhatIf struct {
	Links    float64 // times as fast, links and NICs; 0 stands for 1
	Memory   float64 // times as fast
	Compute  float64 // times as fast
	Launches bool    // cost nothing, on the host or between commands
	Latency  bool    // is nothing: of links, engines, barriers and protocols
}

// Of is the machine and the program as the WhatIf has them. A kernel's own time
// follows the memory if its bytes need more than half of it at the memory's
// full rate, else the CUs. What a captured copy or a kernel without workgroups
// of its own was measured to take is left as it is, but for Work (rule Z7).
func (x WhatIf) Of(m machine.Machine, p *Program) (machine.Machine, *Program) {
	x.Links, x.Memory, x.Compute = orOne(x.Links), orOne(x.Memory), orOne(x.Compute)
	q := *p
	q.Links = orOne(p.Links) * x.Links
	q.GPUs = make([]GPU, len(p.GPUs))
	for g := range p.GPUs {
		q.GPUs[g] = p.GPUs[g]
		q.GPUs[g].Streams = nil
		for _, st := range p.GPUs[g].Streams {
			commands := make([]Command, len(st.Commands))
			for i, c := range st.Commands {
				commands[i] = x.command(&m, c, int32(g))
			}
			st.Commands = commands
			q.GPUs[g].Streams = append(q.GPUs[g].Streams, st)
		}
	}
	m.GPU.Memory.Value *= x.Memory
	if x.Latency {
		m.Fabric.Latency.Value, m.Fabric.Hop.Value = 0, 0
		m.Network.Latency.Value, m.Network.Hop.Value = 0, 0
		m.Engines.Latency.Value = 0
	}
	return m, &q
}

func orOne(factor float64) float64 {
	if factor == 0 {
		return 1
	}
	return factor
}

func (x WhatIf) command(m *machine.Machine, c Command, gpu int32) Command {
	switch {
	case c.Op == Launch:
		k := *c.Kernel
		faster := x.Compute
		if k.boundByMemory(m) {
			faster = x.Memory
		}
		k.Recipe, k.Prologue, k.Epilogue = x.recipe(k.Recipe, &k, gpu, faster), x.recipe(k.Prologue, &k, gpu, faster), x.recipe(k.Epilogue, &k, gpu, faster)
		c.Kernel = &k
	case c.Op == Start && !c.Copy.Free:
		cp := *c.Copy
		if cp.From != cp.Peer {
			cp.Time = quicker(cp.Time, x.Links)
		}
		c.Copy = &cp
	}
	switch {
	case c.Op == Launch || c.Op == Start, c.Op == Delay && (c.Why == LaunchGap || c.Why == HostIssue):
		if x.Launches {
			c.Delay = 0
		}
	case c.Op == Delay && c.Why == PeerSkew && x.Latency:
		c.Delay = 0
	}
	return c
}

// recipe is one of a kernel's recipes with its phases' times as they would be.
func (x WhatIf) recipe(r func(int, []Phase) []Phase, k *Kernel, gpu int32, faster float64) func(int, []Phase) []Phase {
	if r == nil {
		return nil
	}
	return func(of int, buf []Phase) []Phase {
		first := len(buf)
		buf = r(of, buf)
		for i := range buf[first:] {
			p := &buf[first+i]
			switch p.Op {
			case Work:
				p.Time = quicker(p.Time, faster)
			case Store, Put:
				if p.Peer != gpu {
					p.Time = quicker(p.Time, x.Links)
				}
			case Sleep, PostTo:
				if x.Latency && !k.Free {
					p.Time = 0
				}
			}
		}
		return buf
	}
}

// quicker is a time divided; what took some takes some.
func quicker(t Time, factor float64) Time {
	if t == 0 || factor == 1 {
		return t
	}
	return max(1, Time(float64(t)/factor+.5))
}

// boundByMemory reports whether the work of all workgroups that run side by
// side asks for more than half of the memory's bandwidth.
func (k *Kernel) boundByMemory(m *machine.Machine) bool {
	n := max(k.WGs, k.Tiles)
	if n == 0 || m.GPU.Memory.Value <= 0 {
		return false
	}
	beside := float64(k.WGs)
	if !k.Free {
		beside = min(beside, m.GPU.CUs.Value*float64(k.Footprint.Residents(&m.GPU)))
	}
	var rate float64
	for _, p := range k.Recipe(0, nil) {
		if p.Op == Work && p.Time > 0 {
			rate = max(rate, beside*(p.Read+p.Write)/float64(p.Time))
		}
	}
	return rate > PerNanosecond(m.GPU.Memory.Value)/2
}
