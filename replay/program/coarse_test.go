package program

import (
	"runtime"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// streams returns two streams that share a GPU:
//
//	stream 7  |A post 1|B      |wait 2|C
//	stream 20 |wait 1  |D post 2|
func streams() *Program {
	p := &Program{}
	one, two := p.NewFlag("1"), p.NewFlag("2")
	kernel := func(name string, kind trace.Kind) Command {
		k := &Kernel{Name: name, Kind: kind, WGs: 8, Recipe: func(_ int, buf []Phase) []Phase { return append(buf, Phase{Op: Work, Time: 10}) }}
		if kind == trace.Compute {
			k.Solo = Phase{Op: Work, Time: 10, Read: 80}
		}
		return Command{Kernel: k, Name: name, Origin: -1}
	}
	post := func(f Flag) Command { return Command{Op: Post, Flag: f, Count: 1, Origin: -1} }
	wait := func(f Flag) Command { return Command{Op: Wait, Flag: f, Count: 1, Origin: -1} }
	p.GPUs = []GPU{{Streams: []Stream{
		{Queue: 7, Commands: []Command{kernel("A", trace.Compute), post(one), kernel("B", trace.Compute), wait(two), kernel("C", trace.Compute)}},
		{Queue: 20, Commands: []Command{wait(one), kernel("D", trace.Collective), post(two)}},
	}}}
	return p
}

// Only kernels that nothing can run alongside become one phase.
func TestCoarse(t *testing.T) {
	of := func(p *Program) (free string) {
		for _, s := range p.GPUs[0].Streams {
			for _, c := range s.Commands {
				if c.Kernel == nil {
					continue
				}
				if c.Kernel.Free {
					free += c.Name
					if x := c.Kernel.Phases(0, nil); len(x) != 1 || x[0].Time != 10 || x[0].Read != 80 {
						t.Errorf("%s: %v", c.Name, x)
					}
				}
			}
		}
		return free
	}
	p := streams()
	if got := of(p.Coarse(all, nil, nil)); got != "AC" {
		t.Errorf("alone: %q, want A and C", got)
	}
	if got := of(p); got != "" {
		t.Errorf("the program itself has changed: %q", got)
	}
	p = streams() // D no longer waits for A
	p.GPUs[0].Streams[1].Commands = p.GPUs[0].Streams[1].Commands[1:]
	if got := of(p.Coarse(all, nil, nil)); got != "C" {
		t.Errorf("D waits for nothing; alone: %q, want C", got)
	}
	p = streams() // C waits for nothing
	p.GPUs[0].Streams[0].Commands[3].Flag = NoFlag
	if got := of(p.Coarse(all, nil, nil)); got != "A" {
		t.Errorf("C waits for nothing; alone: %q, want A", got)
	}
	p = streams() // two streams post the flag
	p.GPUs[0].Streams[1].Commands = append(p.GPUs[0].Streams[1].Commands, Command{Op: Post, Flag: 1, Count: 1})
	if got := of(p.Coarse(all, nil, nil)); got != "C" {
		t.Errorf("two streams post; alone: %q, want C", got)
	}
	p = streams() // a deadlock
	c := p.GPUs[0].Streams[0].Commands
	p.GPUs[0].Streams[0].Commands = []Command{c[3], c[0], c[1]}
	if got := of(p.Coarse(all, nil, nil)); got != "" {
		t.Errorf("streams wait for each other; alone: %q", got)
	}
}

// Memory does not follow commands times streams: a GPU with very many of both stays as it is.
func TestCoarseBoundsMemory(t *testing.T) {
	p := streams()
	one := p.GPUs[0].Streams[0].Commands[:2]
	for q := range int64(6000) {
		p.GPUs[0].Streams = append(p.GPUs[0].Streams, Stream{Queue: 100 + q, Commands: one})
	}
	p.GPUs = append(p.GPUs, streams().GPUs...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := p.Coarse(all, nil, nil)
	runtime.ReadMemStats(&after)
	if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 8 {
		t.Errorf("%d MiB for 6000 streams of one kernel", mib)
	}
	if &c.GPUs[0].Streams[0] != &p.GPUs[0].Streams[0] || &c.GPUs[1].Streams[0] == &p.GPUs[1].Streams[0] {
		t.Error("want the first GPU as it is and the second one coarse")
	}
}

func all(int) bool { return true }
