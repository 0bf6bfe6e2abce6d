package chrome

import (
	"bytes"

	"github.com/overlapse/overlapse/trace/lex"
)

// An event is one trace event of the file.
type event struct {
	head
	args args
}

// A head has the lex.Members of an event without its arguments: raw values, strings
// with their quotes. They point into the window and are valid until it moves.
// Absent lex.Members are nil.
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
	set []*[]byte // those below that are not nil

	name []byte // of metadata

	external, correlation, device, stream, priority []byte
	grid, block, registers, shared                  []byte
	bytes, size, kind                               []byte // of copies, and of the calls that issue them
	dims, types, concrete, record, index            []byte // of operators

	collective, inElems, outElems, groupSize, dtype, inSplit, outSplit []byte
	group, groupDesc, groupRanks                                       []byte
	src, dst, seq                                                      []byte

	waitOn, waitRecord    []byte // of cuda_sync
	allocated, deviceType []byte // of [memory]

	graph, node, original, annotation []byte // of work in captured graphs
	kernel                            []byte // that a call of roctracer launches

	rank, pidRaw []byte // of TraceLens' fused files
	begin, end   []byte // of rocprof: nanoseconds

	// Arguments that only Write writes.
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
	case `"name"`:
		e.name = v
	case `"cat"`:
		e.cat = v
	case `"pid"`:
		e.pid = v
	case `"tid"`:
		e.tid = v
	case `"ts"`:
		e.ts = v
	case `"dur"`:
		e.dur = v
	case `"id"`:
		e.id = v
	case `"id2"`:
		e.id2 = v
	case `"scope"`:
		e.scope = v
	case `"args"`: // if repeated, the last counts
		if e.args.reset(); v[0] == '{' {
			e.args.decode(v, 0)
		}
	default:
		if k := plainKey(key); k != nil {
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

// field returns the field for the argument of this name, or nil.
func (a *args) field(key []byte) *[]byte {
	switch string(key) {
	case `"name"`:
		return &a.name
	case `"External id"`, `"external id"`:
		return &a.external
	case `"correlation"`:
		return &a.correlation
	case `"device"`, `"dev-id"`:
		return &a.device
	case `"stream"`, `"stream-id"`:
		return &a.stream
	case `"priority"`:
		return &a.priority
	case `"grid"`:
		return &a.grid
	case `"block"`:
		return &a.block
	case `"registers per thread"`:
		return &a.registers
	case `"shared memory"`:
		return &a.shared
	case `"bytes"`:
		return &a.bytes
	case `"size"`:
		return &a.size
	case `"kind"`, `"copy kind"`:
		return &a.kind
	case `"graph id"`:
		return &a.graph
	case `"graph node id"`:
		return &a.node
	case `"original_stream"`:
		return &a.original
	case `"annotation"`:
		return &a.annotation
	case `"kernel"`:
		return &a.kernel
	case `"Input Dims"`, `"Input dims"`:
		return &a.dims
	case `"Input type"`:
		return &a.types
	case `"Concrete Inputs"`:
		return &a.concrete
	case `"Record function id"`:
		return &a.record
	case `"Ev Idx"`:
		return &a.index
	case `"Collective name"`:
		return &a.collective
	case `"In msg nelems"`:
		return &a.inElems
	case `"Out msg nelems"`:
		return &a.outElems
	case `"In split size"`:
		return &a.inSplit
	case `"Out split size"`:
		return &a.outSplit
	case `"Group size"`:
		return &a.groupSize
	case `"dtype"`:
		return &a.dtype
	case `"Process Group Name"`:
		return &a.group
	case `"Process Group Description"`:
		return &a.groupDesc
	case `"Process Group Ranks"`:
		return &a.groupRanks
	case `"Src Rank"`:
		return &a.src
	case `"Dst Rank"`:
		return &a.dst
	case `"Seq"`:
		return &a.seq
	case `"Total Allocated"`:
		return &a.allocated
	case `"Device Type"`:
		return &a.deviceType
	case `"wait_on_stream"`:
		return &a.waitOn
	case `"wait_on_cuda_event_record_corr_id"`:
		return &a.waitRecord
	case `"rank"`:
		return &a.rank
	case `"pid_raw"`:
		return &a.pidRaw
	case `"BeginNs"`:
		return &a.begin
	case `"EndNs"`:
		return &a.end
	case `"parent"`:
		return &a.parent
	case `"op"`:
		return &a.op
	case `"comm"`:
		return &a.comm
	case `"origin"`:
		return &a.origin
	case `"uses"`:
		return &a.uses
	case `"peer"`:
		return &a.peer
	case `"workgroup"`:
		return &a.workgroup
	case `"persistent"`:
		return &a.persistent
	case `"cu"`:
		return &a.cu
	case `"row"`:
		return &a.row
	case `"col"`:
		return &a.col
	}
	if k := plainKey(key); k != nil {
		return a.field(k)
	}
	return nil
}
