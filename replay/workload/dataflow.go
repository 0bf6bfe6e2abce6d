package workload

// An EdgeKind is the reason why one operation has to run after another one.
type EdgeKind uint8

// The kinds of edges. Stream order is one schedule of the dataflow, not part of it: an edge
// of kind StreamOnly may be broken by a schedule.
const (
	ReadAfterWrite  EdgeKind = iota + 1 // it reads what the earlier one wrote
	WriteAfterRead                      // it overwrites what the earlier one read
	WriteAfterWrite                     // both write the same bytes
	StreamOnly                          // nothing is known but the order on a stream, or an event
)

func (k EdgeKind) String() string {
	return [...]string{"", "read after write", "write after read", "write after write", "stream order only"}[k]
}

// An Evidence is the source of a data dependency. Higher values are better.
type Evidence uint8

// The evidence, worst first.
const (
	Guessed   Evidence = iota // streams, events, sizes and names
	Annotated                 // ranges that a framework marks; arguments of Inductor's kernels, by their order
	Exact                     // tensors in an execution trace; dependencies that the file states
	Given                     // the user's corrections
)

func (e Evidence) String() string { return [...]string{"guessed", "annotated", "exact", "given"}[e] }

// An Edge is a dependency of one operation on an earlier one of its rank. The kernels of
// one operator of the framework share its accesses: each reads what the one before wrote,
// of unknown bytes, and only the first has the operator's other edges.
type Edge struct {
	Op       int32 // the earlier operation
	Kind     EdgeKind
	Evidence Evidence
	Reused   bool  // exists only because an allocator reused memory: an artefact of the captured schedule
	Bytes    int64 // that both access; 0: unknown
}

// Recorded reports whether an edge is of data, and more than a guess.
func (e *Edge) Recorded() bool { return e.Kind == ReadAfterWrite && e.Evidence > Guessed }
