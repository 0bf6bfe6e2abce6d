package program

import (
	"cmp"
	"hash/maphash"

	"github.com/overlapse/overlapse/trace"
)

var digestSeed = maphash.MakeSeed()

// Digest is equal for programs of which a simulation of kernels is equal, and differs for others but for one in
// 2^64: it is of every command, and of the phases of every tile, which it generates, with flags numbered by their first use.
// It holds in this process.
func (p *Program) Digest() uint64 {
	d := digest{flags: map[Flag]int32{NoFlag: 0}}
	d.hash.SetSeed(digestSeed)
	add(&d, p.Arbiter)
	add(&d, p.Equal == nil)
	for i := range p.GPUs {
		streams := p.GPUs[i].Streams
		add(&d, len(streams))
		for j := range streams {
			d.stream(&streams[j])
		}
	}
	return d.hash.Sum64()
}

type digest struct {
	hash  maphash.Hash
	flags map[Flag]int32 // numbers by first use
	tile  []Phase
}

func add[T comparable](d *digest, x T) { maphash.WriteComparable(&d.hash, x) }

func (d *digest) flag(f Flag) int32 { return trace.Number(d.flags, f) }

func (d *digest) stream(s *Stream) {
	add(d, s.Name)
	add(d, [...]int64{s.Queue, int64(s.Priority), int64(len(s.Commands))})
	add(d, s.Host)
	for i := range s.Commands {
		c := s.Commands[i]
		copied, kernel := c.Copy, c.Kernel
		c.Flag, c.Copy, c.Kernel = Flag(d.flag(c.Flag)), nil, nil
		add(d, c)
		if copied != nil {
			add(d, *copied)
		}
		if kernel != nil {
			d.kernel(kernel)
		}
	}
}

func (d *digest) kernel(k *Kernel) {
	add(d, k.Name)
	add(d, [...]int{int(k.Kind), k.WGs, k.Tiles, k.Owned, k.Alike, k.Cluster})
	add(d, [...]bool{k.Free, k.Matrix, k.Channels, k.Merged, k.Recipe == nil, k.Prologue == nil, k.Epilogue == nil, k.Comm == nil})
	add(d, [...]float64{k.Onset, k.Fed, k.CommShare, k.Pipe, k.Lag})
	add(d, k.Footprint)
	add(d, k.Attr)
	add(d, k.Setup)
	if k.Comm != nil {
		add(d, *k.Comm)
	}
	if k.Recipe == nil {
		d.phases(k.Each)
	}
	for t := 0; t < cmp.Or(k.Tiles, k.WGs) && k.Recipe != nil; t++ {
		d.tile = k.Recipe(t, d.tile[:0])
		d.phases(d.tile)
	}
	for _, edge := range [...]func(int, []Phase) []Phase{k.Prologue, k.Epilogue} {
		for w := 0; w < k.WGs && edge != nil; w++ {
			d.tile = edge(w, d.tile[:0])
			d.phases(d.tile)
		}
	}
}

func (d *digest) phases(list []Phase) {
	add(d, len(list))
	for i := range list {
		p := list[i]
		p.Flag = Flag(d.flag(p.Flag))
		add(d, p)
	}
}
