package plan

// A Cluster is ranks on several nodes: local rank l of node q has index q·Per + l.
type Cluster struct {
	Nodes, Per  int
	Node, Local int // of this rank
}

// Cluster locates a rank. ok is false unless every node has equally many of the ranks and
// they are ordered by node.
func (pl *Planner) Cluster(ranks []int32, me int) (c Cluster, ok bool) {
	m := &pl.Machine
	c.Per = 1
	for c.Per < len(ranks) && m.Node(int(ranks[c.Per])) == m.Node(int(ranks[0])) {
		c.Per++
	}
	c.Nodes = len(ranks) / c.Per
	c.Node, c.Local = me/c.Per, me%c.Per
	for i, r := range ranks {
		if m.Node(int(r)) != m.Node(int(ranks[i/c.Per*c.Per])) || i%c.Per == 0 && i > 0 && m.Node(int(r)) == m.Node(int(ranks[i-1])) {
			return c, false
		}
	}
	return c, c.Nodes*c.Per == len(ranks)
}

// At is the index of the rank i places further in the node d nodes further.
func (c Cluster) At(d, i int) int { return (c.Node+d)%c.Nodes*c.Per + (c.Local+i)%c.Per }
