package replay

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// One GPU computes 100, stores 4000 bytes through an egress of 100 a
// nanosecond, posts over a latency of 10 to the other, whose stream waits, has
// a gap of 6, and gathers 80,000 bytes at the memory's full 1000 a nanosecond.
func TestWhatIf(t *testing.T) {
	p := &program.Program{}
	f := p.NewFlag("there")
	b := kernel("gather", 1, []program.Phase{{Op: program.Work, Time: 80, Read: 80_000}})
	b.Delay = 6
	p.GPUs = []program.GPU{
		{Streams: []program.Stream{{Commands: []program.Command{
			kernel("A", 1, []program.Phase{{Op: program.Work, Time: 100}, {Op: program.Store, Peer: 1, Bytes: 4000, Time: 30}, {Op: program.PostTo, Flag: f, Count: 1}}),
		}}}},
		{Streams: []program.Stream{{Commands: []program.Command{
			{Op: program.Wait, Flag: f, Count: 1},
			{Op: program.Delay, Delay: 4, Why: program.HostIssue},
			{Op: program.Delay, Delay: 5, Why: program.PeerSkew},
			b,
		}}}},
	}
	m := small(2, 1)
	m.Fabric.Latency = q(10e-9)
	m.Engines = machine.Engines{Count: q(1)}
	for _, c := range []struct {
		name string
		x    program.WhatIf
		want program.Time
	}{
		{"as it is", program.WhatIf{}, 100 + 40 + 10 + 4 + 5 + 6 + 80},
		{"links", program.WhatIf{Links: 2}, 100 + 20 + 10 + 4 + 5 + 6 + 80},
		{"memory", program.WhatIf{Memory: 2}, 100 + 40 + 10 + 4 + 5 + 6 + 40},
		{"compute", program.WhatIf{Compute: 2}, 50 + 40 + 10 + 4 + 5 + 6 + 80},
		{"launches", program.WhatIf{Launches: true}, 100 + 40 + 10 + 5 + 80},
		{"latency", program.WhatIf{Latency: true}, 100 + 40 + 4 + 6 + 80},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, p := c.x.Of(m, p)
			if got := mustSimulate(t, m, p, Options{}).Makespan; got != c.want {
				t.Errorf("takes %d, want %d", got, c.want)
			}
		})
	}
	if got := mustSimulate(t, m, p, Options{}).Makespan; got != 245 {
		t.Errorf("afterwards the program takes %d, want 245", got)
	}
}

// TestWhatIfNothing checks that the zero WhatIf is the identity for any program
// on any machine: everything that a result holds stays the same.
func TestWhatIfNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		m := drawMachine(t, len(p.GPUs))
		want, wantErr := Simulate(m, p, Options{Level: Phases, Causes: true})
		m, p = program.WhatIf{}.Of(m, p)
		got, err := Simulate(m, p, Options{Level: Phases, Causes: true})
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, without the WhatIf %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if d := cmp.Diff(want.Run.Spans, got.Run.Spans); d != "" {
			t.Errorf("spans differ:\n%s", d)
		}
		want.Run, got.Run = nil, nil
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("results differ:\n%s", d)
		}
	})
}
