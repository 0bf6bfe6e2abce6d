package tiles

import (
	"cmp"
	"fmt"
	"math"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Strategy tilesync
//
// Tilesync runs dependent kernels concurrently and synchronises their tiles
// with semaphores (cuSync, CGO'24).

// Tilesync starts a consumer kernel on finished tiles of its producer while the producer
// still runs (cuSync sections III to V, rules T1, T2, T3, T5 and T6).
//
//	producer |P0 P1 P2 P3 P4|          each tile posts a semaphore of its row
//	consumer |   C0....wait|C0|C1|     waits in its slot until its row is there
var Tilesync = plan.Strategy{
	Name:    "tilesync",
	Plainly: "GEMMs tile by tile",
	From:    "cuSync",
	Saves:   "compute units that are idle in the producer's last wave run the consumer",
	Summary: "dependent GEMMs side by side, tiles waiting for tiles",
	Params: []plan.Param{
		{
			Name: "policy", Default: "row", Choices: []string{"row", "tile", "strided", "conv", "own", "streamk"},
			Doc:      "what a consumer's workgroup waits for; own: the formulas below; streamk: the baseline",
			Measured: []string{"row", "tile", "conv"},
		},
		{
			Name: "posts", Default: "row", Text: checkFormula, For: "policy=own",
			Doc: "own: semaphore that the producer's tile at row, col posts",
		},
		{
			Name: "waits", Default: "row", Text: checkFormula, For: "policy=own",
			Doc: "own: semaphore that a consumer waits for in row before column k of the producer's tiles",
		},
		{Name: "count", Default: "cols*splits", Text: checkFormula, For: "policy=own", Doc: "own: posts that it waits for"},
		{
			Name: "tiles", Default: "row*cols+col", Text: checkFormula, For: "policy=own",
			Doc: "own: place of the producer's tile in the order in which tiles run",
		},
		{
			Name: "waitkernel", Default: "on", Choices: []string{"on", "off"},
			Doc: "hold the consumer back until the producer has started", Measured: []string{"off"},
		},
		{Name: "reorder", Default: "off", Choices: []string{"off", "on"}, Doc: "load the consumer's weights before waiting"},
		{
			Name: "tickets", Default: "off", Choices: []string{"off", "on", "parts"},
			Doc: "draw each tile's number from a counter; parts: those of a tile along K one after another",
		},
		{
			Name: "fuse", Default: "on", Experimental: true, Choices: []string{"on", "off"},
			Doc:      "make elementwise kernels and norms between the GEMMs part of them; off: serve only GEMMs with nothing between",
			Measured: []string{"on"},
		},
		{
			Name: "parts", Default: "captured", Text: checkParts,
			Doc: "parts along K of each GEMM's tiles, in order: 2x1; captured: as captured",
		},
		{
			Name: "splits", Default: "spread", Choices: []string{"spread", "kept"}, For: "policy=streamk",
			Doc: "streamk: GEMMs in parts along K are spread like others, or keep their parts, as with CUTLASS' factor",
		},
		{
			Name: "reset", Default: "off", Choices: []string{"off", "on"},
			Doc: "clear the semaphores before each pair; off: they count on over the iterations", Measured: []string{"on"},
		},
	},
	Inside: true, Rebuilds: true,
	DependsOn: []string{"matmul.lone", "matmul.compiled", "gpu.post", "gpu.poll"},
	Rows:      map[string]string{"policy": "reset=on:waitkernel=off"}, // measured with semaphores cleared and without a wait kernel
	Plan:      planTilesync,
}

func planTilesync(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
	why, policy, served := "", v["policy"], false
	pl.TakeChains(func(p *workload.Pair) bool {
		if p.Direction != workload.ComputeThenCompute {
			return false
		}
		for k := range p.First {
			own, no := unsynchronised(pl, &pl.Workload.Ops[p.First[k]], &pl.Workload.Ops[p.Second[k]], v)
			if no != "" {
				why = no
			}
			if own == "" {
				return false
			}
			served = served || own == policy
		}
		return true
	})
	if !served {
		return nil, cmp.Or(why, noGEMMs(pl.Workload))
	}
	leaveBeside(pl)
	if v["policy"] == "streamk" {
		return func(r *plan.Rank, p *plan.Pair) { streamK(r, p, v) }, ""
	}
	return func(r *plan.Rank, p *plan.Pair) { synchronised(r, p, v) }, ""
}

// unsynchronised is the policy that synchronises two kernels by tile, "" for none, and the
// reason if it is not the selected one.
func unsynchronised(pl *plan.Planner, first, second *workload.Op, v plan.Values) (own, why string) {
	policy := v["policy"]
	t, why := betweenOf(pl.Workload, first, second)
	switch {
	case why != "":
		return "", why
	case len(t.fused) > 0 && v["fuse"] == "off":
		return "", fmt.Sprintf("%s lies between the two GEMMs (fuse=on makes it part of them)", trace.Short(t.fused[0].Name))
	case t.rows != nil && policy != "row" && policy != "streamk":
		return "", fmt.Sprintf("%s lies between the two GEMMs and works on whole rows (policy=row)", trace.Short(t.rows.Name))
	}
	for _, op := range []*workload.Op{first, second} {
		if s, h := op.Shape, int64(op.Tiling.TileM); s.Groups > 1 && h > 0 && s.M%(s.Groups*h) != 0 {
			return "", fmt.Sprintf("the rows of a group of %s are no whole number of its tiles", trace.Short(op.Name))
		}
		if _, ok := plan.CoverOf(op); !ok {
			return "", fmt.Sprintf("the tiles of %s are not known (give them with --dataflow: - {op: NAME, shape: MxNxK, tile: 128x128})",
				workload.FunctionName(op.Name))
		}
	}
	c, _ := plan.CoverOf(first)
	own, _, why = fitting(v, c, first.Shape, second.Shape)
	return own, why
}

// synchronised writes a chain, each kernel on its own stream.
func synchronised(r *plan.Rank, p *plan.Pair, v plan.Values) {
	sides := sides(r, p, v)
	started := synchronisedKernels(r.Planner, sides, v)
	r.BeginPair(p)
	reached := lead(r, &sides[0], v["reset"] == "on")
	for i := range started[1:] {
		if s := &sides[i+1]; v["waitkernel"] == "on" {
			behindStart(r, s, reached, started[i], v["reset"] == "on")
		} else {
			reached = follow(r, s, reached)
		}
	}
	r.EndPair()
}

// A linked is one kernel of a chain and its place in the streams.
type linked struct {
	op     *workload.Op
	built  *workload.Op // op with the tiles of the kernel that replaces it
	on     *plan.Stream
	fills  []int32        // the library's fills before it
	after  []workload.Dep // its dependencies
	within []*workload.Op // operations that the chain replaces, or that run beside it; it does not wait for them
	parts  []*workload.Op // kernels behind it that are part of it: their results are there when it ends
	fuses  fusion         // what they make of its traffic
	kernel *program.Kernel
}

// sides are the kernels of a chain, in order.
func sides(r *plan.Rank, p *plan.Pair, v plan.Values) []linked {
	first, _ := r.Split(p)
	sides := []linked{{op: first, on: r.Stream(first.Queue), fills: p.FillsBefore[r.ID], after: r.Dependencies(p, first)}}
	var within []*workload.Op
	for i, l := range p.Links() {
		_, second := r.Split(l)
		on := r.CommStream(first, second)
		if i > 0 && second.Queue == first.Queue {
			on = r.Added(fmt.Sprintf("kernel %d of a chain on stream %d", i+2, second.Queue))
		}
		a := &sides[i]
		t, _ := betweenOf(r.Planner.Workload, a.op, second)
		a.parts, a.fuses = t.fused, fusionOf(r.Planner.Workload, a.op, second, t)
		var fills []int32
		for _, id := range l.Between[r.ID] {
			if r.Planner.Workload.IsFill(&r.Planner.Workload.Ops[id]) {
				fills = append(fills, id)
			}
		}
		sides = append(sides, linked{op: second, on: on, fills: fills, after: r.Dependencies(l, second)})
		within = append(append(within, r.ReplacedOps(l)...), t.beside...)
	}
	for i := range sides {
		sides[i].within, sides[i].built = within, inParts(r.Planner, sides[i].op, v["parts"], i)
	}
	return sides
}

// lead launches a side when its dependencies have ended. It returns a flag that is posted
// when its stream has reached it and the semaphores are cleared.
func lead(r *plan.Rank, s *linked, reset bool) program.Flag {
	l := r.Planner.Machine.Launch
	gap := r.WaitUntilReady(s.on, s.op, s.after, s.within...) - plan.Duration(l.Gap.Value)
	if reset {
		r.IssueOne(s.on, l.Host.Value, "clear semaphores")
		gap += plan.Duration(l.MemsetGap.Value)
	}
	s.on.Delay(gap, program.LaunchGap, "clear semaphores")
	return start(r, s, plan.Duration(l.Gap.Value))
}

// follow launches a side one event after the previous side's stream has reached that side. In the
// paper's loop of one chain the order of the launches is enough: the streams share no event.
func follow(r *plan.Rank, s *linked, after program.Flag) program.Flag {
	l := r.Planner.Machine.Launch
	gap := l.Gap
	if !r.Planner.OnlyPairs() {
		r.Host.Delay(plan.Duration(l.HostEvent.Value*r.HostPace), program.HostIssue, "event")
		gap = l.Event
	}
	r.WaitUntilReady(s.on, s.op, s.after, s.within...)
	s.on.Wait(after, 1, "event")
	return start(r, s, plan.Duration(gap.Value))
}

// behindStart launches the consumer after a kernel of one thread that waits for the
// producer's first workgroup (rule T1). In the paper's loop of one chain the streams share no
// event, so the wait kernel can start, and hold its slot, long before the producer. In a step, an
// event behind what precedes the producer keeps it from running beside that.
func behindStart(r *plan.Rank, s *linked, reached, started program.Flag, reset bool) {
	l := r.Planner.Machine.Launch
	if reset {
		s.on.Wait(reached, 1, "semaphores cleared")
	} else if !r.Planner.OnlyPairs() {
		s.on.Wait(reached, 1, "event")
	}
	r.WaitUntilReady(s.on, s.op, s.after, s.within...)
	s.on.Launch(plan.Duration(l.Gap.Value), plan.WaitKernel(started, 1, 0))
	r.IssueOne(s.on, l.Host.Value, s.op.Name)
	start(r, s, plan.Duration(l.Gap.Value))
}

// start writes a side's fills and kernel. It returns a flag that is posted when its stream
// has reached them.
func start(r *plan.Rank, s *linked, gap trace.Time) program.Flag {
	next := r.Planner.Program.NewFlag(s.op.Name + " next on its stream")
	s.on.Post(next, 1)
	s.on.Launch(r.WriteFills(s.on, s.fills, gap), plan.LaunchOf(s.op, s.kernel))
	for _, op := range append([]*workload.Op{s.op}, s.parts...) {
		r.Written(s.on, op)
	}
	return next
}

// Waves are how often two dependent kernels fill a GPU, as in cuSync's Tables I, IV and V: the
// unit is a wave, all slots of the GPU.
type Waves struct {
	First    float64 `json:"first"`    // workgroups of the producer, or the tiles of persistent ones, over slots
	Second   float64 `json:"second"`   // those of the consumer
	Apart    float64 `json:"apart"`    // whole waves one after the other
	Together float64 `json:"together"` // side by side; rounded up, the whole waves
}

// WavesOf counts the waves of two kernels; false if their workgroups are unknown.
func WavesOf(m machine.Machine, first, second *workload.Op) (Waves, bool) {
	var n [2]float64
	for i, op := range []*workload.Op{first, second} {
		slots := float64((&cost.Laws{Machine: &m}).Slots(op.Footprint))
		if op.Tiling.WGs <= 0 || slots <= 0 {
			return Waves{}, false
		}
		n[i] = float64(op.Tiling.WGs) / slots
		if op.Tiling.Persistent {
			n[i] = float64(op.Tiling.Tiles) / slots
		}
	}
	return Waves{n[0], n[1], math.Ceil(n[0]) + math.Ceil(n[1]), n[0] + n[1]}, true
}
