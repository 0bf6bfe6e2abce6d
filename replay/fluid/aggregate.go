package fluid

// Aggregated classes
//
// Flows that a path holds back are sent at its level, regardless of their limits.
// If a thousand flows have different limits, one class per limit would give the path
// a thousand rows, inserted and removed with every flow. Flows that are certain to be
// held back therefore share one aggregated class. Its limit is above the level and
// below the limits of all its members:
//
//	rate    0 ------ level --|-- aggregated limit -- o - o o -- o ----->
//	                          aboveLevel              their limits
//
// When the level rises to the aggregated limit, each flow moves to the class of its
// own limit (split), and rates are solved again. A flow is split at most once, so a
// level that rises and falls repeatedly costs little.
//
// Without it BenchmarkPhases/memory/jittered of package replay takes 2.9 times as long.

// aboveLevel is the least ratio of an aggregated limit to the level.
const aboveLevel = 1.125

// Aggregate returns the aggregated class of a path that a flow of the weight and
// limit may join, or -1. The limit must not change while the flow is a member.
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
