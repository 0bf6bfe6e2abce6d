package tiles

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
)

// variables are those of a formula: the place of a tile, the column k of the producer's tiles that a consumer's loop over
// K comes to, and the producer's tiles and parts along K.
var variables = []string{"row", "col", "k", "rows", "cols", "splits"}

const maxFormula = 200 // bytes

// parseFormula reads a formula of whole numbers and variables with + - * / % and parentheses, as Go has them: division
// rounds towards zero.
func parseFormula(text string) (ast.Expr, error) {
	if len(text) > maxFormula {
		return nil, fmt.Errorf("formula of %d bytes (at most %d)", len(text), maxFormula)
	}
	e, err := parser.ParseExpr(text)
	if err == nil {
		_, _, err = valueOf(e, make([]int64, len(variables)))
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return e, nil
}

// valueOf computes a formula with values of the variables; ok is false for a division by zero. The error is that the
// formula has another element.
func valueOf(e ast.Expr, at []int64) (v int64, ok bool, err error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return valueOf(e.X, at)
	case *ast.Ident:
		if i := slices.Index(variables, e.Name); i >= 0 {
			return at[i], true, nil
		}
	case *ast.BasicLit:
		if v, err := strconv.ParseInt(e.Value, 10, 32); err == nil {
			return v, true, nil
		}
	case *ast.BinaryExpr:
		a, okA, errA := valueOf(e.X, at)
		b, okB, errB := valueOf(e.Y, at)
		ok, err = okA && okB, cmp.Or(errA, errB)
		switch e.Op {
		case token.ADD:
			return a + b, ok, err
		case token.SUB:
			return a - b, ok, err
		case token.MUL:
			return a * b, ok, err
		case token.QUO, token.REM:
			if b == 0 {
				return 0, false, err
			}
			if e.Op == token.QUO {
				return a / b, ok, err
			}
			return a % b, ok, err
		}
	}
	return 0, false, fmt.Errorf("position %d: a formula has whole numbers, %s, + - * / %% and parentheses", e.Pos(), variables)
}

// checkFormula is the check of parameters that are formulas.
func checkFormula(text string) error {
	_, err := parseFormula(text)
	return err
}

// ownOf is a policy that a user states as formulas (rule T8), evaluated for every tile of the producer. The semaphores
// have the numbers 0 to rows·cols-1 of its tiles. It returns the reason why the formulas do not fit.
func ownOf(v plan.Values, c plan.Cover, a, b workload.Shape) (s semaphores, why string) {
	if a.N != b.K || ownColumns(a, b) {
		return s, fmt.Sprintf("policy own needs a consumer that sums over the producer's %d columns, not %d", a.N, b.K)
	}
	of := [4][]int64{} // by tile, row by row
	for i, name := range []string{"posts", "waits", "count", "tiles"} {
		e, err := parseFormula(v[name])
		for tile := range c.Tiles() {
			row, col := int64(tile/c.Cols), int64(tile%c.Cols)
			n, ok := int64(0), false
			if err == nil {
				n, ok, _ = valueOf(e, []int64{row, col, col, int64(c.Rows), int64(c.Cols), int64(c.Splits)})
			}
			if !ok {
				return s, fmt.Sprintf("%s=%s has no value for row %d, column %d", name, v[name], row, col)
			}
			if i < 2 && (n < 0 || n >= int64(c.Tiles())) {
				return s, fmt.Sprintf("%s=%s is semaphore %d for row %d, column %d, but there are %d", name,
					v[name], n, row, col, c.Tiles())
			}
			of[i] = append(of[i], n)
		}
	}
	posts, waits, counts, keys := of[0], of[1], of[2], of[3]
	for tile := range c.Tiles() {
		s.order = append(s.order, int32(tile))
	}
	slices.SortStableFunc(s.order, func(x, y int32) int { return cmp.Compare(keys[x], keys[y]) })
	s.parts, s.groups = c.Cols, 1
	s.ready = func(row, col int) int { return int(posts[row*c.Cols+col]) }
	s.waits = func(row, part int) (int, int64) { return int(waits[row*c.Cols+part]), counts[row*c.Cols+part] }
	return s, s.unsafe(c)
}

// unsafe names a tile that a consumer would read before it is complete; "" if there is none.
func (s *semaphores) unsafe(c plan.Cover) string {
	posts := make([]int64, c.Tiles()) // by semaphore, when all tiles are complete
	for tile := range c.Tiles() {
		posts[s.ready(tile/c.Cols, tile%c.Cols)] += int64(c.Splits)
	}
	for row := range c.Rows {
		seen := map[int]int64{}
		for k := range c.Cols {
			waited, count := s.waits(row, k)
			seen[waited] = max(seen[waited], count)
			if i := s.ready(row, k); seen[i] < posts[i] {
				return fmt.Sprintf("a consumer in row %d reads column %d of the producer's tiles after %d of the %d posts of semaphore %d",
					row, k, seen[i], posts[i], i)
			}
		}
	}
	return ""
}
