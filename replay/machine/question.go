package machine

import (
	"fmt"
	"math"

	"github.com/overlapse/overlapse/trace"
)

// A Question is a lookup of a plan in a profile. It is comparable.
type Question struct {
	Kind     questionKind
	M, N, K  int64 // of a GEMM
	Op       trace.CollectiveOp
	Bytes    int64 // the larger of one rank's input and output
	Ranks    int
	Channels int
}

// questionKind is the kind of lookup.
type questionKind uint8

// The kinds.
const (
	AboutGEMM       questionKind = iota // the time of a GEMM: Tiling
	AboutCollective                     // the time of a collective alone: Library.Time
)

// Questions collects lookups without duplicates, in order. A nil *Questions collects
// nothing. Not safe for concurrent use.
type Questions struct {
	list []Question
	seen map[Question]bool
}

// Add adds a lookup.
func (q *Questions) Add(x Question) {
	if q == nil || q.seen[x] {
		return
	}
	if q.seen == nil {
		q.seen = map[Question]bool{}
	}
	q.seen[x] = true
	q.list = append(q.list, x)
}

// List returns the lookups in order.
func (q *Questions) List() []Question {
	if q == nil {
		return nil
	}
	return q.list
}

// Nearest returns the GEMM in the profile's table nearest to the given one, and the ratio
// of the side that differs most; infinite without a table. Among equals it takes the one
// whose sides differ least together.
func (m *Machine) Nearest(M, N, K int64) (shape [3]int64, factor float64) {
	factor = math.Inf(1)
	least := factor
	for _, r := range m.Matmul.Shapes.Rows {
		x, y, z := apart(r[0], float64(M)), apart(r[1], float64(N)), apart(r[2], float64(K))
		if d := max(x, y, z); d < factor || d == factor && x*y*z < least {
			shape, factor, least = [3]int64{int64(r[0]), int64(r[1]), int64(r[2])}, d, x*y*z
		}
	}
	return shape, factor
}

// Beyond returns the factor by which a collective is outside the recorded sizes, channels
// and ranks, and the name of that property; 1 and "" inside. Times between recorded ones
// are interpolated.
func (l *Library) Beyond(op trace.CollectiveOp, bytes int64, ranks, channels int) (factor float64, what string) {
	rows := l.Of(op).Times.Rows
	if len(rows) == 0 {
		return math.Inf(1), "no times recorded"
	}
	factor = 1
	for i, v := range [...]float64{float64(ranks), float64(channels), float64(bytes)} {
		if v <= 0 {
			continue // the library's choice
		}
		lo, hi := math.Inf(1), 0.0
		for _, r := range rows {
			lo, hi = min(lo, r[i]), max(hi, r[i])
		}
		if d := max(lo/v, v/hi, 1); d > factor {
			unit := [...]string{"ranks", "channels", "bytes"}[i]
			factor, what = d, fmt.Sprintf("%s %s, recorded were %s to %s", formatNumber(v), unit, formatNumber(lo), formatNumber(hi))
		}
	}
	return factor, what
}

func apart(a, b float64) float64 {
	if a <= 0 || b <= 0 {
		return math.Inf(1)
	}
	return max(a/b, b/a)
}
