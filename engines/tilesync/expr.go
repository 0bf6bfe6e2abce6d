package tilesync

import (
	"fmt"
	"strconv"
	"strings"
)

// An expr is a formula of whole numbers over the variables of a tile: + - * / % and
// parentheses. Division rounds towards zero.
type expr struct{ code []instruction } // in postfix order

// An instruction pushes a number or a variable, or combines the two topmost values.
type instruction struct {
	op     byte // '#' number, 'v' variable, or an operator
	number int64
}

// The variables of a formula.
const (
	varRow = iota
	varCol
	varK
	varRows
	varCols
	varSplits
	numVars
)

var varNames = [numVars]string{"row", "col", "k", "rows", "cols", "splits"}

const maxFormula = 200 // bytes

// parseExpr reads a formula.
func parseExpr(text string) (expr, error) {
	if len(text) > maxFormula {
		return expr{}, fmt.Errorf("formula of %d bytes (at most %d)", len(text), maxFormula)
	}
	p := parser{text: text}
	p.sum()
	if p.skip(); p.err == nil && p.at < len(text) {
		p.fail("unexpected %q", text[p.at:p.at+1])
	}
	return expr{p.code}, p.err
}

type parser struct {
	text string
	at   int
	code []instruction
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%q: position %d: %s", p.text, p.at+1, fmt.Sprintf(format, args...))
	}
}

func (p *parser) skip() {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
}

// next takes one of the given bytes; 0 if there is none.
func (p *parser) next(of string) byte {
	p.skip()
	if p.at < len(p.text) && strings.IndexByte(of, p.text[p.at]) >= 0 {
		p.at++
		return p.text[p.at-1]
	}
	return 0
}

func (p *parser) sum()     { p.chain("+-", p.product) }
func (p *parser) product() { p.chain("*/%", p.value) }

func (p *parser) chain(ops string, part func()) {
	part()
	for p.err == nil {
		op := p.next(ops)
		if op == 0 {
			return
		}
		part()
		p.code = append(p.code, instruction{op: op})
	}
}

func (p *parser) value() {
	if p.next("(") != 0 {
		p.sum()
		if p.err == nil && p.next(")") == 0 {
			p.fail("no closing parenthesis")
		}
		return
	}
	p.skip()
	from := p.at
	for p.at < len(p.text) && (p.text[p.at] >= 'a' && p.text[p.at] <= 'z' || p.text[p.at] >= '0' && p.text[p.at] <= '9') {
		p.at++
	}
	word := p.text[from:p.at]
	if n, err := strconv.ParseInt(word, 10, 32); err == nil {
		p.code = append(p.code, instruction{'#', n})
		return
	}
	for i, name := range varNames {
		if word == name {
			p.code = append(p.code, instruction{'v', int64(i)})
			return
		}
	}
	p.at = from
	p.fail("no number and none of %s", strings.Join(varNames[:], ", "))
}

// value computes a formula; ok is false for a division by zero.
func (e expr) value(vars [numVars]int64) (v int64, ok bool) {
	var stack [maxFormula]int64
	n := 0
	for _, c := range e.code {
		switch c.op {
		case '#':
			stack[n], n = c.number, n+1
			continue
		case 'v':
			stack[n], n = vars[c.number], n+1
			continue
		}
		a, b := stack[n-2], stack[n-1]
		n--
		switch c.op {
		case '+':
			a += b
		case '-':
			a -= b
		case '*':
			a *= b
		default:
			if b == 0 {
				return 0, false
			}
			if c.op == '/' {
				a /= b
			} else {
				a %= b
			}
		}
		stack[n-1] = a
	}
	return stack[0], true
}

// checkFormula is the check of parameters that are formulas.
func checkFormula(text string) error {
	_, err := parseExpr(text)
	return err
}
