package calibrate

import (
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
)

// recordedID marks rows that stand for what a base profile has in its tables.
const recordedID = "recorded"

// recorded are the base profile's own tables as rows, as far as the new rows do
// not measure the same thing: a few benchmarks more on a machine narrow its
// profile instead of replacing it. None where no new row is of that machine.
func recorded(m *machine.Machine, rows []Row) []Row {
	same := false
	type product struct{ m, n, k int64 }
	type collective struct {
		op              string
		ranks, channels int
		bytes           int64
	}
	products, collectives := map[product]bool{}, map[collective]bool{}
	for i := range rows {
		r := &rows[i]
		w := &r.Workload
		same = same || len(profile.Readings(r.Machine, []string{m.Profile})) > 0
		switch {
		case r.Strategy != "isolated":
		case w.Kind == "gemm" && r.Params.Cool:
			products[product{w.M, w.N, w.K}] = true
		case w.Kind == "collective":
			n := int(channelsOf(&m.Library, r))
			collectives[collective{w.Op().String(), r.World, n, w.Bytes}] = true
		}
	}
	if !same {
		return nil
	}
	var out []Row
	add := func(world int, w Workload, p Params, seconds float64) {
		p.Kernel = true
		out = append(out, Row{ID: recordedID, Machine: m.Name, World: world, Workload: w, Strategy: "isolated", Params: p, Us: seconds * 1e6})
	}
	for _, s := range m.Matmul.Shapes.Rows {
		if p := (product{int64(s[0]), int64(s[1]), int64(s[2])}); !products[p] {
			add(1, Workload{Kind: "gemm", M: p.m, N: p.n, K: p.k}, Params{Cool: true}, s[3])
		}
	}
	for _, op := range profile.RecordedOps {
		c := m.Library.Of(op)
		for _, s := range c.Times.Rows {
			if k := (collective{op.String(), int(s[0]), int(s[1]), int64(s[2])}); !collectives[k] {
				p := Params{Queued: true, Channels: k.channels}
				if s[1] == c.Channels.Value {
					p.Channels = 0
				}
				add(k.ranks, Workload{Kind: "collective", Collective: k.op, Bytes: k.bytes}, p, s[3])
			}
		}
	}
	return out
}

// fresh reports whether any of the rows was measured anew.
func fresh(rows []Row) bool {
	for i := range rows {
		if rows[i].ID != recordedID {
			return true
		}
	}
	return false
}
