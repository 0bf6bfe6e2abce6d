package cli

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A value is that of a flag which is checked when it is set.
type value struct {
	kind string
	text func() string
	set  func(string) error
}

// String implements pflag.Value.
func (v *value) String() string { return v.text() }

// Type implements pflag.Value.
func (v *value) Type() string { return v.kind }

// Set implements pflag.Value.
func (v *value) Set(s string) error { return v.set(s) }

// ChoiceFlag adds a flag whose value is one of the words, and completes it.
func ChoiceFlag(c *cobra.Command, to *string, name, initial, usage string, words ...string) {
	*to = initial
	c.Flags().Var(&value{"string", func() string { return *to }, func(s string) error {
		*to = s
		return choice(name, s, words...)
	}}, name, usage)
	_ = c.RegisterFlagCompletionFunc(name, OneOf(words...)) // fails only for a missing flag
}

// A Range is the least and the largest value of a flag.
type Range[T int | int64] struct{ Least, Most T }

// IntFlag adds a flag whose value is a whole number in a range.
func IntFlag[T int | int64](f *pflag.FlagSet, to *T, name string, initial T, in Range[T], usage string) {
	*to = initial
	f.Var(&value{"int", func() string { return strconv.FormatInt(int64(*to), 10) }, func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < int64(in.Least) || n > int64(in.Most) {
			return Errorf("--%s %s: give a whole number from %d to %d", name, s, in.Least, in.Most)
		}
		*to = T(n)
		return nil
	}}, name, usage)
}

// FractionFlag adds a flag whose value is a finite number, or one of percent: 0.03 or 3%.
func FractionFlag(f *pflag.FlagSet, to *float64, name string, initial float64, usage string) {
	*to = initial
	f.Var(&value{"float", func() string { return strconv.FormatFloat(*to, 'g', -1, 64) }, func(s string) error {
		number, percent := strings.CutSuffix(s, "%")
		x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if percent {
			x /= 100
		}
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return Errorf("--%s %s: give a number, such as 0.1 or 10%%", name, s)
		}
		*to = x
		return nil
	}}, name, usage)
}

// DurationFlag adds a flag whose value is a time that is not negative: 60s or 2m. Without it, it is 0.
func DurationFlag(f *pflag.FlagSet, to *time.Duration, name, usage string) {
	f.Var(&value{"duration", func() string { return to.String() }, func(s string) (err error) {
		if *to, err = time.ParseDuration(s); err != nil || *to < 0 {
			return Errorf("--%s %s: give a time, such as 60s or 2m", name, s)
		}
		return nil
	}}, name, usage)
}
