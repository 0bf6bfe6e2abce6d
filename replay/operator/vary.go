package operator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// With returns a copy of the file with changed sizes, by key of its shape.
func (f *File) With(sizes map[string]int64) (*File, error) {
	g := *f
	g.shape = maps.Clone(f.shape)
	for _, key := range slices.Sorted(maps.Keys(sizes)) {
		n := sizes[key]
		if _, ok := f.shape[key]; !ok {
			return nil, f.fault("shape", "it has "+strings.Join(slices.Sorted(maps.Keys(f.shape)), ", "), "%s has no size %q", f.Operator, key)
		}
		if n < 1 || n >= maxSize {
			return nil, f.fault("shape."+key, fmt.Sprintf("give 1 to %d", maxSize-1), "%s: %d", key, n)
		}
		g.shape[key] = n
	}
	return &g, nil
}
