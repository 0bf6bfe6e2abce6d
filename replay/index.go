package replay

import "math"

// An index finds classes by key: chains of classes by the hash of their key.
type index struct {
	slots []int32 // first of the chain, or none; a power of two of them
	n     int
}

func newIndex() index {
	x := index{slots: make([]int32, 256)}
	for i := range x.slots {
		x.slots[i] = none
	}
	return x
}

func (x *index) slot(k *classKey) *int32 {
	const odd = 0x9e3779b97f4a7c15
	h := uint64(uint32(k.path)) | uint64(uint32(k.gpu))<<32
	h = (h ^ h>>31) * odd
	h ^= uint64(uint32(k.cu)) | uint64(uint32(k.launch))<<32
	h = (h ^ h>>31) * odd
	h ^= math.Float64bits(k.limit) + 3*math.Float64bits(k.slow) + 5*math.Float64bits(k.beside) + 7*math.Float64bits(k.favor)
	h = (h ^ h>>29) * odd
	return &x.slots[h>>32&uint64(len(x.slots)-1)]
}

func (f *flows) insert(id int32) {
	if f.index.n++; f.index.n > len(f.index.slots) {
		f.rehash()
	}
	slot := f.index.slot(&f.classes[id].key)
	f.classes[id].next = *slot
	*slot = id
}

func (f *flows) remove(id int32) {
	at := f.index.slot(&f.classes[id].key)
	for *at != id {
		at = &f.classes[*at].next
	}
	*at = f.classes[id].next
	f.index.n--
}

// rehash doubles the slots.
func (f *flows) rehash() {
	old := f.index.slots
	f.index.slots = make([]int32, 2*len(old))
	for i := range f.index.slots {
		f.index.slots[i] = none
	}
	for _, id := range old {
		for id != none {
			next := f.classes[id].next
			slot := f.index.slot(&f.classes[id].key)
			f.classes[id].next = *slot
			*slot = id
			id = next
		}
	}
}
