package program

import "github.com/overlapse/overlapse/replay/machine"

// CUResources are free resources of a CU, or those that a workgroup takes.
type CUResources = machine.CUResources

// Need is the CU resources that one workgroup takes.
func (f Footprint) Need(g *machine.GPU) CUResources {
	if f.Exclusive {
		return g.CUResources()
	}
	return g.Need(f.Threads, f.Registers, f.Shared)
}

// Residents is the number of workgroups of the footprint that fit on one CU.
func (f Footprint) Residents(g *machine.GPU) int {
	if f.Exclusive {
		return 1
	}
	return g.Residents(f.Threads, f.Registers, f.Shared)
}
