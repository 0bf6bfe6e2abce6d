package lex

import (
	"math"
	"strconv"

	"github.com/overlapse/overlapse/trace"
)

// Micros reads a decimal number of microseconds as nanoseconds. It is exact with at
// most three decimals; further decimals are rounded to nearest. (Files that passed
// through a float have 4318151435072.2799.) The text may be quoted. ok is false for
// anything but a number whose nanoseconds fit int64.
func Micros(b []byte) (ns int64, ok bool) { return decimal(Unquote(b), 3) }

// integer reads a decimal integer, quoted or not.
func Integer(b []byte) (n int64, ok bool) { return decimal(Unquote(b), 0) }

// Trailing reads the number at the end of a text: "Agent 4".
func Trailing(s string) (n int64, ok bool) {
	i := len(s)
	for i > 0 && IsDigit(s[i-1]) {
		i--
	}
	return Integer([]byte(s[i:]))
}

// decimal reads the number b times ten to the power of scale.
func decimal(b []byte, scale int) (n int64, ok bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	var m uint64     // the first 19 significant digits
	kept := 0        // number of digits in m
	roundUp := false // the first digit after m is 5 or more
	digits, after := 0, 0
	point := false
	i := 0
	for ; i < len(b); i++ {
		c := b[i]
		if c == '.' && !point {
			point = true
			continue
		}
		if !IsDigit(c) {
			break
		}
		digits++
		if kept < 19 {
			m = 10*m + uint64(c-'0')
			if m > 0 {
				kept++
			}
			if point {
				after++
			}
			continue
		}
		if kept == 19 {
			roundUp = c >= '5'
			kept++
		}
		if !point {
			after--
		}
	}
	if digits == 0 {
		return 0, false
	}
	exp := scale - after
	if i < len(b) {
		e, ok := exponent(b[i:])
		if !ok {
			return 0, false
		}
		exp += e
	}
	if m == 0 {
		return 0, true
	}
	if exp == 0 && roundUp {
		m++
	}
	for ; exp > 0; exp-- {
		if m > math.MaxUint64/10 {
			return 0, false
		}
		m *= 10
	}
	if exp < -19 {
		return 0, true
	}
	for ; exp < -1; exp++ {
		m /= 10
	}
	if exp == -1 {
		m = m/10 + m%10/5
	}
	if negative {
		return int64(-m), m <= -math.MinInt64
	}
	return int64(m), m <= math.MaxInt64
}

// exponent reads e5, E+5 and e-5.
func exponent(b []byte) (e int, ok bool) {
	if b[0] != 'e' && b[0] != 'E' {
		return 0, false
	}
	b = b[1:]
	sign := 1
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		if b[0] == '-' {
			sign = -1
		}
		b = b[1:]
	}
	for _, c := range b {
		if !IsDigit(c) {
			return 0, false
		}
		e = min(10*e+int(c-'0'), 1000) // beyond 1000, every number is 0 or too large
	}
	return sign * e, len(b) > 0
}

// AppendMicros writes nanoseconds as microseconds with three decimals.
func AppendMicros(b []byte, t trace.Time) []byte {
	u := uint64(t)
	if t < 0 {
		b = append(b, '-')
		u = -u
	}
	b = strconv.AppendUint(b, u/1000, 10)
	return append(b, '.', byte('0'+u/100%10), byte('0'+u/10%10), byte('0'+u%10))
}
