package engines

// A cluster is ranks of several nodes: rank l of node q is at place q·per + l of the board.
type cluster struct {
	nodes, per  int
	node, local int // of this rank
}

// cluster places a rank. ok is false where the ranks are not equally many of each
// node, one node after another.
func (pl *planner) cluster(ranks []int32, me int) (c cluster, ok bool) {
	m := &pl.m
	c.per = 1
	for c.per < len(ranks) && m.Node(int(ranks[c.per])) == m.Node(int(ranks[0])) {
		c.per++
	}
	c.nodes = len(ranks) / c.per
	c.node, c.local = me/c.per, me%c.per
	for i, r := range ranks {
		if m.Node(int(r)) != m.Node(int(ranks[i/c.per*c.per])) || i%c.per == 0 && i > 0 && m.Node(int(r)) == m.Node(int(ranks[i-1])) {
			return c, false
		}
	}
	return c, c.nodes*c.per == len(ranks)
}

// at is the place of the i-th next rank of the d-th next node.
func (c cluster) at(d, i int) int { return (c.node+d)%c.nodes*c.per + (c.local+i)%c.per }
