package replay

import (
	"math/bits"
	"slices"
)

// Sorting what is due
//
// What is due at one instant is sorted by where its keys differ: a few by
// insertion, more by digits from the lowest, leaving out those that are equal.
//
//	keys    2:017:0094  2:017:0031  2:020:0031      kind : launch : index
//	differ  0:00f:00ff                              digits to sort by
//
// With slices.SortFunc in its place and without a launch's recent paths
// BenchmarkEmbedding/gpus=8/even=true takes 1.4 times as long.

const (
	fewKeys = 48
	keyBits = 8
)

// sortKeys returns the sorted keys and what else it used.
func sortKeys(keys, spare []dueKey) (sorted, left []dueKey) {
	if len(keys) <= fewKeys {
		for i := 1; i < len(keys); i++ {
			x, at := keys[i], i
			for ; at > 0 && keys[at-1].key > x.key; at-- {
				keys[at] = keys[at-1]
			}
			keys[at] = x
		}
		return keys, spare
	}
	differ, ascend := uint64(0), true
	for i := range keys[1:] {
		differ |= keys[i].key ^ keys[i+1].key
		ascend = ascend && keys[i].key <= keys[i+1].key
	}
	if ascend {
		return keys, spare
	}
	spare = slices.Grow(spare[:0], len(keys))[:len(keys)]
	for shift := 0; differ>>shift != 0; shift += keyBits {
		shift += bits.TrailingZeros64(differ >> shift)
		var at [1 << keyBits]int32
		for i := range keys {
			at[uint8(keys[i].key>>shift)]++
		}
		sum := int32(0)
		for d, n := range at {
			at[d] = sum
			sum += n
		}
		for i := range keys {
			d := uint8(keys[i].key >> shift)
			spare[at[d]] = keys[i]
			at[d]++
		}
		keys, spare = spare, keys
	}
	return keys, spare
}
