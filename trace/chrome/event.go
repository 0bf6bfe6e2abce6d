package chrome

import (
	"bytes"

	"github.com/overlapse/overlapse/trace/lex"
)

// An event is one trace event of the file.
type event struct {
	head
	args   args
	fields map[string]*[]byte // of head, by their names in quotes
}

// A head has the members of an event without its arguments: raw values, strings
// with their quotes. They point into the window and are valid until it moves.
// Absent members are nil.
type head struct {
	pos            int64 // of its opening bracket, in the file
	ph             byte  // 0 where absent
	name, cat      []byte
	pid, tid       []byte
	ts, dur        []byte
	id, id2, scope []byte
	rawArgs        []byte // the object of the arguments
}

// reset clears the arguments that are set: there are many, of which an event has few.
func (a *args) reset() {
	for _, field := range a.set {
		*field = nil
	}
	a.set = a.set[:0]
}

func (a *args) put(field *[]byte, v []byte) {
	*field = v
	a.set = append(a.set, field)
}

// args are the arguments that the reader uses.
type args struct {
	set    []*[]byte          // those below that are not nil
	fields map[string]*[]byte // those below (named)

	name []byte // of metadata

	workArgs
	operatorArgs
	commArgs
	graphArgs
	ownArgs

	kernel                []byte // that a call of roctracer launches
	waitOn, waitRecord    []byte // of cuda_sync
	allocated, deviceType []byte // of [memory]

	rank, pidRaw []byte // of TraceLens' fused files
	begin, end   []byte // of rocprof: nanoseconds
}

// workArgs are of kernels and copies, and of the calls that issue them.
type workArgs struct {
	external, correlation, device, stream, priority []byte
	grid, block, registers, shared                  []byte
	bytes, size, kind                               []byte // of copies
}

// operatorArgs are of operators of the framework.
type operatorArgs struct {
	dims, types, strides, concrete, record, index, sequence []byte
}

// commArgs are of collectives and messages.
type commArgs struct {
	collective, inElems, outElems, groupSize, dtype, inSplit, outSplit []byte
	group, groupDesc, groupRanks                                       []byte
	src, dst, seq                                                      []byte
}

// graphArgs are of work in captured graphs.
type graphArgs struct {
	graph, node, original, annotation []byte
}

// ownArgs are arguments that only Write writes.
type ownArgs struct {
	parent, op, comm, origin, peer, uses []byte
	workgroup, persistent, cu, row, col  []byte
}

// decode reads the event whose opening bracket is at i and returns the position after it.
func (e *event) decode(b []byte, i int) int {
	e.head = head{}
	e.args.reset()
	i++
	for {
		key, j := lex.NextKey(b, i)
		if key == nil {
			return j
		}
		if string(key) == `"args"` && b[j] == '{' {
			e.args.reset()
			if i = e.args.decode(b, j); i < 0 {
				return i
			}
			e.rawArgs = b[j:i]
		} else {
			if i = lex.SkipValue(b, j, 1); i < 0 {
				return i
			}
			e.set(key, b[j:i])
		}
		if i = lex.SkipComma(b, i); i < 0 {
			return i
		}
	}
}

// set stores a member of the event.
func (e *event) set(key, v []byte) {
	switch string(key) {
	case `"ph"`:
		if len(v) == 3 && v[0] == '"' {
			e.ph = v[1]
		} else {
			e.ph = '?'
		}
	case `"args"`: // if repeated, the last counts
		if e.args.reset(); v[0] == '{' {
			e.args.decode(v, 0)
		}
	default:
		if e.fields == nil {
			e.fields = map[string]*[]byte{
				`"name"`: &e.name, `"cat"`: &e.cat, `"pid"`: &e.pid, `"tid"`: &e.tid, `"ts"`: &e.ts, `"dur"`: &e.dur,
				`"id"`: &e.id, `"id2"`: &e.id2, `"scope"`: &e.scope,
			}
		}
		if field := e.fields[string(key)]; field != nil {
			*field = v
		} else if k := plainKey(key); k != nil {
			e.set(k, v)
		}
	}
}

// plainKey returns the key with its escapes resolved, or nil if it has none. No
// profiler escapes these keys, but JSON permits it.
func plainKey(key []byte) []byte {
	if bytes.IndexByte(key, '\\') < 0 {
		return nil
	}
	var buf []byte
	plain := lex.Text(key, &buf)
	if bytes.ContainsAny(plain, `\"`) {
		return nil // known keys have no escapes
	}
	return append(append([]byte{'"'}, plain...), '"')
}

// decode reads the arguments whose opening bracket is at i.
func (a *args) decode(b []byte, i int) int {
	i++
	for {
		key, j := lex.NextKey(b, i)
		if key == nil {
			return j
		}
		if i = lex.SkipValue(b, j, 2); i < 0 {
			return i
		}
		if field := a.field(key); field != nil {
			a.put(field, b[j:i])
		}
		if i = lex.SkipComma(b, i); i < 0 {
			return i
		}
	}
}

// named are the fields by the names of arguments, in quotes.
func (a *args) named() map[string]*[]byte {
	fields := map[string]*[]byte{}
	for name, field := range map[string]*[]byte{
		"name": &a.name, "External id": &a.external, "external id": &a.external, "correlation": &a.correlation,
		"device": &a.device, "dev-id": &a.device, "stream": &a.stream, "stream-id": &a.stream, "priority": &a.priority,
		"grid": &a.grid, "block": &a.block, "registers per thread": &a.registers, "shared memory": &a.shared, "bytes": &a.bytes,
		"size": &a.size, "kind": &a.kind, "copy kind": &a.kind, "graph id": &a.graph, "graph node id": &a.node,
		"original_stream": &a.original, "annotation": &a.annotation, "kernel": &a.kernel, "Input Dims": &a.dims,
		"Input dims": &a.dims, "Input type": &a.types, "Input Strides": &a.strides, "Concrete Inputs": &a.concrete,
		"Record function id": &a.record, "Ev Idx": &a.index, "Sequence number": &a.sequence, "Collective name": &a.collective,
		"In msg nelems": &a.inElems, "Out msg nelems": &a.outElems,
		"In split size": &a.inSplit, "Out split size": &a.outSplit, "Group size": &a.groupSize, "dtype": &a.dtype,
		"Process Group Name": &a.group, "Process Group Description": &a.groupDesc, "Process Group Ranks": &a.groupRanks,
		"Src Rank": &a.src, "Dst Rank": &a.dst, "Seq": &a.seq, "Total Allocated": &a.allocated, "Device Type": &a.deviceType,
		"wait_on_stream": &a.waitOn, "wait_on_cuda_event_record_corr_id": &a.waitRecord, "rank": &a.rank, "pid_raw": &a.pidRaw,
		"BeginNs": &a.begin, "EndNs": &a.end, "parent": &a.parent, "op": &a.op, "comm": &a.comm, "origin": &a.origin,
		"uses": &a.uses, "peer": &a.peer, "workgroup": &a.workgroup, "persistent": &a.persistent, "cu": &a.cu, "row": &a.row,
		"col": &a.col,
	} {
		fields[`"`+name+`"`] = field
	}
	return fields
}

// field returns the field for the argument of this name, or nil.
func (a *args) field(key []byte) *[]byte {
	if a.fields == nil {
		a.fields = a.named()
	}
	if field := a.fields[string(key)]; field != nil {
		return field
	}
	if k := plainKey(key); k != nil {
		return a.field(k)
	}
	return nil
}
