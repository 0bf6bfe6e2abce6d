package program

import "slices"

// Owners are the GPUs whose flags some are that were added together. They tell which flag stands
// in the place of another one for GPUs that do the same: where GPU 1 does what GPU 0 does, flag i
// of GPU 1 is in the place of flag i of GPU 0.
type Owners struct {
	GPUs []int32
	Each int // flags of each GPU, GPU by GPU; 0: all the flags are of all the GPUs, in common
	// About, if over 0, is that each GPU's flags are about the GPUs: so many about the first Group
	// of them, then as many about the next.
	About, Group int
	Family       any // of flags in common: those of one family are in each other's place
}

// place is where the flag in the place of a GPU's flag i is among those of that GPU's image, whose
// owners are p.
func (o *Owners) place(i int, p *Owners, to func(int32) int32) int {
	if o.About == 0 {
		return i
	}
	about := to(o.GPUs[i/o.About*o.Group])
	return slices.Index(p.GPUs, about)/p.Group*p.About + i%o.About
}

// common reports whether the images of the owners of flags in common are the other owners.
func (o *Owners) common(p *Owners, to func(int32) int32) bool {
	return len(o.GPUs) == len(p.GPUs) && !slices.ContainsFunc(o.GPUs, func(g int32) bool { return !slices.Contains(p.GPUs, to(g)) })
}

// Image reports whether flag b can be in the place of a for the images of GPUs.
func (f *Flags) Image(a, b Flag, to func(int32) int32) bool {
	x, y := f.at(a), f.at(b)
	if x.Owners == nil || y.Owners == nil {
		return a == b
	}
	i, j := int(a-x.first), int(b-y.first)
	switch {
	case x.Each != y.Each || x.About != y.About || x.Group != y.Group:
		return false
	case x.Each == 0:
		return i == j && x.common(y.Owners, to) && (a == b || !x.common(x.Owners, to))
	}
	owner := y.GPUs[j/y.Each]
	return to(x.GPUs[i/x.Each]) == owner && x.place(i%x.Each, y.Owners, to) == j%y.Each && (x == y || !slices.Contains(x.GPUs, owner))
}

// OfOne reports whether a flag is stated to be of one GPU.
func (f *Flags) OfOne(flag Flag) bool { x := f.at(flag); return x.Owners != nil && x.Each > 0 }

// A Turn is how a flag relates to the lowest in whose place it is.
type Turn struct {
	Of   Flag
	By   int32 // the permutation of GPUs that maps Of to it
	Size int32 // number of flags that permutations map to each other
}

// A Group is permutations of GPUs, of which only the first maps a GPU to itself.
type Group struct {
	To   [][]int32 // by permutation and GPU: its image
	Of   []int32   // by GPU: the lowest that a permutation maps to it
	By   []int32   // by GPU: that permutation
	Back []int32   // by permutation: the one that reverses it
}

// Turns is how all flags relate.
func (f *Flags) Turns(g *Group) []Turn {
	turns := make([]Turn, f.Len())
	type key struct {
		family any
		size   int32
		i      int
	}
	first := map[key][]Flag{} // of flags in common
	sizes := map[*int32]int32{}
	for k := range f.names {
		n := &f.names[k]
		end := f.most + 1
		if k+1 < len(f.names) {
			end = f.names[k+1].first
		}
		for at := n.first; at < end; at++ {
			x := Turn{at, 0, int32(len(g.To))}
			switch i := int(at - n.first); {
			case n.Owners == nil:
				x.Size = 1
			case n.Each > 0:
				owner := n.GPUs[i/n.Each]
				if low := slices.Index(n.GPUs, g.Of[owner]); low >= 0 {
					x.By = g.By[owner]
					x.Of = n.first + Flag(low*n.Each+n.place(i%n.Each, n.Owners, g.under(g.Back[x.By])))
				}
			default:
				if x.Size = sizes[&n.GPUs[0]]; x.Size == 0 {
					same := int32(0)
					for t := range g.To {
						if n.common(n.Owners, g.under(int32(t))) {
							same++
						}
					}
					x.Size = int32(len(g.To)) / same
					sizes[&n.GPUs[0]] = x.Size
				}
				if n.Family == nil {
					break
				}
				in := key{n.Family, x.Size, i}
				for _, low := range first[in] {
					if by := slices.IndexFunc(g.To, func(to []int32) bool {
						return f.at(low).common(n.Owners, func(gpu int32) int32 { return to[gpu] })
					}); by >= 0 {
						x.Of, x.By = low, int32(by)
						break
					}
				}
				if x.Of == at {
					first[in] = append(first[in], at)
				}
			}
			turns[at] = x
		}
	}
	return turns
}

func (g *Group) under(t int32) func(int32) int32 {
	return func(gpu int32) int32 { return g.To[t][gpu] }
}
