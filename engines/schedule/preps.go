package schedule

import (
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
)

// findPreps finds the copies that do nothing but prepare a collective's input, of data that
// were ready before the operation in front of them: they move with the collective.
func (s *step) findPreps(row int) {
	for _, id := range s.w.Collectives[row].Members {
		s.preps[row] = append(s.preps[row], s.copiesFor(id)...)
	}
	slices.Sort(s.preps[row])
}

// copiesFor are the operations of a rank whose results nothing but the collective reads,
// directly or through others of them, that move data and compute nothing, and that do not
// follow directly on what they read. parts are other operations of the collective, which are returned too.
func (s *step) copiesFor(id int32, parts ...int32) []int32 {
	group := parts
	for todo := append([]int32{id}, parts...); len(todo) > 0; todo = todo[1:] {
		for _, e := range s.w.Flow[todo[0]] {
			if reads(e) && !slices.Contains(group, e.Op) && s.onlyFor(e.Op, id, group) && s.waited(e.Op, id, group) {
				group, todo = append(group, e.Op), append(todo, e.Op)
			}
		}
	}
	return group
}

// onlyFor reports whether an operation is a copy of which only a collective, or the group,
// reads the result. DDP's copy of a gradient into its bucket belongs to the gradient.
func (s *step) onlyFor(id, collective int32, group []int32) bool {
	return s.at[id] >= 0 && workload.Copies(&s.w.Ops[id]) && !s.w.Ops[id].Gradient &&
		!slices.ContainsFunc(s.readers[id], func(r int32) bool { return r != collective && !slices.Contains(group, r) })
}

// waited reports whether other work was issued between an operation and the last one that
// it depends on. Kernels of one operator, which lie next to each other, count as one.
func (s *step) waited(id, collective int32, group []int32) bool {
	ready, first := int32(-1), s.at[id]
	seen := []int32{id}
	for todo := []int32{id}; len(todo) > 0; todo = todo[1:] {
		for _, e := range s.w.Flow[todo[0]] {
			switch {
			case !binding(e) || slices.Contains(seen, e.Op):
			case s.at[e.Op] == first-1 && s.w.Ops[e.Op].Name == s.w.Ops[id].Name && s.onlyFor(e.Op, collective, append(group, seen...)):
				first = s.at[e.Op]
				seen, todo = append(seen, e.Op), append(todo, e.Op)
			default:
				ready = max(ready, s.at[e.Op])
			}
		}
	}
	return ready < 0 || ready < first-1
}

// move takes the copies that prepare collectives out of the order of compute.
func (s *step) move() {
	for row, ids := range s.preps {
		for _, id := range ids {
			s.moved[id] = int32(row)
		}
	}
	s.leaveOut(func(it *item) bool { _, moved := s.moved[it.op.ID]; return moved })
}

// leaveOut removes items and numbers the others.
func (s *step) leaveOut(drop func(*item) bool) {
	for rank := range s.items {
		for _, it := range s.items[rank] {
			if !it.again && drop(it) {
				s.at[it.op.ID] = -1
			}
		}
		s.items[rank] = slices.DeleteFunc(s.items[rank], func(it *item) bool { return !it.again && drop(it) })
		s.computes = nil
	}
	s.number()
}

// number sets the index of every item and how many were issued before each operation.
func (s *step) number() {
	for rank, items := range s.items {
		for i, it := range items {
			if !it.again {
				s.at[it.op.ID] = int32(i)
			}
		}
		n := int32(0)
		for _, id := range s.order[rank] {
			s.issued[id] = n
			if s.at[id] >= 0 {
				n = s.at[id] + 1
			}
		}
	}
}
