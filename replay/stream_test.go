package replay

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/program"
)

// What is due at one instant acts in order of launch and index, whatever
// order timers and classes come in: here workgroups take tickets.
func TestTiesActInOrderOfLaunchAndIndex(t *testing.T) {
	order := func(first program.Time) []int {
		var tiles []int
		c := kernel("T", 4, nil, persistent(100, 1))
		c.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
			if !slices.Contains(tiles, tile) {
				tiles = append(tiles, tile)
			}
			if tile < 4 {
				// The even ones join their class early, the odd ones late; all are done at 100.
				if tile%2 == 0 {
					return append(buf, program.Phase{Op: program.Work, Time: 100})
				}
				return append(buf, program.Phase{Op: program.Sleep, Time: first}, program.Phase{Op: program.Work, Time: 100 - first})
			}
			return append(buf, program.Phase{Op: program.Work, Time: 1000})
		}
		c.Kernel.Tiles = 8
		mustSimulate(t, small(1, 4), prog([]program.Stream{{Commands: []program.Command{c}}}), Options{})
		return tiles
	}
	for _, first := range []program.Time{1, 50, 99} {
		if got := order(first); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("tickets handed out: %v", got)
		}
	}
}
