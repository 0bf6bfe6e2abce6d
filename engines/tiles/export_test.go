package tiles

// Names exported for tests.
var (
	Threshold   = threshold
	Intensity   = intensity
	GroupsOf    = groupsOf
	CountsWaves = countsWaves
	InParts     = inParts
)

// Unlimited is a queue that no threshold bounds.
const Unlimited = unlimited

func (g *groups) N() int            { return g.n }
func (g *groups) TilesIn(i int) int { return g.tilesIn(i) }
