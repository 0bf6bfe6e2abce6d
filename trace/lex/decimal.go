package lex

import (
	"bytes"
	"math"
	"math/big"
	"regexp"
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
	const most = 18 // digits that fit
	digits, after, up := 0, -1, false
	for i, c := range b {
		switch {
		case c == '-' && i == 0:
		case c == '.' && after < 0:
			after = 0
		case !IsDigit(c) || digits == most:
			return rational(b, scale)
		case after >= scale:
			if after == scale {
				up = c >= '5'
			}
			digits, after = digits+1, after+1
		default:
			if n, digits = 10*n+int64(c-'0'), digits+1; after >= 0 {
				after++
			}
		}
	}
	for after = max(after, 0); after < scale; after++ {
		if n > math.MaxInt64/10 {
			return rational(b, scale)
		}
		n *= 10
	}
	if up {
		n++
	}
	if digits > 0 && b[0] == '-' {
		n = -n
	}
	return n, digits > 0
}

var exponential = regexp.MustCompile(`^-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?(\d+))?$`)

// rational is decimal of many digits, or with an exponent.
func rational(b []byte, scale int) (n int64, ok bool) {
	const most = 3 // digits of an exponent: beyond them a number is 0 or too large, and must not take memory
	m := exponential.FindSubmatchIndex(b)
	if m == nil {
		return 0, false
	}
	if m[2] >= 0 && len(bytes.TrimLeft(b[m[2]:], "0")) > most {
		b = append(b[:m[2]:m[2]], "999"...)
	}
	x, ok := new(big.Rat).SetString(string(b))
	if !ok {
		return 0, false
	}
	x.Mul(x, new(big.Rat).SetInt64(int64(math.Pow10(scale))))
	half := big.NewRat(int64(x.Sign()), 2) // rounds away from zero
	rounded := new(big.Int).Quo(x.Add(x, half).Num(), x.Denom())
	return rounded.Int64(), rounded.IsInt64()
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
