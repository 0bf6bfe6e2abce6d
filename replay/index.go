package replay

import "math"

// An index finds classes by key. It is open: a class lies in the slot of its
// hash, or in the next that is free after it, and other classes of the way are
// told apart by their hash without looking at them.
type index struct {
	slots []bucket // a power of two of them, at most half of them taken
	n     int
}

type bucket struct {
	hash uint32
	id   int32 // of the class, and one: the zero value is free
}

func newIndex() index { return index{slots: make([]bucket, 512)} }

func (k *classKey) hash() uint32 {
	const odd = 0x9e3779b97f4a7c15
	h := uint64(uint32(k.path)) | uint64(uint32(k.gpu))<<32
	h = (h ^ h>>31) * odd
	h ^= uint64(uint32(k.cu)) | uint64(uint32(k.launch))<<32
	h = (h ^ h>>31) * odd
	h ^= math.Float64bits(k.limit) + 3*math.Float64bits(k.slow) + 5*math.Float64bits(k.beside) + 11*math.Float64bits(k.onset) + 7*math.Float64bits(k.favor)
	h = (h ^ h>>29) * odd
	return uint32(h >> 32)
}

// find returns the class of a key with the hash, or none.
func (f *flows) find(k *classKey, hash uint32) int32 {
	slots := f.index.slots
	mask := uint32(len(slots) - 1)
	for at := hash & mask; slots[at].id != 0; at = (at + 1) & mask {
		if id := slots[at].id - 1; slots[at].hash == hash && f.classes[id].key == *k {
			return id
		}
	}
	return none
}

func (x *index) insert(id int32, hash uint32) {
	if x.n++; 2*x.n > len(x.slots) {
		old := x.slots
		x.slots = make([]bucket, 2*len(old))
		for _, b := range old {
			if b.id != 0 {
				x.put(b)
			}
		}
	}
	x.put(bucket{hash, id + 1})
}

func (x *index) put(b bucket) {
	mask := uint32(len(x.slots) - 1)
	at := b.hash & mask
	for x.slots[at].id != 0 {
		at = (at + 1) & mask
	}
	x.slots[at] = b
}

// remove takes a class out and moves those after it to where they are found.
func (x *index) remove(id int32, hash uint32) {
	x.n--
	mask := uint32(len(x.slots) - 1)
	at := hash & mask
	for x.slots[at].id != id+1 {
		at = (at + 1) & mask
	}
	for next := (at + 1) & mask; x.slots[next].id != 0; next = (next + 1) & mask {
		if home := x.slots[next].hash & mask; (next-home)&mask >= (next-at)&mask {
			x.slots[at] = x.slots[next]
			at = next
		}
	}
	x.slots[at] = bucket{}
}
