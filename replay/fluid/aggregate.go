package fluid

// Aggregated classes
//
// While a path holds flows back, they go at its level, whatever their limits are.
// Where a thousand flows all differ, a class for each limit would be a thousand rows
// of the path, to be inserted and removed with every flow. So flows that are sure to
// be held back are members of one aggregated class. Its limit lies above the level
// and below all of theirs:
//
//	rate    0 ------ level --|-- aggregated limit -- o - o o -- o ----->
//	                          aboveLevel              their limits
//
// When the level rises to the aggregated limit, each flow moves to the class of its
// own limit (split), and rates are found again. That happens to a flow once, so a
// level that rises and falls costs little.
//
// Without it BenchmarkPhases/memory/jittered of package replay takes 2.9 times as long.

// aboveLevel is how many times the level an aggregated limit is at least.
const aboveLevel = 1.125

// Aggregate returns the aggregated class of a path that a flow of the weight and
// limit may join, or None. The limit must not change while the flow is a member.
func (s *System) Aggregate(path int32, weight, limit float64) int32 {
	p := &s.paths[path]
	least := p.level * aboveLevel * weight
	if p.level == 0 || limit < least {
		return none
	}
	if p.aggregate == none {
		p.aggregate = s.NewClass(path, weight, Boundless)
		s.classes[p.aggregate].aggregated = true
		s.SetLimit(p.aggregate, least)
	}
	switch c := &s.classes[p.aggregate]; {
	case c.weight != weight:
		return none
	case limit < c.limit: // the level has fallen since
		s.SetLimit(p.aggregate, least)
	}
	return p.aggregate
}

// split moves the members of aggregated classes that their path does not hold back
// any more to classes of their own limit, and reports whether there were any.
func (s *System) split() (moved bool) {
	for i, n := 0, len(s.touched); i < n; i++ {
		id := s.touched[i]
		if c := &s.classes[id]; !c.aggregated || c.held {
			continue
		}
		if p := &s.paths[s.classes[id].path]; p.aggregate == id {
			p.aggregate = none
		}
		for e := s.first(&s.classes[id]); e != nil; e = s.first(&s.classes[id]) {
			moved = true
			s.owner.Split(e.id)
		}
	}
	return moved
}
