package replay

import (
	"math"
	"slices"
)

// A pathKey is what makes a path.
type pathKey struct {
	from, to int32   // GPUs
	side     side    // of their memories, where an arbiter tells sides apart
	read     float64 // bytes of memory at from, read or written, for each byte that goes its way
	write    float64 // bytes of memory at to for each
	cache    float64 // bytes of the last-level cache at from for each
}

// A share is that a path crosses a pool.
type share struct {
	pool   int32
	weight float64 // bytes through the pool for one of the flow
}

// A rise is what each solve touches of a path: one cache line, beside which
// only the numbers of its pools are read. Paths lie in the order in which they
// began, and so do their ways:
//
//	rises    |a       |b       |c       |     64 bytes each
//	ways     |0 2 4|0 3 4|1 2 4 5|            pools
//	weights  |1 1 1|1 1 1 1|                  of a and b, then of c: those of many begin alike
type rise struct {
	mass  float64 // of all classes
	out   float64 // bytes a nanosecond as entered in its pools' use
	rest  float64 // mass of the steps not settled
	sends float64 // bytes a nanosecond of settled steps
	found float64 // level
	next  int     // the first step not settled
	way   int32   // the first of its pools in flows.ways
	pools int32   // how many it crosses
	weigh int32   // the first of their weights in flows.weights
	loose bool    // it crosses a pool that is not solved
}

// crossed returns a path's pools, and the bytes through each for one of the flow.
func (f *flows) crossed(r *rise) (pools []int32, weights []float64) {
	return f.ways[r.way:][:r.pools], f.weights[r.weigh:][:r.pools]
}

// pathTo returns the path of a key. Those between the same GPUs lie in a ring,
// which is entered where the last one was found.
func (f *flows) pathTo(k pathKey) int32 {
	if f.between[k.from] == nil {
		f.between[k.from] = make([]int32, len(f.between)+1)
	}
	to := int(k.to)
	if k.to == Everyone {
		to = len(f.between)
	}
	last := &f.between[k.from][to]
	first := *last - 1
	for id := first; id != none; {
		p := &f.paths[id]
		if p.key == k {
			*last = id + 1
			return id
		}
		if id = p.sibling; id == first {
			break
		}
	}
	id := f.newPath(k)
	f.paths[id].sibling = id
	if first != none {
		f.paths[id].sibling, f.paths[first].sibling = f.paths[first].sibling, id
	}
	*last = id + 1
	return id
}

func (f *flows) newPath(k pathKey) int32 {
	id := int32(len(f.paths))
	way := f.route(k)
	f.paths, f.rises = append(roomier(f.paths, 1), path{}), append(roomier(f.rises, 1), rise{})
	f.marks = append(roomier(f.marks, 1), none)
	p, r := &f.paths[id], &f.rises[id]
	p.key = k
	p.bound, p.narrow, p.common, p.alarm = math.Inf(1), none, none, none
	r.way, r.pools, r.weigh = int32(len(f.ways)), int32(len(way)), f.weigh(way)
	f.ways, f.listed = roomier(f.ways, len(way)), roomier(f.listed, len(way))
	f.listed = f.listed[:len(f.listed)+len(way)]
	for _, s := range way {
		f.ways = append(f.ways, s.pool)
		pool := &f.pools[s.pool]
		if b := pool.capacity / s.weight; b < p.bound && pool.arbiter == 0 {
			p.bound, p.narrow = b, s.pool
		}
	}
	return id
}

// weigh returns where the weights of a way are: those of many ways begin alike, and are kept once.
func (f *flows) weigh(way []share) int32 {
	same := func(w float64, s share) bool { return w == s.weight }
	if last := f.weights[f.alike:]; len(way) <= len(last) && slices.EqualFunc(last[:len(way)], way, same) {
		return f.alike
	}
	f.alike = int32(len(f.weights))
	for _, s := range way {
		f.weights = append(f.weights, s.weight)
	}
	return f.alike
}
