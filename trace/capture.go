package trace

import "fmt"

// A Captured is the launch of a kernel that was recorded while a graph was captured, when no kernel
// ran. It has what the call and its operator say: grid, block and shared memory, Op, and for a
// collective Comm.
type Captured struct {
	Kernel
	As    Setup
	Name  NameID // of the kernel; 0 if the file does not name it
	Rank  int32  // row of Run.Ranks
	Graph int32  // number of the capture in the file
	Size  int32  // of the batch, as the range around the capture is named; 0 if unknown
}

func (v validator) captured() error {
	for i := range v.Captured {
		c := &v.Captured[i]
		if !row(c.Rank, len(v.Ranks)) || c.Rank == None || !row(c.Op, len(v.Operators)) || !row(c.Comm, len(v.Comms)) || c.Name < 0 || int(c.Name) >= len(v.Names) {
			return fmt.Errorf("captured launch %d: name %d, operator %d and collective %d of rank row %d", i, c.Name, c.Op, c.Comm, c.Rank)
		}
	}
	return nil
}
