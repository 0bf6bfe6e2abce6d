package schedule

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// delayed is a rank whose host is far ahead: n kernels of 10 us on queue 7 with nothing on other queues, then n
// while a collective of queue 20 waits, then n while one of queue 21 does; gaps in ns.
func delayed(n int, free, behind20, behind21 trace.Time) *workload.Workload {
	kernel := &workload.Kernel{Name: "k"}
	w := &workload.Workload{World: 1, Hosts: []*workload.Host{{Latency: 5_000}}, Ranks: make([][]int32, 1)}
	add := func(op workload.Op) {
		op.ID, op.Kernel = int32(len(w.Ops)), kernel
		w.Ops, w.Ranks[0] = append(w.Ops, op), append(w.Ranks[0], op.ID)
	}
	at := trace.Time(1_000_000)
	for k, gap := range []trace.Time{free, behind20, behind21} {
		from := at
		for range n {
			at += gap
			add(workload.Op{Queue: 7, Kind: trace.Compute, Collective: -1, Start: at, End: at + 10_000})
			at += 10_000
		}
		if k > 0 { // issued before the kernels, and begins behind them
			add(workload.Op{Queue: 19 + int64(k), Kind: trace.Collective, Collective: int32(k - 1), Issued: from, Start: at, End: at + 5_000})
		}
	}
	return w
}

func delaysOf(w *workload.Workload, o stepOptions) *rankWriter {
	var m machine.Machine
	m.Launch.Gap.Value, m.Launch.Blocked.Value, m.Launch.Event.Value = 1.3e-6, 1.1e-6, 5.5e-6
	rw := &rankWriter{
		stepWriter: &stepWriter{step: &step{stepOptions: o, w: w, pl: &plan.Planner{Workload: w, Machine: m}, items: make([][]*item, 1), at: make([]int32, len(w.Ops))}, ran: make([]plan.Queued, len(w.Ops))},
		Rank:       &plan.Rank{ID: 0},
	}
	plan.FindQueued(w, w.Ranks[0], rw.ran)
	rw.findDelays()
	return rw
}

// The gaps of the capture tell which stream of collectives delays compute (rule S23): a schedule on one stream loses the
// delay. What keeps its place keeps its gaps.
func TestDelaysOfStreamsAreReadOffTheCapture(t *testing.T) {
	for _, o := range []stepOptions{{serial: true}, {keep: true}} {
		rw := delaysOf(delayed(50, 1_300, 2_400, 1_300), o)
		for _, id := range rw.w.Ranks[0] {
			op, want := &rw.w.Ops[id], trace.Time(0)
			if o.serial && op.Collective < 0 && op.ID > 50 && op.ID < 100 { // the first kernel of the part began before the wait was seen by a gap
				want = -1_100
			}
			if op.ID != 50 && rw.delay(op) != want {
				t.Errorf("%+v: op %d: the gap changes by %d ns, want %d", o, id, rw.delay(op), want)
			}
		}
	}
}

// Where hosts run ahead, all collectives that come later wait: kernels that the captured host was late with are delayed too,
// and so are those in front of which none waited yet.
func TestDelaysWhereHostsRunAhead(t *testing.T) {
	w := delayed(50, 1_300, 2_400, 1_300)
	for id := range w.Ops[:25] { // the host launched them when the ones before had ended
		w.Ops[id].Issued = w.Ops[id].Start - w.Hosts[0].Latency
	}
	rw := delaysOf(w, stepOptions{keep: true})
	for _, ahead := range []bool{false, true} {
		rw.pl.Ahead = ahead
		for _, id := range w.Ranks[0] {
			op, want := &w.Ops[id], trace.Time(0)
			if ahead && op.Collective < 0 && op.ID < 50 {
				want = 1_100
			}
			if op.ID != 0 && op.ID != 50 && rw.delay(op) != want {
				t.Errorf("ahead %t: op %d: the gap changes by %d ns, want %d", ahead, id, rw.delay(op), want)
			}
		}
	}
}
