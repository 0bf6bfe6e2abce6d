package assemble

import (
	"encoding/json"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/overlapse/overlapse/trace/lex"
)

// An hloModule is a program that XLA compiled, for all devices. Numbers of fields are those of xla/service/hlo.proto
// and xla/xla_data.proto; the name of each stands beside it.
type hloModule struct {
	replicas, partitions int64
	ranks                map[int64]int // by global number of a device: replica × partitions + partition
	byName               map[string]*hloInstruction
	byID                 map[int64]*hloInstruction
	computations         map[int64]*hloComputation
	inOrder              []*hloComputation         // of the file: the last caller of one counts
	schedule             []*hloInstruction         // in the order of execution
	flowsTo              map[hloBuffer][]hloBuffer // to where a value goes on: the next iteration of a loop, the next run
	placed               map[*hloInstruction]int   // in the schedule
	kernels              map[string]bool           // base names of instructions
	persists             map[int32]bool            // storages that hold values from run to run, or from iteration to iteration
	values               map[*hloInstruction]*hloValue
	lists                map[string][][]int64 // groups, by their message
	*hloUse
}

// An hloUse is what all modules of a file use together.
type hloUse struct {
	storages int32
	ids      int // in lists of groups
}

type hloComputation struct {
	all    []*hloInstruction
	root   *hloInstruction
	caller *hloInstruction
	branch int // among the computations that the caller calls
}

type hloInstruction struct {
	name, opcode, path, target string
	base                       string // of the name
	shape                      *hloShape
	index                      int64 // of a parameter, or an element of a tuple
	operands, called           []int64
	of                         *hloComputation

	channel   int64
	global    bool       // ids of groups are of replicas and partitions
	groups    [][]int64  // nil: all, or as in list
	list      []byte     // a message with them
	mesh      bool       // it has axes of a mesh
	pairs     [][]int64  // source and target
	contracts [4][]int64 // dimensions of a dot: contracted of both sides, batch of both sides
}

// An hloShape is an array, or a tuple of parts.
type hloShape struct {
	dtype string
	size  int64 // bytes of an element
	dims  []int64
	parts []*hloShape
}

// hloTypes are xla.PrimitiveType.
var hloTypes = [...]string{
	1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64",
	10: "float16", 11: "float32", 12: "float64", 15: "complexfloat", 16: "bfloat16", 18: "complexdouble",
	19: "float8_e5m2", 20: "float8_e4m3fn", 23: "float8_e4m3b11fnuz", 24: "float8_e5m2fnuz", 25: "float8_e4m3fnuz",
	28: "float8_e4m3", 29: "float8_e3m4",
}

// maxNesting is how deep tuples and computations nest.
const maxNesting = 64

// readHLO reads a message HloProto; nil if it is none.
func readHLO(message []byte, use *hloUse) *hloModule {
	m := &hloModule{
		replicas: 1, partitions: 1, ranks: map[int64]int{}, hloUse: use,
		byName: map[string]*hloInstruction{}, byID: map[int64]*hloInstruction{}, computations: map[int64]*hloComputation{},
		placed: map[*hloInstruction]int{}, kernels: map[string]bool{}, lists: map[string][][]int64{},
		values: map[*hloInstruction]*hloValue{}, flowsTo: map[hloBuffer][]hloBuffer{}, persists: map[int32]bool{},
	}
	var entry uint64
	var order, alias []byte
	lex.Fields{ // of hlo_module
		3: func(f lex.Field) { m.computation(f.Bytes) }, // computations
		6: &entry, 7: &order, 8: &alias,                 // entry_computation_id, schedule, input_output_alias
		15: func(f lex.Field) { m.assign(f.Bytes) }, // device_assignment
	}.Read(lex.Last(message, 1).Bytes)
	c := m.computations[int64(entry)]
	if c == nil {
		return nil
	}
	for _, c := range m.inOrder {
		for _, i := range c.all {
			for branch, id := range i.called {
				if called := m.computations[id]; called != nil {
					called.caller, called.branch = i, branch
				}
			}
		}
	}
	sequences := map[int64][]int64{}
	for f := (lex.Field{Rest: order}); f.Next(); { // sequences: instruction_ids
		sequences[int64(lex.Last(f.Bytes, 1).Number)] = signed(lex.Last(f.Bytes, 2).Bytes, 1)
	}
	m.order(int64(entry), sequences, 0)
	m.carry(c, alias)
	return m
}

// order appends the instructions of a computation to the schedule, those of loops and branches behind the instruction of these.
func (m *hloModule) order(computation int64, sequences map[int64][]int64, depth int) {
	for _, id := range sequences[computation] {
		i := m.byID[id]
		if _, seen := m.placed[i]; i == nil || seen {
			continue
		}
		m.placed[i] = len(m.schedule)
		m.schedule = append(m.schedule, i)
		for _, called := range i.called {
			if depth < maxNesting && i.opcode != "fusion" && i.opcode != "async-start" {
				m.order(called, sequences, depth+1)
			}
		}
	}
}

// signed is a repeated field of a message.
func signed(message []byte, number protowire.Number) (list []int64) {
	lex.Fields{number: &list}.Read(message)
	return list
}

// assign reads which device has which rank.
func (m *hloModule) assign(message []byte) {
	m.replicas = int64(min(max(1, lex.Last(message, 1).Number), MaxRanks))   // replica_count
	m.partitions = int64(min(max(1, lex.Last(message, 2).Number), MaxRanks)) // computation_count
	partition := 0
	for f := (lex.Field{Rest: message}); f.Next(); {
		if f.ID == 3 { // computation_devices
			for replica, device := range signed(f.Bytes, 1) {
				m.ranks[device] = replica*int(m.partitions) + partition
			}
			partition++
		}
	}
}

// world is the number of devices that run the module.
func (m *hloModule) world() int { return int(min(m.replicas*m.partitions, MaxRanks)) }

func (m *hloModule) computation(message []byte) {
	c := &hloComputation{}
	m.inOrder = append(m.inOrder, c)
	for f := (lex.Field{Rest: message}); f.Next(); {
		if f.ID == 2 { // instructions
			i := readInstruction(f.Bytes)
			i.of, i.base = c, baseName(i.name)
			c.all, m.kernels[i.base] = append(c.all, i), true
			m.byName[i.name], m.byID[int64(lex.Last(f.Bytes, 35).Number)] = i, i
		}
	}
	m.computations[int64(lex.Last(message, 5).Number)] = c // id
	c.root = m.byID[int64(lex.Last(message, 6).Number)]    // root_id
}

// meshList is the number of the field with groups along axes of a mesh.
const meshList = 93

func readInstruction(message []byte) *hloInstruction {
	i := &hloInstruction{shape: &hloShape{}}
	index := func(f lex.Field) { i.index = max(i.index, int64(f.Number)) }
	list := func(f lex.Field) { i.list, i.mesh = slices.Clone(f.Bytes), i.mesh || f.ID == meshList }
	lex.Fields{
		1: &i.name, 2: &i.opcode, 26: &i.channel, 28: &i.target, // name, opcode, channel_id, custom_call_target
		36: &i.operands, 38: &i.called, 71: &i.global, // operand_ids, called_computation_ids, use_global_device_ids
		3: func(f lex.Field) { i.shape = readShape(f.Bytes, 0) },             // shape
		7: func(f lex.Field) { i.path = string(lex.Last(f.Bytes, 2).Bytes) }, // metadata: op_name
		9: index, 13: index,                                                  // parameter_number, tuple_index
		30: func(f lex.Field) { // dot_dimension_numbers
			c := &i.contracts
			*c = [4][]int64{}
			lex.Fields{1: &c[0], 2: &c[1], 3: &c[2], 4: &c[3]}.Read(f.Bytes)
		},
		43: func(f lex.Field) { i.configure(f.Bytes) },                            // backend_config
		49: func(f lex.Field) { i.groups = append(i.groups, signed(f.Bytes, 1)) }, // replica_groups
		52: func(f lex.Field) { // source_target_pairs
			i.pairs = append(i.pairs, []int64{int64(lex.Last(f.Bytes, 1).Number), int64(lex.Last(f.Bytes, 2).Number)})
		},
		87: list, meshList: list, // collective_device_list, and the same along axes of a mesh
	}.Read(message)
	return i
}

// configure reads the dimensions of a GEMM of a library from the backend's JSON.
func (i *hloInstruction) configure(text []byte) {
	var config struct {
		GEMM struct {
			Dims struct {
				LHS      []string `json:"lhs_contracting_dimensions"`
				RHS      []string `json:"rhs_contracting_dimensions"`
				LHSBatch []string `json:"lhs_batch_dimensions"`
				RHSBatch []string `json:"rhs_batch_dimensions"`
			} `json:"dot_dimension_numbers"`
		} `json:"gemm_backend_config"`
	}
	if json.Unmarshal(text, &config) != nil {
		return
	}
	d := &config.GEMM.Dims
	for k, words := range [...][]string{d.LHS, d.RHS, d.LHSBatch, d.RHSBatch} {
		for _, w := range words {
			n, _ := strconv.ParseInt(w, 10, 64)
			i.contracts[k] = append(i.contracts[k], n)
		}
	}
}

func readShape(message []byte, depth int) *hloShape {
	s := &hloShape{}
	lex.Fields{
		3: &s.dims, // dimensions
		2: func(f lex.Field) { // element_type
			if f.Number < uint64(len(hloTypes)) {
				s.dtype = hloTypes[f.Number]
				s.size = int64(ElemSize(s.dtype))
			}
		},
		4: func(f lex.Field) { // tuple_shapes
			if depth < maxNesting {
				s.parts = append(s.parts, readShape(f.Bytes, depth+1))
			}
		},
	}.Read(message)
	return s
}

// arrays are the arrays of a shape, in order.
func (s *hloShape) arrays(list []*hloShape) []*hloShape {
	if s.dtype != "" {
		list = append(list, s)
	}
	for _, p := range s.parts {
		list = p.arrays(list)
	}
	return list
}

// bytes is the size of an array, or of all arrays of a tuple; 0 if implausibly large.
func (s *hloShape) bytes() (sum int64) {
	for _, a := range s.arrays(nil) {
		n := extentOf(a.dims, MaxBytes) * a.size
		if sum += n; sum > MaxBytes {
			return 0
		}
	}
	return sum
}

// extentOf is the product of sizes; 0 if one is negative or the product is above most.
func extentOf(dims []int64, most int64) int64 {
	n := int64(1)
	for _, d := range dims {
		if d < 0 || d > 0 && n > most/d {
			return 0
		}
		n *= d
	}
	return n
}

// at is the instruction of an operand, or nil.
func (m *hloModule) at(ids []int64, k int) *hloInstruction {
	if k < 0 || k >= len(ids) {
		return nil
	}
	return m.byID[ids[k]]
}

// place is the position of an instruction in the schedule: its own, or that of the instruction that starts it.
func (m *hloModule) place(i *hloInstruction) (at int, ok bool) {
	if m == nil || i == nil {
		return 0, false
	}
	if at, ok = m.placed[i]; !ok && i.of.caller != nil {
		at, ok = m.placed[i.of.caller]
	}
	return at, ok
}
