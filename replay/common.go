package replay

// Flows in common
//
// While a path holds flows back, they go at its level, whatever their limits
// are. Where the phases of a thousand workgroups all differ, a class for each
// limit would be a thousand steps of the path, to be put in and taken out with
// every phase. So flows that are sure to be held back are members of one class,
// whose limit lies somewhat above the level and below all of theirs:
//
//	rate    0 ------ level --|-- limit in common -- o - o o -- o ----->
//	                          aboveLevel             their limits
//
// Where one of them ends and another begins, nothing has changed that would
// have to be solved. When the level comes up to the limit in common, each goes
// on in the class where it belongs by itself (part), and rates are found anew.
// That happens to a flow once, so that a level that rises and falls costs little.

// aboveLevel is how many times the level a limit in common is at least.
const aboveLevel = 1.125

// commonFor returns the class in common that a flow of the key may join, or
// none: what goes slower beside other work has a limit that others change, and
// an arbiter goes by what all could send at most.
func (f *flows) commonFor(k *classKey) int32 {
	if k.path == none || k.beside > 1 || f.sides != none {
		return none
	}
	p := &f.paths[k.path]
	limit, least := k.limit/k.slow, p.level*aboveLevel*k.favor
	if p.level == 0 || limit < least {
		return none
	}
	if p.common == none {
		key := classKey{path: k.path, gpu: k.gpu, cu: none, launch: none, limit: boundless, slow: 1, beside: 1, favor: k.favor}
		p.common = f.newClass(&key)
		f.classes[p.common].common = true
		f.setLimit(p.common, least)
	}
	switch c := &f.classes[p.common]; {
	case c.key.favor != k.favor:
		return none
	case limit < c.limit: // the level has fallen since
		f.setLimit(p.common, least)
	}
	return p.common
}

// part moves the members of classes in common that their path does not hold back
// any more to classes of their own limit, and reports whether there were any.
func (s *sim) part() (moved bool) {
	f := &s.flows
	for i, n := 0, len(f.touched); i < n; i++ {
		id := f.touched[i]
		if c := &f.classes[id]; !c.common || c.held {
			continue
		}
		if p := &f.paths[f.classes[id].path]; p.common == id {
			p.common = none
		}
		for e := f.first(&f.classes[id]); e != nil; e = f.first(&f.classes[id]) {
			moved = true
			s.rejoin(e.who.id, s.wgs.at(e.who.id))
		}
	}
	return moved
}
