package replay

import "math"

// A pool is a resource of the machine that flows share. What each flow that
// comes or goes touches is one cache line; what solving touches is its basin.
type pool struct {
	capacity float64 // bytes a nanosecond
	room     float64 // bytes a nanosecond that undisturbed flows may have
	quiet    float64 // bytes a nanosecond that they have
	used     float64 // bytes a nanosecond of flows in classes, since `since`
	since    Time
	moved    float64 // bytes of flows in classes until since, and of undisturbed ones that have ended
	quietN   int32   // undisturbed flows
	arbiter  int32   // that sets capacity, and one; 0 for what is fixed
	tight    bool    // demand exceeds capacity, so it may hold its classes back
	listed   bool    // is in flows.disturbed
	approx   bool    // is part of a large component
	brimful  bool    // used and quiet are capacity, since `since`

	mass      float64  // bytes for one byte of all its classes
	demand    float64  // bytes a nanosecond that its classes could send through it at most
	narrows   int32    // paths of which it is the narrowest and that could send more
	changed   bool     // tight may have, since
	crosses   int32    // paths with classes, that cross it
	paths     []member // those, and some that have no classes any more
	saturated Time     // time until since in which it was brimful
	full      *parts   // the same over time, if asked for
	ways      []int32  // paths that cross it and have had undisturbed flows
	level     float64  // of a large component: at which it was full in the last solve; 0 if it was not
	unused    float64  // of such a one: of its capacity, since idleAt
	idle      float64  // nanoseconds until idleAt, each times unused
	idleAt    Time
}

// A member is a path of a pool, and which of flows.ways says so.
type member struct{ path, at int32 }

// A basin is what a solve knows of a pool.
type basin struct {
	left    float64 // capacity that nothing settled uses
	load    float64 // bytes for one byte of everything unsettled
	open    int32   // unsettled paths
	tied    bool    // demand may exceed its capacity, so that it ties its paths together and is solved
	visited int     // the last search that reached it
}

// account brings moved and saturated up to now.
func (p *pool) account(now Time) {
	dt := now - p.since
	if dt == 0 {
		return
	}
	p.moved += p.used * float64(dt)
	if p.brimful {
		p.saturated += dt
		if p.full != nil {
			p.full.add(p.since, now)
		}
	}
	p.since = now
}

// use sets the bytes a nanosecond of flows in classes from now on.
func (p *pool) use(rate float64, now Time) {
	p.account(now)
	if p.used = rate; p.crosses == 0 {
		p.used = 0 // exactly
	}
	p.brimful = p.fills()
}

// fills reports whether as much flows through as can.
func (p *pool) fills() bool { return p.used+p.quiet >= p.capacity*(1-1e-6) }

// stir notes that undisturbed flows have begun or ended. Bytes are counted when
// those end, so that only what begins or ends to fill the pool costs more.
func (p *pool) stir(now Time) {
	if fills := p.fills(); fills != p.brimful {
		p.account(now)
		p.brimful = fills
	}
}

// tightens reports whether more could flow through the pool than it holds.
func (p *pool) tightens() bool { return p.quiet > p.room }

// reckon finds what is left for undisturbed flows. The demand of a path that
// another pool narrows more is bounded by that one.
func (p *pool) reckon() {
	if p.room = p.capacity*(1+1e-9) - p.demand; p.narrows > 0 {
		p.room = math.Inf(-1)
	}
}
