package trace

import (
	"fmt"
	"math"
)

// An Access is bytes of a storage that a device operation reads or writes, as an
// execution trace records them.
type Access struct {
	Storage  int32 // number, unique within a rank: where an allocator reuses an address, storages share it
	Life     int32 // number of the allocation at this address during one pass of the recording; 0: it was there before
	From, To int64 // bytes from the start of the storage; To is after the last one
	Read     bool
	Write    bool
	Inferred bool // it is not recorded whether this argument is read or written
}

// Uses is the accesses of one framework operator, which all of its kernels share: rows
// First to First+Count-1 of Run.Accesses.
type Uses struct {
	First, Count int32
	Pass         int32 // the recording was applied several times: number of the step that these are of
}

// UsesOf returns the number, from 1, of a device span's row in Run.Uses; 0 if it is not
// known what the span reads and writes.
func (r *Run) UsesOf(s Span) int32 {
	if k := r.Kernel(s); k != nil {
		return k.Uses
	}
	if c := r.Copy(s); c != nil {
		return c.Uses
	}
	return 0
}

// AccessesOf returns the accesses of a row of Uses, by its number from 1.
func (r *Run) AccessesOf(uses int32) []Access {
	if uses == 0 {
		return nil
	}
	u := r.Uses[uses-1]
	return r.Accesses[u.First : u.First+u.Count]
}

// AddUses appends the accesses of one operator and returns their number in Run.Uses,
// from 1.
func (b *Builder) AddUses(accesses []Access, pass int32) int32 {
	t := &b.Run
	if len(accesses) == 0 || len(t.Accesses) > math.MaxInt32-len(accesses) {
		return 0
	}
	t.Uses = append(t.Uses, Uses{int32(len(t.Accesses)), int32(len(accesses)), pass})
	t.Accesses = append(t.Accesses, accesses...)
	return int32(len(t.Uses))
}

func (v validator) accesses() error {
	for i, u := range v.Uses {
		if u.First < 0 || u.Count < 0 || int(u.First)+int(u.Count) > len(v.Accesses) {
			return fmt.Errorf("uses %d: accesses %d to %d of %d", i+1, u.First, u.First+u.Count, len(v.Accesses))
		}
	}
	for i, a := range v.Accesses {
		if a.From < 0 || a.To < a.From || a.Life < 0 {
			return fmt.Errorf("access %d: bytes %d to %d of storage %d", i, a.From, a.To, a.Storage)
		}
	}
	for i := range v.Kernels {
		if n := v.Kernels[i].Uses; n < 0 || int(n) > len(v.Uses) {
			return fmt.Errorf("kernel %d: uses %d of %d", i, n, len(v.Uses))
		}
	}
	for i := range v.Copies {
		if n := v.Copies[i].Uses; n < 0 || int(n) > len(v.Uses) {
			return fmt.Errorf("copy %d: uses %d of %d", i, n, len(v.Uses))
		}
	}
	return nil
}
