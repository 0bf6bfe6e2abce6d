package plan

import (
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
)

// WaitKernel is one thread that spins until a flag has reached a count, and
// holds back what its stream has behind it. It may be there, in its slot, long
// before. nap is how long it sleeps between looks: that late it sees the count (rule S13).
func WaitKernel(f replay.Flag, count int64, nap trace.Time) replay.Command {
	return replay.Command{Op: replay.Launch, Origin: -1, Name: "wait kernel", Kernel: &replay.Kernel{
		Name: "wait kernel", Kind: trace.Compute, WGs: 1, Footprint: replay.Footprint{Threads: 1},
		Recipe: func(_ int, buf []replay.Phase) []replay.Phase {
			buf = append(buf, replay.Phase{Op: replay.WaitFor, Flag: f, Count: count})
			if nap > 0 {
				buf = append(buf, replay.Phase{Op: replay.Sleep, Time: nap})
			}
			return buf
		},
	}}
}
