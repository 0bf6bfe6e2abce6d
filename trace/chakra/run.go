package chakra

import (
	"cmp"
	"io"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

// Types of nodes, NodeType of et_def.proto, and their fields.
const (
	computation = 4
	sending     = 5
	receiving   = 6
	collective  = 7
)

// collectives are the operations by CollectiveCommType of et_def.proto.
var collectives = [...]trace.CollectiveOp{
	trace.AllReduce, trace.Reduce, trace.AllGather, trace.Gather, trace.Scatter, trace.Broadcast, trace.AllToAll,
	trace.ReduceScatter, trace.ReduceScatter, trace.Barrier,
}

// A work is a node with what a run has of it.
type work struct {
	node
	host   bool
	comm   trace.Comm
	group  trace.Group
	stream int64
}

// mostMicros is the latest time, and the longest duration.
const mostMicros = trace.MaxTime / 1000

// ReadRun reads the trace of one rank as a run: nodes of devices with their durations and what each
// depends on, which is exact. Where nodes have no start times, each starts when all that it depends on,
// and the one before it on its queue, have ended; computation is on one queue and communication on
// another. The error of a trace without durations is that of assemble.Alone.
func ReadRun(in io.Reader, file string) (*trace.Run, error) {
	var all []work
	err := messages(in, file, func([]byte) bool { return true }, func(n *node) bool {
		all = append(all, workOf(n))
		return true
	})
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(all, func(w work) bool { return !w.host && w.took > 0 }) {
		return nil, assemble.Alone(file)
	}
	r := reader{Session: assemble.New(file), all: all, index: map[uint64]int32{}}
	for i := range all {
		r.index[all[i].id] = int32(i)
	}
	r.Numbered = len(r.index) == len(all)
	placed := r.schedule()
	r.addAll()
	run := r.Finish(0)
	for i := range run.Ranks {
		run.Ranks[i].Placed = placed
	}
	return run, nil
}

// workOf reads the attributes of a node.
func workOf(n *node) work {
	w := work{node: *n, comm: trace.Comm{Group: trace.None, Peer: trace.None}, stream: trace.None}
	w.inputs = nil
	hosted := false
	var size, src, dst int64 = 0, trace.None, trace.None
	for _, a := range n.attributes {
		switch a.name {
		case "is_cpu_op":
			w.host, hosted = a.number != 0, true
		case "comm_type":
			if a.number >= 0 && a.number < int64(len(collectives)) {
				w.comm.Op = collectives[a.number]
			}
		case "comm_size":
			size = a.number
		case "comm_src":
			src = a.number
		case "comm_dst":
			dst = a.number
		case "pg_name", "comm_group":
			w.group.Name = a.text
		case "group_size":
			w.group.Size = int(min(max(a.number, 0), assemble.MaxRanks))
		case "ranks":
			for _, rank := range a.list {
				if rank >= 0 && rank < assemble.MaxRanks {
					w.group.Ranks = append(w.group.Ranks, int(rank))
				}
			}
		case "stream":
			w.stream = a.number
		}
	}
	device := w.kind >= computation && w.kind <= collective
	w.host = w.host && hosted || !device
	slices.Sort(w.group.Ranks)
	w.group.Size = max(w.group.Size, len(w.group.Ranks))
	if size > 0 && size < assemble.MaxBytes {
		w.comm.In = size
	}
	for _, end := range [...]struct {
		kind uint64
		rank int64
	}{{sending, dst}, {receiving, src}} {
		if w.kind == end.kind {
			w.comm.Op, w.comm.Out = trace.SendRecv, w.comm.In
			if end.rank >= 0 && end.rank < assemble.MaxRanks {
				w.comm.Peer = int32(end.rank)
			}
		}
	}
	return w
}

type reader struct {
	*assemble.Session
	all   []work
	index map[uint64]int32 // by id
}

// queue is the number of a node's queue.
func (w *work) queue() int64 {
	switch {
	case w.stream != trace.None:
		return w.stream
	case w.kind == computation:
		return 0
	}
	return 1
}

// schedule gives nodes start times, unless all of a device have one. It reports whether it does.
func (r *reader) schedule() bool {
	if !slices.ContainsFunc(r.all, func(w work) bool { return !w.host && w.start == 0 }) {
		return false
	}
	for i := range r.all {
		if w := &r.all[i]; !w.host {
			r.Builder.NoteKernel(trace.Noted, r.Name, "of a trace without start times: they follow from durations, dependencies and the order of nodes on one queue of computation and one of communication", "byte", w.at)
		}
	}
	waits, next := make([]int32, len(r.all)), make([][]int32, len(r.all))
	for i := range r.all {
		for _, id := range r.all[i].after {
			if p, ok := r.index[id]; ok && p != int32(i) {
				waits[i]++
				next[p] = append(next[p], int32(i))
			}
		}
	}
	starts := make([]uint64, len(r.all)) // when all that they depend on have ended
	before := func(a, b int32) bool { return cmp.Or(cmp.Compare(starts[a], starts[b]), cmp.Compare(a, b)) < 0 }
	var ready []int32 // a heap of the nodes that wait for no other: first the one that can start first, then the first of the file
	for i, n := range waits {
		if n == 0 {
			ready = trace.HeapPush(ready, int32(i), before)
		}
	}
	free := map[int64]uint64{} // by queue
	done, circles, first := make([]bool, len(r.all)), 0, int32(0)
	for range r.all {
		var i int32
		if len(ready) == 0 { // what is left waits for itself: the first of the file goes on
			for done[first] {
				first++
			}
			i, circles = first, circles+1
		} else {
			i, ready = trace.HeapPop(ready, before)
		}
		w := &r.all[i]
		done[i] = true
		w.start = starts[i]
		if !w.host {
			w.start = max(w.start, free[w.queue()])
			free[w.queue()] = min(w.start+w.took, uint64(mostMicros))
		}
		for _, k := range next[i] {
			starts[k] = max(starts[k], min(w.start+w.took, uint64(mostMicros)))
			if waits[k]--; waits[k] == 0 && !done[k] {
				ready = trace.HeapPush(ready, k, before)
			}
		}
	}
	if circles > 0 {
		r.Builder.Note(trace.Repaired, r.Name, "nodes that depend on each other in a circle: placed in the order of the file", "", 0)
	}
	return true
}

// addAll adds the nodes of the device, and what they depend on.
func (r *reader) addAll() {
	process := r.Process("", 0, r.Name)
	r.Processes[process].Rank = assemble.NewExecution(r.Name).Rank
	agent := r.Agent(process, "GPU 0")
	var graph assemble.Graph
	for i := range r.all {
		w := &r.all[i]
		if w.host {
			graph.Add(trace.None, true)
			continue
		}
		if w.took == 0 {
			r.Builder.Note(trace.Noted, r.Name, "node of a device without a duration: taken as 0", "byte", w.at)
		}
		const whole = 1 // all nodes are of one graph, of which the trace states every dependency
		k := assemble.Dispatch{
			Agent: agent, Queue: w.queue(), Name: r.Builder.Intern(w.name), Start: trace.Time(w.start) * 1000,
			End:         trace.Time(min(w.start+w.took, uint64(mostMicros))) * 1000,
			Correlation: whole, Setup: trace.Setup{Stream: w.queue()},
		}
		if w.kind != computation {
			if w.group.Size > 0 || w.group.Name != "" {
				w.comm.Group = r.Builder.AddGroup(w.group)
			}
			k.Comm = &w.comm
		}
		r.AddKernel(process, &k)
		graph.Add(trace.SpanID(r.Builder.Len()-1), false)
	}
	for i := range r.all {
		for _, id := range r.all[i].after {
			if p, ok := r.index[id]; ok && p != int32(i) {
				graph.Depend(int32(i), p)
			}
		}
	}
	graph.State(&r.Builder)
}
