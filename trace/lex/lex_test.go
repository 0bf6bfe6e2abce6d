package lex

import (
	"bytes"
	"encoding/json"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// strict converts the lexer's extensions to JSON: NaN, infinities and bare words become
// 0; commas before a closing bracket and raw control characters in strings are removed.
func strict(b []byte) []byte {
	var out []byte
	for i := 0; i < len(b); {
		switch c := b[i]; c {
		case '"':
			j := max(skipString(b, i), i+1)
			for _, c := range b[i:j] {
				if c < ' ' {
					c = ' '
				}
				out = append(out, c)
			}
			i = j
		case ',':
			j := SkipSpace(b, i+1)
			if j >= len(b) || b[j] != ']' && b[j] != '}' {
				out = append(out, c)
			}
			i++
		default:
			rest := append(b[i:len(b):len(b)], ' ')
			if j := max(skipNotFinite(rest, 0), skipBare(rest, 0)); j > 0 {
				out = append(out, '0')
				i += j
				continue
			}
			out = append(out, c)
			i++
		}
	}
	return out
}

// FuzzLex: the lexer accepts everything that encoding/json accepts, and beyond that
// only the extensions that strict converts.
func FuzzLex(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-2.5e+3,true,false,null,"x\u00e9\n"],"b":{}}`, `[NaN,Infinity,-inf,nan,]`, `{"a":1,}`, `[,]`, `{"a" 1}`, `[0x1F,ncclFloat32]`, `0x`, `nccl`, `00x1`, `ncc`, `"\ud800"`,
		`01`, `1.`, `-`, `1e`, `"\x"`, "\"\x01\"", `[[[[]]]]`, `{"":""}`, `nul`, `infin`, `"\u12g4"`, ` 1 `, `{"a":1 "b":2}`, `[1 2]`, "\"\xff\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := append(bytes.Clone(b), '\n') // a number at the very end could continue
		j := SkipValue(in, SkipSpace(in, 0), 0)
		whole := j >= 0 && SkipSpace(in, j) == len(in)
		if j >= 0 && j > len(in) || j < Short && (BadAt(j) < 0 || BadAt(j) >= len(in)) {
			t.Fatalf("position %d of %d bytes", j, len(in))
		}
		switch valid := json.Valid(in); {
		case valid && !whole:
			t.Fatalf("valid JSON is refused with %d: %q", j, b)
		case whole && !valid && !json.Valid(strict(in)):
			t.Fatalf("taken, but no JSON even so: %q, as %q", b, strict(in))
		}
	})
}

func TestMicros(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"1", 1000, true},
		{"1.5", 1500, true},
		{"1706850123148546", 1706850123148546000, true},
		{"4318151435072.280", 4318151435072280, true},
		{"4318151435072.2799", 4318151435072280, true}, // passed through a float
		{"0.0004", 0, true},
		{"0.0005", 1, true},
		{"-0.001", -1, true},
		{"-12.5", -12500, true},
		{`"773902396463"`, 773902396463000, true},
		{"1e3", 1000000, true},
		{"1.5E-3", 2, true},
		{"1E-400", 0, true},
		{"9223372036854775.807", 9223372036854775807, true},
		{"-9223372036854775.808", -9223372036854775808, true},
		{"9223372036854775.808", 0, false},
		{"9223372036854775807", 0, false},
		{"1e400", 0, false},
		{"NaN", 0, false},
		{"Infinity", 0, false},
		{`""`, 0, false},
		{`"1.2.3"`, 0, false},
		{"null", 0, false},
		{"", 0, false},
		{"[1]", 0, false},
	} {
		got, ok := Micros([]byte(c.in))
		if ok != c.ok || ok && got != c.want {
			t.Errorf("micros(%s) = %d, %v; want %d, %v", c.in, got, ok, c.want, c.ok)
		}
	}
}

// TestDecimalAgainstRationals compares with exact arithmetic, rounding half away from zero.
func TestDecimalAgainstRationals(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,24})?([eE][+-]?[0-9]{1,2})?`).Draw(t, "number")
		x, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatal(s)
		}
		x.Mul(x, big.NewRat(1000, 1))
		half := big.NewRat(1, 2)
		negative := x.Sign() < 0
		n := new(big.Rat).Add(x.Abs(x), half)
		want := new(big.Int).Quo(n.Num(), n.Denom())
		if negative {
			want.Neg(want)
		}
		got, ok := Micros([]byte(s))
		if ok != want.IsInt64() || ok && got != want.Int64() {
			t.Fatalf("micros(%s) = %d, %v; want %v", s, got, ok, want)
		}
	})
}
