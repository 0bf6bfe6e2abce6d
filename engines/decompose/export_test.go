package decompose

// Names exported for tests.
var (
	GroupsOf    = groupsOf
	CountsWaves = countsWaves
)

func (g *groups) N() int            { return g.n }
func (g *groups) TilesIn(i int) int { return g.tilesIn(i) }
