package assemble

import (
	"slices"
	"testing"
)

// Recorded operations are found in every iteration, marked or not, also where iterations have others between them: their
// number is not that of differences which one alignment bears.
func TestRepeat(t *testing.T) {
	const iterations, operations, others = 40, 400, 80
	var ours, recorded []issued
	for i := range operations {
		recorded = append(recorded, issued{key: int32(i), uses: int32(i + 1)})
	}
	for range iterations {
		for i := range operations {
			ours = append(ours, issued{key: int32(i)})
			if i%(operations/others) == 0 {
				ours = append(ours, issued{key: -1})
			}
		}
	}
	pairs := repeat(ours, recorded)
	for i, p := range pairs {
		if p.uses != int32(i%operations+1) || p.pass != int32(i/operations) {
			t.Fatalf("pair %d is of pass %d and row %d", i, p.pass, p.uses)
		}
	}
	if len(pairs) != iterations*operations {
		t.Errorf("%d of %d operations are found", len(pairs), iterations*operations)
	}
	if cut := repeat(ours[operations/2:], recorded); !slices.ContainsFunc(cut, func(p pairing) bool { return p.pass == iterations/2 }) {
		t.Error("iterations behind half a one are not found")
	}
}
