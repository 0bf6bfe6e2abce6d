package trace

import "slices"

// LongestCommon pairs equal things of two sequences of a and b things in order, as many as there can be: a longest common
// subsequence (Myers, An O(ND) Difference Algorithm, Algorithmica 1986). Beyond most things that only one of them has it pairs
// only what is equal at both ends; it takes 4 bytes times the square of most at worst. equal compares thing i of the first
// with thing j of the second.
func LongestCommon(a, b, most int, equal func(i, j int) bool) [][2]int {
	var pairs [][2]int
	head, tail := 0, 0
	for head < a && head < b && equal(head, head) {
		pairs = append(pairs, [2]int{head, head})
		head++
	}
	for tail < a-head && tail < b-head && equal(a-1-tail, b-1-tail) {
		tail++
	}
	for _, p := range common(a-head-tail, b-head-tail, most, func(i, j int) bool { return equal(i+head, j+head) }) {
		pairs = append(pairs, [2]int{p[0] + head, p[1] + head})
	}
	for i := tail; i > 0; i-- {
		pairs = append(pairs, [2]int{a - i, b - i})
	}
	return pairs
}

// common is Myers' greedy algorithm: reach[k] is the furthest x on diagonal x-y=k after d differences.
func common(a, b, most int, equal func(i, j int) bool) [][2]int {
	if a == 0 || b == 0 {
		return nil
	}
	most = min(a+b, most)
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
			for x < a && y < b && equal(x, y) {
				x, y = x+1, y+1
			}
			reach[at] = int32(x)
			if x >= a && y >= b {
				return backtrack(history, a, b)
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
