package nsys

import (
	"fmt"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// A launch is a call that launches a CUDA graph.
type launch struct {
	process          int32
	correlation, row int64
}

const nodeFlag = "(nsys profile --cuda-graph-trace=node records them)"

// wholeGraphs reads executions of CUDA graphs of which nsys records no nodes, which is its
// default: each is one kernel. Launches of which the file has no work at all are noted.
func (d *reader) wholeGraphs() {
	seen := map[launch]bool{}
	d.Kernels(graphTable, []string{"start", "end", "globalpid", "deviceid", "streamid", "correlationid", "graphexecid"}, func(r lex.Row, start, end trace.Time) {
		process := d.process(r.Int(2))
		seen[launch{process: process, correlation: r.Int(5)}] = true
		d.Builder.NoteSpan(trace.SpanID(d.Builder.Len()), trace.Noted, d.Name,
			"recorded as "+trace.WholeGraph+" each, without its kernels and collectives "+nodeFlag, "row", r.Number)
		d.AddKernel(process, &assemble.Dispatch{
			Agent: d.gpu(process, r.Int(3)), Queue: r.Int(4),
			Name: d.Builder.Intern(fmt.Sprint(trace.GraphName, r.Int(6))), Start: start, End: end,
			Correlation: r.Int(5), Setup: trace.Setup{Stream: r.Int(4)},
		})
	})
	if len(d.graphs) == 0 {
		return
	}
	for _, t := range [...]string{kernelTable, copyTable, fillTable} {
		d.Each(t, []string{"globalpid", "correlationid"}, func(r lex.Row) {
			seen[launch{process: d.process(r.Int(0)), correlation: r.Int(1)}] = true
		})
	}
	for _, g := range d.graphs {
		if !seen[launch{process: g.process, correlation: g.correlation}] {
			d.Builder.NoteKernel(trace.Noted, d.Name, "known only by the launch of "+trace.WholeGraph+
				", without times, kernels and collectives "+nodeFlag, "row", g.row)
		}
	}
}

// A graphNode is a node of a CUDA graph or of one that can be launched, by its number in the process.
type graphNode struct {
	process int32
	id      int64
}

// A nodeSpan is work that a CUDA graph launched.
type nodeSpan struct {
	span trace.SpanID
	graphNode
}

// node stores that the next span is of a node of a CUDA graph; 0: of none.
func (d *reader) node(process int32, id int64) {
	if id != 0 {
		span := trace.SpanID(d.Builder.Len())
		d.nodes = append(d.nodes, nodeSpan{span, graphNode{process, id}})
		d.Builder.Run.Nodes = append(d.Builder.Run.Nodes, trace.Node{Span: span, Graph: uint32(id >> 32), Number: uint32(id)})
	}
}

// captures finds when the nodes of graphs were captured: a graph that can be launched has copies of
// the nodes, which name the originals.
func (d *reader) captures() {
	type creation struct{ original, thread, at int64 }
	created := map[graphNode]creation{}
	d.Each(nodeTable, []string{"start", "globaltid", "graphnodeid", "originalgraphnodeid"}, func(r lex.Row) {
		created[graphNode{d.process(r.Int(1)), r.Int(2)}] = creation{r.Int(3), r.Int(1) & 0xffffff, r.Int(0)}
	})
	for _, n := range d.nodes {
		const most = 8 // copies of copies
		for range most {
			c, ok := created[n.graphNode]
			switch {
			case ok && c.original != 0:
				n.id = c.original
				continue
			case ok && c.at >= 0 && trace.ValidTime(c.at):
				d.Captured(n.span, n.process, c.thread, trace.Time(c.at))
			}
			break
		}
	}
}

// Kinds of synchronization, of CUPTI.
const (
	eventSync   = 1
	streamWait  = 2
	streamSync  = 3
	contextSync = 4
)

// invalid is the number of no stream and of no event.
const invalid = 1<<32 - 1

// An event is one that a stream recorded.
type event struct {
	process int32
	id      int64 // of the recording: unlike the event's own, it is unique
}

// waits reads what streams and the host wait for. A wait for an event names its recording, if that was traced.
func (d *reader) waits() {
	type record struct{ stream, correlation int64 }
	records := map[event]record{}
	d.Each(recordTable, []string{"globalpid", "streamid", "correlationid", "eventsyncid"}, func(r lex.Row) {
		records[event{d.process(r.Int(0)), r.Int(3)}] = record{r.Int(1), r.Int(2)}
	})
	d.Timed(waitTable, []string{"start", "end", "globalpid", "deviceid", "streamid", "correlationid", "synctype", "eventsyncid"}, func(r lex.Row, start, end trace.Time) {
		process := d.process(r.Int(2))
		w := trace.Wait{Start: start, End: end, Stream: trace.None, On: trace.None, Correlation: r.Int(5)}
		of, known := records[event{process, r.Int(7)}]
		known = known && !r.Null(7) && r.Int(7) != invalid
		switch r.Int(6) {
		case streamWait:
			w.Stream = r.Int(4)
		case streamSync:
			w.On = r.Int(4)
		case eventSync, contextSync:
		default:
			return
		}
		if process == trace.None {
			return
		}
		if known && w.On == trace.None {
			w.On, w.Record = of.stream, of.correlation
		}
		d.AddWait(process, d.gpu(process, r.Int(3)), w)
	})
}
