package program

import "github.com/overlapse/overlapse/replay/machine"

// A WhatIf changes one property of the machine to measure a program's sensitivity to it.
// The program is not planned again. The zero value changes nothing.
type WhatIf struct {
	Links    float64 // factor on the rate of links and NICs; 0 stands for 1
	Memory   float64 // factor on the rate of memory; 0 stands for 1
	Compute  float64 // factor on the rate of compute; 0 stands for 1
	Launches bool    // launches take no time, on the host and between commands
	Latency  bool    // latencies of links, engines, barriers and protocols are 0
}

// Of returns the changed machine and program. A kernel's time scales with memory if its
// bytes need more than half of it at the memory's full rate, else with compute. Measured
// times of captured copies and of kernels without workgroups stay unchanged, except for
// Work (rule Z7).
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

// recipe wraps a kernel's recipe and scales the times of its phases.
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

// quicker divides a time; the result of a positive time is positive.
func quicker(t Time, factor float64) Time {
	if t == 0 || factor == 1 {
		return t
	}
	return max(1, Time(float64(t)/factor+.5))
}

// boundByMemory reports whether all resident workgroups together need more than half of
// the memory's bandwidth.
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
