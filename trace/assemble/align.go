package assemble

import "slices"

// mostDifferences bounds the operations that only one of two sequences has, and so the
// memory of the alignment.
const mostDifferences = 1000

// align pairs equal operations of two sequences in order, as many as there can be: a
// longest common subsequence (Myers, An O(ND) Difference Algorithm, Algorithmica 1986).
// Beyond mostDifferences it pairs only what is equal at both ends.
func align(a, b []issued) [][2]int {
	var pairs [][2]int
	head := 0
	for head < len(a) && head < len(b) && a[head].key == b[head].key {
		pairs = append(pairs, [2]int{head, head})
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail].key == b[len(b)-1-tail].key {
		tail++
	}
	for _, p := range longestCommon(a[head:len(a)-tail], b[head:len(b)-tail]) {
		pairs = append(pairs, [2]int{p[0] + head, p[1] + head})
	}
	for i := tail; i > 0; i-- {
		pairs = append(pairs, [2]int{len(a) - i, len(b) - i})
	}
	return pairs
}

// longestCommon is Myers' greedy algorithm: reach[k] is the furthest x on diagonal
// x-y=k after d differences.
func longestCommon(a, b []issued) [][2]int {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	most := min(len(a)+len(b), mostDifferences)
	reach := make([]int32, 2*most+3)
	var history [][]int32
	for d := 0; d <= most; d++ {
		history = append(history, slices.Clone(reach[most-d:most+d+3]))
		for k := -d; k <= d; k += 2 {
			at := most + 1 + k
			x := int(reach[at-1]) + 1
			if k == -d || k != d && reach[at-1] < reach[at+1] {
				x = int(reach[at+1])
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x].key == b[y].key {
				x, y = x+1, y+1
			}
			reach[at] = int32(x)
			if x >= len(a) && y >= len(b) {
				return backtrack(history, len(a), len(b))
			}
		}
	}
	return nil
}

// backtrack follows the path of fewest differences from its end.
func backtrack(history [][]int32, x, y int) [][2]int {
	var pairs [][2]int
	for d := len(history) - 1; d >= 0; d-- {
		reach := func(k int) int { return int(history[d][k+d+1]) } // before step d
		k := x - y
		startX, startY := 0, 0 // of the step, and afterX where its run of equal ones starts
		afterX := 0
		switch {
		case d == 0:
		case k == -d || k != d && reach(k-1) < reach(k+1):
			startX = reach(k + 1)
			startY, afterX = startX-k-1, startX
		default:
			startX = reach(k - 1)
			startY, afterX = startX-k+1, startX+1
		}
		for x > afterX {
			x, y = x-1, y-1
			pairs = append(pairs, [2]int{x, y})
		}
		x, y = startX, startY
	}
	slices.Reverse(pairs)
	return pairs
}
