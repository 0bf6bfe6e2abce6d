package replay

import "slices"

// Cached members of a large component
//
// Most paths of a large component are the same from solve to solve. So its
// members are cached: paths in the order of their index, and pools. While the
// cache is valid a solve neither searches for the component nor adds up the mass
// of every path in its pools: pools know the mass of all that cross them.
//
//	cached paths   1 2 . 4 5 . . 8 9     those without classes are removed
//	cached pools   a b c d               searched for paths that have come since
//
// The members are searched for again when a pool becomes tight, and when the
// component has fallen apart: each part is then solved by itself.
type members struct {
	paths   []int32
	pools   []int32
	version int32 // counts searches
	valid   bool  // the members are one component, and the only large one
	reused  bool  // the component being solved begins with the cached members
}

// reuseMembers adds the cached members to a component that begins with a path of
// the large one, and what has come to their pools since. It returns how many of
// its paths were cached.
func (f *flows) reuseMembers(id int32) (paths int) {
	l := &f.approx.members
	if l.reused = l.valid && !f.approx.found && f.inApprox(id); !l.reused {
		return 0
	}
	n := 0
	for _, id := range l.paths {
		mark := &f.marks[id]
		if *mark == none {
			continue
		}
		l.paths[n] = id
		n++
		if *mark < f.search {
			*mark = f.search
			f.comp = append(f.comp, id)
		}
	}
	l.paths, paths = l.paths[:n], len(f.comp)-1
	for _, id := range l.pools {
		if f.basins[id].visited != f.search {
			f.reach(id)
		}
	}
	return paths
}

// markLoose notes that a pool holds nothing back any more.
func (f *flows) markLoose(p *pool) {
	for _, m := range p.paths {
		f.rises[m.path].loose = true
	}
}

// cacheMembers caches the members of the component that has been found, if it is
// the only large one, and returns into how many parts it has fallen.
func (f *flows) cacheMembers() (parts int) {
	l := &f.approx.members
	parts = 1
	if l.valid = !f.approx.found; l.reused {
		parts = f.parts()
		l.valid = parts == 1
	}
	paths := f.comp
	if f.marks[paths[0]] == none { // others of its pools may be another component's
		paths = paths[1:]
	}
	l.paths, l.pools = append(l.paths[:0], paths...), append(l.pools[:0], f.rows...)
	if !l.reused {
		slices.Sort(l.paths)
		l.version++
	}
	return parts
}

// parts is how many connected components the cached members are now.
func (f *flows) parts() int {
	n := 0
	for _, id := range f.rows {
		if f.basins[id].open > 0 {
			n++
		}
	}
	// Paths of one GPU lie side by side: far apart they soon tie all pools.
	const stride = 7919 // a prime
	for i, at := 0, 0; i < len(f.comp) && n > 1; i++ {
		if id := f.comp[at]; f.marks[id] != none {
			n -= f.tie(id)
		}
		if at += stride % len(f.comp); at >= len(f.comp) {
			at -= len(f.comp)
		}
	}
	return max(n, 1)
}

// tie notes that the path's pools are of one part, and returns of how many fewer there are now.
func (f *flows) tie(id int32) (fewer int) {
	one := int32(none)
	pools, _ := f.crossed(&f.rises[id])
	for _, id := range pools {
		b := &f.basins[id]
		switch {
		case !b.tied() || b.part == one:
		case one == none:
			one = f.part(id)
		default:
			other := f.part(id)
			if one != other {
				fewer++
			}
			f.basins[max(one, other)].part = min(one, other)
			one = min(one, other)
		}
	}
	return fewer
}

// part is the least pool known of those that paths tie to one.
func (f *flows) part(id int32) int32 {
	b := &f.basins[id]
	for b.part != id {
		id = b.part
		next := &f.basins[id]
		b.part = next.part
		b = next
	}
	return id
}
