package engines_test

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/program"
)

// hashOf is a hash of a program's dump.
func hashOf(p *program.Program) []byte {
	sum := sha256.New()
	w := bufio.NewWriterSize(sum, 1<<16)
	dumpProgram(w, p)
	if err := w.Flush(); err != nil { // a hash takes all
		panic(err)
	}
	return sum.Sum(nil)
}

// dumpProgram writes a program as text that is equal for equal programs: every command of every stream, and the
// phases of up to dumped workgroups or tiles of every kernel, the first and the last among them. Flags have
// the numbers of their order of appearance.
func dumpProgram(w io.Writer, p *program.Program) {
	d := dump{w: w, flags: map[program.Flag]int{program.NoFlag: 0}}
	fmt.Fprintf(w, "arbiter %+v\n", p.Arbiter)
	for rank, gpu := range p.GPUs {
		streams := slices.Clone(gpu.Streams)
		slices.SortStableFunc(streams, func(a, b program.Stream) int {
			return cmp.Or(cmp.Compare(a.Queue, b.Queue), strings.Compare(a.Name, b.Name))
		})
		for _, s := range streams {
			fmt.Fprintf(w, "gpu %d stream %d %q priority %d host %v\n", rank, s.Queue, s.Name, s.Priority, s.Host)
			for i := range s.Commands {
				d.command(&s.Commands[i])
			}
		}
	}
}

const dumped = 16

type dump struct {
	w     io.Writer
	flags map[program.Flag]int
	buf   []program.Phase
}

// flag is the number of a flag by order of appearance.
func (d *dump) flag(f program.Flag) int {
	if _, ok := d.flags[f]; !ok {
		d.flags[f] = len(d.flags)
	}
	return d.flags[f]
}

func (d *dump) command(c *program.Command) {
	fmt.Fprintf(d.w, " op %d flag %d count %d delay %d %q origin %d why %s\n", c.Op, d.flag(c.Flag), c.Count, c.Delay, c.Name, c.Origin, c.Why)
	if c.Copy != nil {
		fmt.Fprintf(d.w, "  copy %+v\n", *c.Copy)
	}
	if c.Kernel != nil {
		d.kernel(c.Kernel)
	}
}

func (d *dump) kernel(k *program.Kernel) {
	x := *k
	x.Recipe, x.Prologue, x.Epilogue, x.Peer, x.Comm, x.Each = nil, nil, nil, nil, nil, nil
	fmt.Fprintf(d.w, "  kernel %+v\n", x)
	if k.Comm != nil {
		fmt.Fprintf(d.w, "  comm %+v\n", *k.Comm)
	}
	if k.Recipe == nil {
		fmt.Fprintf(d.w, "   each %v\n", k.Each)
	} else {
		d.phases("tile", max(k.Tiles, k.WGs), k.Recipe)
	}
	if k.Prologue != nil {
		d.phases("before", k.WGs, k.Prologue)
	}
	if k.Epilogue != nil {
		d.phases("after", k.WGs, k.Epilogue)
	}
}

// phases writes the phases of some of n workgroups or tiles.
func (d *dump) phases(what string, n int, of func(int, []program.Phase) []program.Phase) {
	for i := range min(n, dumped) {
		tile := i * (n - 1) / max(1, min(n, dumped)-1)
		for _, p := range of(tile, d.buf[:0]) {
			p.Flag = program.Flag(d.flag(p.Flag))
			fmt.Fprintf(d.w, "   %s %d %v\n", what, tile, p)
		}
	}
}
