package machine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// TestMemoryOfT3 holds the profile's rates of memory to those that a channel of T3's simulator reaches: Accel-Sim
// (gpgpu-sim_distribution, src/gpgpu-sim/dram.cc and gpu-sim.h) with the timings of its SM7_QV100 at 1 GHz, one
// queue of 64 for reads and writes, and T3's longer delay after an update (Table 1, CCDWL). 16 pieces of memory
// are read or written in order, as by the workgroups of a copy, in accesses of 128 bytes.
func TestMemoryOfT3(t *testing.T) {
	m := must.Have(Load("t3"))(t)
	rate := func(writes float64, update bool) float64 { // of the 1 TB/s of Table 1
		var sum float64
		for seed := range uint64(6) {
			sum += channel(writes, update, seed)
		}
		return sum / 6
	}
	g := &m.GPU
	for _, x := range []struct {
		key       string
		got, want float64
	}{
		{"gpu.memory, of a copy", g.Memory.Value / 1e12, rate(0.5, false)},
		{"gpu.read", g.Read.Value / 1e12, rate(0, false)},
		{"gpu.update", g.Update.Value, rate(1, false) / rate(1, true)},
	} {
		if math.Abs(x.got/x.want-1) > 0.02 {
			t.Errorf("%s: %.3f, a channel gives %.3f", x.key, x.got, x.want)
		}
	}
}

// An access is of 32 bytes.
type access struct {
	bank, row int
	write     bool
}

// channel is the share of cycles in which a channel of 16 banks in 4 groups moves bytes.
func channel(writes float64, update bool, seed uint64) float64 {
	const (
		cycles, banks, queue, streams                      = 20000, 16, 64, 16
		rrd, rcd, ras, rp, rc, cl, wl, cdlr, wr, ccd, rtpl = 4, 14, 33, 14, 47, 14, 2, 3, 12, 2, 4
		readToWrite, writeToRead                           = cl + 1 + 2 - wl, wl + 1 + cdlr
	)
	afterWrite := ccd
	if update {
		afterWrite = 2 * ccd
	}
	r := rand.New(rand.NewPCG(seed, 31))
	var at [streams]int
	for i := range at {
		at[i] = r.IntN(1<<16) * 4096
	}
	var burst []access
	next := func() access {
		if len(burst) == 0 {
			w := r.Float64() < writes
			first, n := 0, streams
			if 0 < writes && writes < 1 { // some are read, the others written
				n = int(streams * writes)
				if !w {
					first, n = n, streams-n
				}
			}
			i := first + r.IntN(n)
			for range 4 { // dramid@8 ... RBBBCCCB.CCCSSSSS, less the channel's bits
				burst = append(burst, access{at[i]>>8&1 | at[i]>>12&7<<1, at[i] >> 15, w})
				at[i] += 32
			}
			if at[i]%(1<<15) == 0 {
				at[i] = r.IntN(1<<16) * 4096
			}
		}
		a := burst[0]
		burst = burst[1:]
		return a
	}
	type bank struct {
		waiting                                              []access
		head                                                 *access
		row                                                  int
		active                                               bool
		toRead, toWrite, open, cycle, closed, written, taken int // cycles left of a delay
	}
	var (
		b                                [banks]bank
		column, precharge                [4]int
		activate, turnW, turnR, n, moved int
		first                            int
	)
	for range cycles {
		for range 2 {
			if n < queue {
				a := next()
				b[a.bank].waiting, n = append(b[a.bank].waiting, a), n+1
			}
		}
		for i := range b {
			if x := &b[i]; x.head == nil && len(x.waiting) > 0 { // the row that is open first, then the oldest
				k := max(0, slices.IndexFunc(x.waiting, func(a access) bool { return a.row == x.row }))
				a := x.waiting[k]
				x.head, x.waiting, n = &a, slices.Delete(x.waiting, k, k+1), n-1
			}
		}
		for k := range banks { // a column
			i := (first + k) % banks
			x, group := &b[i], i%4
			if x.head == nil || !x.active || x.row != x.head.row || column[group] > 0 {
				continue
			}
			if !x.head.write && x.toRead == 0 && turnR == 0 {
				column[group], turnW, x.taken, precharge[group] = ccd, readToWrite, 1, rtpl
			} else if x.head.write && x.toWrite == 0 && turnW == 0 {
				column[group], turnR, x.written = afterWrite, writeToRead, wl+1+wr
			} else {
				continue
			}
			x.head, moved = nil, moved+1
			break
		}
		for k := range banks { // and a row
			i := (first + k) % banks
			x, group := &b[i], i%4
			if x.head == nil {
				continue
			}
			if !x.active && activate == 0 && x.closed == 0 && x.cycle == 0 {
				x.row, x.active, activate = x.head.row, true, rrd
				x.toRead, x.toWrite, x.open, x.cycle = rcd, rcd-wl-1, ras, rc
			} else if x.active && x.row != x.head.row && x.open+x.written+x.taken+precharge[group] == 0 {
				x.active, x.closed = false, rp
			} else {
				continue
			}
			first = (i + 1) % banks
			break
		}
		left := []*int{&activate, &turnW, &turnR}
		for g := range 4 {
			left = append(left, &column[g], &precharge[g])
		}
		for i := range b {
			x := &b[i]
			left = append(left, &x.toRead, &x.toWrite, &x.open, &x.cycle, &x.closed, &x.written, &x.taken)
		}
		for _, c := range left {
			*c = max(0, *c-1)
		}
	}
	return float64(moved) / cycles
}
