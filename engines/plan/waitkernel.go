package plan

import (
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// WaitKernel is one thread that polls a flag until it reaches a count and thereby delays
// its stream. It holds its slot while it waits. nap is the time between polls, and so its
// maximum delay (rule S13).
func WaitKernel(f program.Flag, count int64, nap trace.Time) program.Command {
	return program.Command{Op: program.Launch, Origin: -1, Name: "wait kernel", Kernel: &program.Kernel{
		Name: "wait kernel", Kind: trace.Compute, WGs: 1, Footprint: program.Footprint{Threads: 1},
		Recipe: func(_ int, buf []program.Phase) []program.Phase {
			buf = append(buf, program.Phase{Op: program.WaitFor, Flag: f, Count: count})
			if nap > 0 {
				buf = append(buf, program.Phase{Op: program.Sleep, Time: nap})
			}
			return buf
		},
	}}
}
