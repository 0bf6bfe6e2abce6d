package replay

import "slices"

// The roll
//
// A crowd is solved time and again, and each time most of its paths are those
// of the last. So they are put on a roll, in the order in which they lie, and
// their pools as well. As long as the roll is whole a solve neither searches
// for its component nor puts the load of path after path on pools: those know
// the mass of all that cross them.
//
//	roll of paths   1 2 . 4 5 . . 8 9     those without classes are taken off
//	roll of pools   a b c d               looked into for those who have come since
//
// It is drawn up anew, by a search, when a pool that held nothing back may do so
// from now on, and when what was one component has fallen apart: each part is
// then solved for itself.
type roll struct {
	paths  []int32
	pools  []int32
	drawn  int32 // how often it has been drawn up
	whole  bool  // those on it are one component, and the only crowd
	called bool  // the component being solved begins with those on it
}

// callRoll goes on with a component that begins with a path of the crowd: with
// those on the roll, of which it returns the number, and those that have come
// to their pools since.
func (f *flows) callRoll(id int32) (paths int) {
	l := &f.crowd.roll
	if l.called = l.whole && !f.crowd.found && f.crowded(id); !l.called {
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

// loosen notes that a pool holds nothing back any more.
func (f *flows) loosen(p *pool) {
	for _, m := range p.paths {
		f.rises[m.path].loose = true
	}
}

// enroll puts the component that has been found on the roll, if it is the only
// crowd, and returns into how many parts it has fallen.
func (f *flows) enroll() (parts int) {
	l := &f.crowd.roll
	parts = 1
	if l.whole = !f.crowd.found; l.called {
		parts = f.parts()
		l.whole = parts == 1
	}
	paths := f.comp
	if f.marks[paths[0]] == none { // others of its pools may be another component's
		paths = paths[1:]
	}
	l.paths, l.pools = append(l.paths[:0], paths...), append(l.pools[:0], f.rows...)
	if !l.called {
		slices.Sort(l.paths)
		l.drawn++
	}
	return parts
}

// parts is how many components what the roll has called is.
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
