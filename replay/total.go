package replay

// A total is the flow and mass of a path's stairs, kept while single steps come
// and go and summed anew after as many changes as there are blocks, so that
// rounding does not add up:
//
//	exact + + - + - - exact + - + ...
//
// What is left of a sum that was a thousand times as large is rounding as well:
// then, and where there are few blocks to sum, it is exact at once.
type total struct {
	flow, mass         float64
	mostFlow, mostMass float64 // since it was exact
	changes            int
}

const fewBlocks = 4

func (t *total) add(flow, mass float64) {
	t.flow += flow
	t.mass += mass
	t.mostFlow, t.mostMass = max(t.mostFlow, t.flow), max(t.mostMass, t.mass)
	t.changes++
}

// of is the total of the stairs.
func (t *total) of(s stairs) (flow, mass float64) {
	if len(s) <= fewBlocks || t.changes >= len(s) || t.flow < t.mostFlow/1000 || t.mass < t.mostMass/1000 {
		t.flow, t.mass = s.sum()
		t.mostFlow, t.mostMass, t.changes = t.flow, t.mass, 0
	}
	return t.flow, t.mass
}
