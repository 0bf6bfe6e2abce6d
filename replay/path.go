package replay

import (
	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
)

// A pathKey is what makes a path.
type pathKey struct {
	from, to int32   // GPUs
	side     side    // of their memories, where an arbiter tells sides apart
	read     float64 // bytes of memory at from, read or written, for each byte that goes its way
	write    float64 // bytes of memory at to for each
	cache    float64 // bytes of the last-level cache at from for each
}

// routes are the paths by key.
type routes struct {
	keys     []pathKey // by path
	siblings []int32   // by path: the next path between the same GPUs, in a ring
	between  [][]int32 // by GPU and GPU or Everyone: the path last found, and one; nil where there are none
}

// pathTo returns the path of a key. Those between the same GPUs lie in a ring,
// which is entered where the last one was found.
func (f *flows) pathTo(k pathKey) int32 {
	if f.between[k.from] == nil {
		f.between[k.from] = make([]int32, len(f.between)+1)
	}
	to := int(k.to)
	if k.to == program.Everyone {
		to = len(f.between)
	}
	last := &f.between[k.from][to]
	first := *last - 1
	for id := first; id != none; {
		if f.keys[id] == k {
			*last = id + 1
			return id
		}
		if id = f.siblings[id]; id == first {
			break
		}
	}
	id := f.newPath(k)
	if first != none {
		f.siblings[id], f.siblings[first] = f.siblings[first], id
	}
	*last = id + 1
	return id
}

func (f *flows) newPath(k pathKey) int32 {
	id := f.NewPath(f.route(k))
	f.keys = append(f.keys, k)
	f.siblings = append(f.siblings, id)
	f.uncontended = append(f.uncontended, uncontended{})
	return id
}

// crossing is that a path takes so much of a resource for a byte.
type crossing = fluid.Crossing
