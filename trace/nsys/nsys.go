// Package nsys reads the SQLite databases that Nsight Systems exports
// (nsys export --type sqlite). A table that has no rows is not written, and
// columns vary between versions.
//
//	nsys.go     processes, kernels, copies, calls, ranges
//	payload.go  what ranges of NCCL carry
//	graph.go    CUDA graphs and waits
package nsys

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

const (
	kernelTable  = "CUPTI_ACTIVITY_KIND_KERNEL"
	copyTable    = "CUPTI_ACTIVITY_KIND_MEMCPY"
	fillTable    = "CUPTI_ACTIVITY_KIND_MEMSET"
	runtimeTable = "CUPTI_ACTIVITY_KIND_RUNTIME"
	rangeTable   = "NVTX_EVENTS"
	graphTable   = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" // whole CUDA graphs, where their nodes are not traced
	waitTable    = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
	recordTable  = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
	overTable    = "PROFILER_OVERHEAD"      // when the profiler held up a thread
	nodeTable    = "CUDA_GRAPH_NODE_EVENTS" // creation of the nodes of CUDA graphs
)

// HasTables reports whether a database with these tables is one of Nsight Systems.
func HasTables(tables []string) bool {
	return slices.ContainsFunc(tables, func(t string) bool {
		return strings.HasPrefix(t, "CUPTI_ACTIVITY_KIND_") || t == rangeTable || t == "EXPORT_META_DATA" || t == "META_DATA_EXPORT"
	})
}

// A reader reads a database.
type reader struct {
	*assemble.Session
	lex.Scan
	texts    lex.Texts     // StringIds
	ranks    map[int32]int // that ranges named, by process row
	complete bool          // all processes that become rows are known
	graphs   []launch      // calls that launch a CUDA graph
	nodes    []nodeSpan    // work of CUDA graphs
	payloads schemas       // of NVTX
}

// ReadDB reads a database: kernels, CUDA graphs, copies, fills, waits, calls of the CUDA
// runtime and NVTX ranges. Times are nanoseconds from the start of the session, which
// the file dates; grids are in blocks.
func ReadDB(db *lex.DB) (*trace.Run, error) {
	if !slices.Contains(db.Tables(), "StringIds") {
		return nil, &trace.SyntaxError{
			File: db.File, Msg: "no table StringIds, which has the names of kernels",
			Cure: "export it again: nsys export --type sqlite",
		}
	}
	s := assemble.New(db.File)
	d := &reader{Session: s, Scan: lex.Scan{DB: db, To: &s.Builder}, ranks: map[int32]int{}}
	d.texts = d.Texts("StringIds", "id", "value")
	d.processes()
	d.kernels()
	d.copies()
	d.calls()
	d.wholeGraphs()
	d.waits()
	d.ranges()
	d.overheads()
	d.captures()
	if d.Err != nil {
		return nil, d.Err
	}
	if d.Builder.Len() == 0 {
		return nil, &trace.SyntaxError{
			File: db.File, Msg: "nothing to show", Err: trace.NoTrace("no kernel, copy or call"),
			Cure: "profile with nsys profile --trace=cuda,nvtx",
		}
	}
	for row, rank := range d.ranks {
		d.Processes[row].Rank = rank
	}
	d.devices()
	return d.Finish(d.epoch()), d.Err
}

// epoch is when the session started, or 0.
func (d *reader) epoch() (ns int64) {
	d.Each("TARGET_INFO_SESSION_START_TIME", []string{"utcepochns"}, func(r lex.Row) { ns = r.Int(0) })
	return ns
}

// processes names the host that all processes ran on.
func (d *reader) processes() {
	host := ""
	d.Each("TARGET_INFO_SYSTEM_ENV", []string{"name", "value"}, func(r lex.Row) {
		if r.Text(0) == "Hostname" {
			host = r.Text(1)
		}
	})
	// Only processes that use a GPU become rows, or where none does those that call the runtime; of all others on the machine
	// a table may tell, too.
	for _, t := range [...]string{kernelTable, graphTable, copyTable, fillTable} {
		d.Each(t, []string{"globalpid"}, func(r lex.Row) { d.process(r.Int(0)) })
	}
	if len(d.Processes) == 0 {
		d.Each(runtimeTable, []string{"globaltid"}, func(r lex.Row) { d.process(r.Int(0)) })
	}
	d.complete = len(d.Processes) > 0
	for i := range d.Processes {
		d.Processes[i].Host = host
	}
}

// process returns the process in a global id, whose lower half is a thread or nothing; trace.None if it uses no GPU and others do.
func (d *reader) process(global int64) int32 {
	pid, key := global>>24&0xffffff, strconv.FormatInt(global>>24, 10)
	if d.complete && !slices.ContainsFunc(d.Processes, func(p assemble.Process) bool { return p.Key == key }) {
		return trace.None
	}
	return d.Process(key, pid, d.Name)
}

// call adds a call of a process that uses a GPU.
func (d *reader) call(process int32, c *assemble.Call, row int64) {
	if process == trace.None {
		d.Builder.Note(trace.Skipped, d.Name, "a call of a process that uses no GPU", "row", row)
		return
	}
	d.AddCall(process, c)
}

// gpu returns a device of a process.
func (d *reader) gpu(process int32, device int64) int32 {
	return d.Agent(process, "GPU "+strconv.FormatInt(device, 10))
}

func (d *reader) kernels() {
	d.Kernels(kernelTable, []string{
		"start", "end", "globalpid", "deviceid", "streamid", "correlationid", "demangledname", "shortname", "registersperthread",
		"staticsharedmemory", "dynamicsharedmemory", "gridx", "gridy", "gridz", "blockx", "blocky", "blockz",
		"graphnodeid",
	}, func(r lex.Row, start, end trace.Time) {
		process := d.process(r.Int(2))
		d.node(process, r.Int(17))
		k := assemble.Dispatch{
			Agent: d.gpu(process, r.Int(3)), Queue: r.Int(4), Name: d.texts.Name(r.Int(6)), Start: start, End: end,
			Correlation: r.Int(5), Setup: trace.Setup{
				Stream: r.Int(4), Registers: assemble.Narrow(r.Int(8)),
				Shared: assemble.Narrow(r.Int(9) + r.Int(10)),
			},
		}
		if r.Null(6) {
			k.Name = d.texts.Name(r.Int(7))
		}
		for i := range k.Grid {
			k.Grid[i], k.Block[i] = assemble.Narrow(r.Int(11+i)), assemble.Narrow(r.Int(14+i))
		}
		d.AddKernel(process, &k)
	})
}

// memories are the kinds of memory that a copy reads and writes, as ENUM_CUDA_MEM_KIND of an export numbers them.
var memories = [...]string{"Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"}

// direction reads CUPTI's number of a direction. Exports since 2023 have them in
// a table, older ones do not. The name is as Kineto writes it, so that both read the same.
func direction(kind int64) (dir trace.CopyDir, name string) {
	switch kind {
	case 1, 3: // 3: to an array
		return trace.HostToDevice, "Memcpy HtoD"
	case 2, 4:
		return trace.DeviceToHost, "Memcpy DtoH"
	case 5, 6, 7, 8: // from, to and between arrays
		return trace.DeviceToDevice, "Memcpy DtoD"
	case 9:
		return trace.HostToHost, "Memcpy HtoH"
	case 10:
		return trace.PeerToPeer, "Memcpy PtoP"
	}
	return trace.UnknownDir, "Memcpy"
}

func (d *reader) copies() {
	d.Kernels(copyTable, []string{
		"start", "end", "globalpid", "deviceid", "streamid", "correlationid", "bytes", "copykind", "srcdeviceid",
		"dstdeviceid", "graphnodeid", "srckind", "dstkind",
	},
		func(r lex.Row, start, end trace.Time) {
			process := d.process(r.Int(2))
			d.node(process, r.Int(10))
			dir, name := direction(r.Int(7))
			if from, to := r.Int(11), r.Int(12); !r.Null(11) && !r.Null(12) && min(from, to) >= 0 && max(from, to) < int64(len(memories)) {
				name += " (" + memories[from] + " -> " + memories[to] + ")"
			}
			c := assemble.Copy{
				Name: d.Builder.Intern(name), From: trace.None, To: d.gpu(process, r.Int(3)), Dir: dir,
				Stream: r.Int(4), Correlation: r.Int(5), Bytes: r.Int(6), Start: start, End: end,
			}
			switch {
			case c.Dir == trace.PeerToPeer && !r.Null(8) && !r.Null(9):
				c.From, c.To = d.gpu(process, r.Int(8)), d.gpu(process, r.Int(9))
			case c.Dir != trace.HostToDevice:
				c.From, c.To = c.To, trace.None
			}
			c.OnQueue = c.Dir != trace.PeerToPeer // of two devices the stream may be either's
			d.AddCopy(process, &c)
		})
	d.Kernels(fillTable, []string{"start", "end", "globalpid", "deviceid", "streamid", "correlationid", "bytes", "graphnodeid"}, func(r lex.Row, start, end trace.Time) {
		process := d.process(r.Int(2))
		d.node(process, r.Int(7))
		d.AddCopy(process, &assemble.Copy{
			Name: d.Builder.Intern("Memset"), From: d.gpu(process, r.Int(3)), To: trace.None, Dir: trace.Fill,
			Stream: r.Int(4), Correlation: r.Int(5), Bytes: r.Int(6), Start: start, End: end, OnQueue: true,
		})
	})
}

// callVersion is what CUPTI appends to the names of runtime calls.
var callVersion = regexp.MustCompile(`_v\d+$`)

func (d *reader) calls() {
	plain := map[int64]trace.NameID{}
	d.Timed(runtimeTable, []string{"start", "end", "globaltid", "correlationid", "nameid"}, func(r lex.Row, start, end trace.Time) {
		name := trace.Memo(plain, r.Int(4), func() trace.NameID { return d.Builder.Intern(callVersion.ReplaceAllString(d.texts.Of[r.Int(4)], "")) })
		process := d.process(r.Int(2))
		if strings.HasPrefix(d.Builder.NameOf(name), "cudaGraphLaunch") {
			d.graphs = append(d.graphs, launch{process, r.Int(3), r.Number})
		}
		d.call(process, &assemble.Call{Name: name, Thread: r.Int(2) & 0xffffff, Correlation: r.Int(3), Start: start, End: end}, r.Number)
	})
}

// overheads reads when the profiler held up a thread, marks as PyTorch's profiler has them.
func (d *reader) overheads() {
	d.Timed(overTable, []string{"start", "end", "globaltid", "nameid"}, func(r lex.Row, start, end trace.Time) {
		c := assemble.Call{Name: d.texts.Name(r.Int(3)), Thread: r.Int(2) & 0xffffff, Start: start, End: end, Marker: true}
		d.call(d.process(r.Int(2)), &c, r.Number)
	})
}

// Kinds of NVTX events.
const (
	nvtxMark     = 34
	nvtxPushPop  = 59
	nvtxStartEnd = 60
)

// mpiRank is what nsys names the main thread of an MPI process.
var mpiRank = regexp.MustCompile(`^MPI Rank (\d{1,6})$`)

// ranges reads NVTX. Ranges of NCCL are calls of a collective library.
func (d *reader) ranges() {
	d.payloads = d.readSchemas()
	d.Each(rangeTable, []string{"start", "end", "eventtype", "globaltid", "text", "textid", "jsontext", "jsontextid", "binarydata"}, func(r lex.Row) {
		text := r.Text(4)
		if r.Null(4) {
			text = d.texts.Of[r.Int(5)]
		}
		process := d.process(r.Int(3))
		if m := mpiRank.FindStringSubmatch(text); m != nil && process != trace.None {
			if n, err := strconv.Atoi(m[1]); err == nil {
				d.ranks[process] = n
			}
		}
		start, end := r.Int(0), r.Int(1)
		switch kind := r.Int(2); {
		case kind != nvtxMark && kind != nvtxPushPop && kind != nvtxStartEnd:
			d.Builder.Note(trace.Skipped, d.Name, rangeTable+": a name, not a range", "row", r.Number)
			return
		case r.Null(0) || start < 0 || !trace.ValidTime(start) || !trace.ValidTime(max(end, 0)):
			d.Builder.Note(trace.Skipped, d.Name, rangeTable+": start or end is not a time", "row", r.Number)
			return
		case kind == nvtxMark:
			end = start
		case r.Null(1):
			d.Builder.Note(trace.Repaired, d.Name, rangeTable+": a range without end: clamped to zero duration", "row", r.Number)
			end = start
		case end < start && process != trace.None:
			d.Builder.Note(trace.Repaired, d.Name, rangeTable+": "+trace.EndsEarly, "row", r.Number)
			end = start
		}
		nccl := strings.HasPrefix(text, "nccl")
		c := assemble.Call{
			Name: d.Builder.Intern(text), Thread: r.Int(3) & 0xffffff, Start: trace.Time(start), End: trace.Time(end),
			Marker: !nccl, Collective: nccl,
		}
		if nccl {
			object := r.Text(6)
			if r.Null(6) {
				object = d.texts.Of[r.Int(7)]
			}
			p, ok := d.payloads.decode(r.Text(8))
			if object != "" {
				ok = json.Unmarshal([]byte(object), &p) == nil
			}
			switch {
			case ok:
				c.Arguments = p.arguments()
			case trace.CollectiveOpIn(text) != trace.UnknownOp && !strings.HasPrefix(text, "nccl:"): // PyTorch's ranges have none
				d.Builder.NoteKernel(trace.Noted, d.Name, "of NCCL without a size: this export has no NVTX payloads (nsys export --type sqlite --include-json true has them)", "row", r.Number)
			}
		}
		d.call(process, &c, r.Number)
	})
}

// devices reads the properties of GPUs.
func (d *reader) devices() {
	described := map[int64]trace.Device{}
	d.Each("TARGET_INFO_GPU", []string{
		"id", "name", "smcount", "threadsperwarp", "maxwarpspersm", "maxregisterspersm", "maxshmempersm",
		"maxshmemperblockoptin", "totalmemory", "computemajor", "computeminor",
	},
		func(r lex.Row) {
			n := func(column int) int { return int(assemble.Narrow(r.Int(column))) }
			described[r.Int(0)] = trace.Device{
				Name: r.Text(1), CUs: n(2), WaveSize: n(3), ThreadsPerCU: n(3) * n(4), RegistersPerCU: n(5),
				SharedPerCU: n(6), SharedPerWG: n(7),
				MemoryBytes: r.Int(8), ComputeMajor: n(9), ComputeMinor: n(10),
			}
		})
	for i := range d.Agents {
		d.Agents[i].Device = described[int64(d.Agents[i].Ordinal)]
	}
}
