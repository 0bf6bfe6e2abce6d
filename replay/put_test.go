package replay

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// Puts that a copy engine moves take it one after the other, with copies; those
// of stores or a NIC go side by side.
func TestPutsTakeEngines(t *testing.T) {
	puts := func(dma bool) []program.Phase {
		return []program.Phase{
			{Op: program.Put, Peer: 1, Bytes: 1000, Time: 20, DMA: dma},
			{Op: program.Put, Peer: 2, Bytes: 1000, Time: 20, DMA: dma},
		}
	}
	for _, c := range []struct {
		name    string
		engines float64
		dma     bool
		copies  bool
		want    program.Time
	}{
		{"stores", 1, false, false, 20},
		{"one engine", 1, true, false, 40},
		{"an engine each", 2, true, false, 20},
		{"behind a copy", 1, true, true, 60},
		{"as many engines as are asked for", 0, true, true, 20},
	} {
		m := small(3, 1)
		m.Engines = machine.Engines{Count: q(c.engines)}
		streams := []program.Stream{{Commands: []program.Command{kernel("K", 1, puts(c.dma))}}}
		if c.copies {
			first := program.Command{Op: program.Start, Copy: &program.Copy{Name: "copy", From: 0, Peer: 0, Bytes: 1000, Time: 20}}
			streams = append([]program.Stream{{Commands: []program.Command{first}}}, streams...)
		}
		r := mustSimulate(t, m, prog(streams, nil, nil), Options{Causes: true})
		if r.Makespan != c.want {
			t.Errorf("%s: takes %d ns, want %d", c.name, r.Makespan, c.want)
		}
		moved := 0.0
		for _, x := range r.Traffic {
			if x.Resource == dma && x.Name == "K" {
				moved += x.Bytes
			}
		}
		if want := map[bool]float64{true: 2000}[c.dma]; moved != want {
			t.Errorf("%s: engines move %.0f bytes of puts, want %.0f", c.name, moved, want)
		}
	}
}
