package perfetto

import (
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// Clocks of Perfetto that all processes share. Times of events become boot
// time, in which traces are unless a packet says otherwise.
const (
	bootTime       = 6
	firstOwn       = 64 // clocks from here on belong to a sequence
	maxNanoseconds = trace.MaxTime
)

// A clock counts from its own zero in its own unit.
type clock struct {
	incremental bool // values are differences from the value before
	unit        int64
	last        int64 // value of an incremental clock
	offset      int64 // nanoseconds from its zero to that of boot time
}

// A clockID is a clock; sequence is 0 for those that all share.
type clockID struct {
	sequence uint64
	clock    uint64
}

type clocks map[clockID]*clock

func idOf(sequence, number uint64) clockID {
	if number < firstOwn {
		sequence = 0
	}
	return clockID{sequence, number}
}

// snapshot takes in readings of several clocks at one moment.
func (c clocks) snapshot(sequence uint64, message []byte) {
	type reading struct {
		clock
		id    clockID
		value int64
	}
	var all []reading
	boot, hasBoot := int64(0), false
	for f := (lex.Field{Rest: message}); f.Next(); {
		if f.ID != 1 {
			continue
		}
		var r reading
		unit := uint64(1)
		lex.Fields{
			1: func(f lex.Field) { r.id = idOf(sequence, f.Number) },
			2: func(f lex.Field) { r.value = int64(min(f.Number, maxNanoseconds)) },
			3: &r.incremental, 4: &unit,
		}.Read(f.Bytes)
		r.unit = int64(max(1, min(unit, 1e9)))
		if r.id.clock == bootTime {
			boot, hasBoot = r.value, true
		}
		all = append(all, r)
	}
	for _, r := range all {
		if hasBoot {
			r.offset = boot - clamp(r.value, r.unit)
		}
		r.last = r.value
		c[r.id] = &r.clock
	}
}

// boot is the boot time, in nanoseconds, of a reading; ok is false for one that
// no clock can have.
func (c clocks) boot(sequence, number, value uint64) (ns int64, ok bool) {
	if value > maxNanoseconds {
		return 0, false
	}
	k := c[idOf(sequence, number)]
	if k == nil {
		return int64(value), true
	}
	v := int64(value)
	if k.incremental {
		if v += k.last; v > maxNanoseconds {
			return 0, false
		}
		k.last = v
	}
	ns = clamp(v, k.unit) + k.offset
	return ns, ns >= 0 && ns <= maxNanoseconds
}

// clamp multiplies without overflow.
func clamp(v, unit int64) int64 {
	if v > maxNanoseconds/unit {
		return maxNanoseconds
	}
	return v * unit
}
