package engines

import "github.com/overlapse/overlapse/trace"

// Choose is choose, for tests outside of the package.
func (c *PairChoice) Choose(base trace.Time, whole bool) { c.choose(base, whole) }
