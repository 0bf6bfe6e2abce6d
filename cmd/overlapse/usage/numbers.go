package usage

import (
	"math"
	"strconv"

	"github.com/spf13/pflag"
)

// MaxRows is the largest number of rows, columns or pixels that a flag may ask for.
const MaxRows = 100_000

// A Range is the least and the largest value of a flag.
type Range[T int | int64] struct{ Least, Most T }

// IntFlag adds a flag whose value is a whole number in a range.
func IntFlag[T int | int64](f *pflag.FlagSet, to *T, name string, initial T, in Range[T], usage string) {
	*to = initial
	f.Var(&intValue[T]{to, name, in}, name, usage)
}

// intValue is the value of an IntFlag.
type intValue[T int | int64] struct {
	at   *T
	flag string
	in   Range[T]
}

// String implements pflag.Value.
func (v *intValue[T]) String() string { return strconv.FormatInt(int64(*v.at), 10) }

// Type implements pflag.Value.
func (v *intValue[T]) Type() string { return "int" }

// Set implements pflag.Value.
func (v *intValue[T]) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < int64(v.in.Least) || n > int64(v.in.Most) {
		return Errorf("--%s %s: give a whole number from %d to %d", v.flag, s, v.in.Least, v.in.Most)
	}
	*v.at = T(n)
	return nil
}

// FractionFlag adds a flag whose value is a finite number.
func FractionFlag(f *pflag.FlagSet, to *float64, name string, initial float64, usage string) {
	*to = initial
	f.Var(&fractionValue{to, name}, name, usage)
}

// fractionValue is the value of a FractionFlag.
type fractionValue struct {
	at   *float64
	flag string
}

// String implements pflag.Value.
func (v *fractionValue) String() string { return strconv.FormatFloat(*v.at, 'g', -1, 64) }

// Type implements pflag.Value.
func (v *fractionValue) Type() string { return "float" }

// Set implements pflag.Value.
func (v *fractionValue) Set(s string) error {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return Errorf("--%s %s: give a number, such as 0.1 for 10 %%", v.flag, s)
	}
	*v.at = x
	return nil
}
