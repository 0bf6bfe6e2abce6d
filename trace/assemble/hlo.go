package assemble

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
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
	schedule             []*hloInstruction         // in the order of execution
	carried              map[hloBuffer][]hloBuffer // to where a value goes on: the next iteration of a loop, the next run
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

// An hloBuffer is an array among the results of an instruction.
type hloBuffer struct {
	storage  int32
	from, to int64
}

// An hloValue is a buffer or a tuple of values.
type hloValue struct {
	hloBuffer
	parts []*hloValue
	size  int // itself and all parts
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
		values: map[*hloInstruction]*hloValue{}, carried: map[hloBuffer][]hloBuffer{}, persists: map[int32]bool{},
	}
	var entry uint64
	var order, alias []byte
	for f := (lex.Field{Rest: lex.Last(message, 1).Bytes}); f.Next(); { // hlo_module
		switch f.ID {
		case 3: // computations
			m.computation(f.Bytes)
		case 6: // entry_computation_id
			entry = f.Number
		case 7: // schedule
			order = f.Bytes
		case 8: // input_output_alias
			alias = f.Bytes
		case 15: // device_assignment
			m.assign(f.Bytes)
		}
	}
	c := m.computations[int64(entry)]
	if c == nil {
		return nil
	}
	for _, c := range m.computations {
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
func signed(message []byte, number lex.Number) (list []int64) {
	var all []uint64
	for f := (lex.Field{Rest: message}); f.Next(); {
		if f.ID == number {
			all = lex.Varints(all, &f)
		}
	}
	for _, n := range all {
		list = append(list, int64(n))
	}
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

func readInstruction(message []byte) *hloInstruction {
	i := &hloInstruction{shape: &hloShape{}}
	i.operands, i.called = signed(message, 36), signed(message, 38) // operand_ids, called_computation_ids
	for f := (lex.Field{Rest: message}); f.Next(); {
		switch f.ID {
		case 1: // name
			i.name = string(f.Bytes)
		case 2: // opcode
			i.opcode = string(f.Bytes)
		case 3: // shape
			i.shape = readShape(f.Bytes, 0)
		case 7: // metadata: op_name
			i.path = string(lex.Last(f.Bytes, 2).Bytes)
		case 9, 13: // parameter_number, tuple_index
			i.index = max(i.index, int64(f.Number))
		case 26: // channel_id
			i.channel = int64(f.Number)
		case 28: // custom_call_target
			i.target = string(f.Bytes)
		case 30: // dot_dimension_numbers
			for k := range i.contracts {
				i.contracts[k] = signed(f.Bytes, lex.Number(k+1))
			}
		case 43: // backend_config
			i.configure(f.Bytes)
		case 49: // replica_groups
			i.groups = append(i.groups, signed(f.Bytes, 1))
		case 52: // source_target_pairs
			i.pairs = append(i.pairs, []int64{int64(lex.Last(f.Bytes, 1).Number), int64(lex.Last(f.Bytes, 2).Number)})
		case 71: // use_global_device_ids
			i.global = f.Number != 0
		case 87: // collective_device_list
			i.list = slices.Clone(f.Bytes)
		case 93: // the same along axes of a mesh
			i.list, i.mesh = slices.Clone(f.Bytes), true
		}
	}
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
	s := &hloShape{dims: signed(message, 3)} // dimensions
	for f := (lex.Field{Rest: message}); f.Next(); {
		switch {
		case f.ID == 2 && f.Number < uint64(len(hloTypes)): // element_type
			s.dtype = hloTypes[f.Number]
			s.size = int64(ElemSize(s.dtype))
		case f.ID == 4 && depth < maxNesting: // tuple_shapes
			s.parts = append(s.parts, readShape(f.Bytes, depth+1))
		}
	}
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

// deviceList reads the groups of a CollectiveDeviceListProto: lists, or an order of all devices that is cut into groups.
func deviceList(message []byte) (groups [][]int64) {
	for f := (lex.Field{Rest: message}); f.Next(); {
		switch f.ID {
		case 1: // replica_groups
			groups = append(groups, signed(f.Bytes, 1))
		case 2: // iota_replica_group_list: num_devices_per_group, iota_reshape_dims, iota_transpose_perm
			dims, perm := signed(f.Bytes, 3), signed(f.Bytes, 4)
			each, all := int64(lex.Last(f.Bytes, 2).Number), extentOf(dims, MaxRanks)
			if each < 1 || all%each != 0 || len(dims) != len(perm) {
				continue
			}
			for at := range all { // in the order behind the transposition
				id, rest := int64(0), at
				for k := len(perm) - 1; k >= 0; k-- {
					p := perm[k]
					if p < 0 || p >= int64(len(dims)) || dims[p] < 1 {
						return nil
					}
					id += rest % dims[p] * extentOf(dims[p+1:], MaxRanks)
					rest /= dims[p]
				}
				if at%each == 0 {
					groups = append(groups, nil)
				}
				groups[len(groups)-1] = append(groups[len(groups)-1], id)
			}
		}
	}
	return groups
}

// meshGroups reads groups along axes of a mesh: devices whose other coordinates are equal are a group.
func meshGroups(message []byte) (groups [][]int64) {
	var sizes []int64
	mesh := lex.Last(message, 1).Bytes // mesh: MeshProto
	for f := (lex.Field{Rest: mesh}); f.Next(); {
		if f.ID == 1 { // axes: name, size
			sizes = append(sizes, int64(lex.Last(f.Bytes, 2).Number))
		}
	}
	all, ids := extentOf(sizes, MaxRanks), signed(mesh, 2) // device_ids
	row := map[int64]int32{}
	for at := range all {
		rest := at
		for f := (lex.Field{Rest: message}); f.Next(); {
			if f.ID != 2 { // axes: AxisRefProto
				continue
			}
			axis, sub := int64(lex.Last(f.Bytes, 1).Number), lex.Last(f.Bytes, 2).Bytes // mesh_axis_index, sub_axis_info
			if axis < 0 || axis >= int64(len(sizes)) {
				return nil
			}
			stride, size := extentOf(sizes[axis+1:], MaxRanks), sizes[axis]
			if pre := int64(lex.Last(sub, 1).Number); pre > 0 { // pre_size, size
				part := min(max(1, int64(lex.Last(sub, 2).Number)), MaxRanks)
				stride, size = stride*max(1, size/min(pre*part, MaxRanks)), part
			}
			rest -= at / stride % size * stride
		}
		k := trace.Memo(row, rest, func() int32 { return trace.Push(&groups, nil) })
		id := at
		if int(at) < len(ids) {
			id = ids[at]
		}
		groups[k] = append(groups[k], id)
	}
	return groups
}

// mostIDs is more than the groups of the collectives of any program have together.
const mostIDs = 1 << 24

// groupsOf are the groups of a message, which instructions share.
func (m *hloModule) groupsOf(i *hloInstruction) [][]int64 {
	return trace.Memo(m.lists, string(i.list), func() (groups [][]int64) {
		if m.ids > mostIDs {
			return nil
		}
		if i.mesh {
			groups = meshGroups(i.list)
		} else {
			groups = deviceList(i.list)
		}
		for _, g := range groups {
			m.ids += len(g)
		}
		return groups
	})
}

// members are the ranks that a rank communicates with in a collective, ascending; nil if unknown.
func (m *hloModule) members(i *hloInstruction, rank int) (list []int) {
	groups := i.groups
	if i.list != nil {
		groups = m.groupsOf(i)
	}
	switch {
	case len(groups) == 0 && i.list != nil:
		return nil
	case len(groups) == 0:
		for r := range m.world() {
			list = append(list, r)
		}
		return list
	}
	own, scale := int64(rank), int64(1)
	switch {
	case i.global || m.replicas == 1 || m.partitions == 1: // of devices
	case i.channel == 0: // of replicas
		own, scale = own/m.partitions, m.partitions
	default: // of partitions
		return nil
	}
	for _, g := range groups {
		if slices.Contains(g, own) {
			for _, id := range g {
				list = append(list, int(id*scale+(int64(rank)-own*scale)))
			}
			slices.Sort(list)
			return list
		}
	}
	return nil
}

// collective is the instruction in an instruction that communicates, or nil: itself, what it starts, or what is fused in it.
func (m *hloModule) collective(i *hloInstruction) *hloInstruction {
	if hloOp(i.opcode) != trace.UnknownOp {
		return i
	}
	if i.opcode == "fusion" || i.opcode == "async-start" {
		for _, id := range i.called {
			if c := m.computations[id]; c != nil {
				if at := slices.IndexFunc(c.all, func(i *hloInstruction) bool { return hloOp(i.opcode) != trace.UnknownOp }); at >= 0 {
					return c.all[at]
				}
			}
		}
	}
	return nil
}

// hloOp is the collective that an opcode stands for.
func hloOp(opcode string) trace.CollectiveOp {
	switch strings.TrimSuffix(opcode, "-start") {
	case "all-reduce":
		return trace.AllReduce
	case "all-gather":
		return trace.AllGather
	case "reduce-scatter":
		return trace.ReduceScatter
	case "all-to-all", "ragged-all-to-all":
		return trace.AllToAll
	case "collective-permute", "send", "recv":
		return trace.SendRecv
	case "collective-broadcast":
		return trace.Broadcast
	}
	return trace.UnknownOp
}

// comm is the collective of an instruction, and its group, as a rank runs it.
func (m *hloModule) comm(i *hloInstruction, rank int) (*trace.Comm, trace.Group) {
	of := m.collective(i)
	if of == nil {
		return nil, trace.Group{}
	}
	c := &trace.Comm{Op: hloOp(of.opcode), Group: trace.None, Peer: trace.None, Even: of.opcode == "all-to-all"}
	out := of.shape
	if len(out.parts) > 1 && strings.HasSuffix(of.opcode, "-start") && of.opcode != "all-reduce-start" {
		out = out.parts[1] // the first is the operand
	}
	c.Out = out.bytes()
	for _, id := range of.operands {
		if o := m.byID[id]; o != nil {
			c.In += o.shape.bytes()
		}
	}
	for _, a := range out.arrays(nil) {
		c.DType, c.ElemSize = a.dtype, int32(a.size)
		break
	}
	ranks := m.members(of, rank)
	for _, p := range of.pairs {
		switch {
		case int(p[0]) == rank:
			c.Peer = rankID(strconv.FormatInt(p[1], 10))
		case int(p[1]) == rank && c.Peer == trace.None:
			c.Peer = rankID(strconv.FormatInt(p[0], 10))
		}
	}
	return c, groupOf(ranks)
}

// groupOf is the group of some ranks.
func groupOf(ranks []int) trace.Group {
	words := make([]string, len(ranks))
	for k, r := range ranks {
		words[k] = strconv.Itoa(r)
	}
	return trace.Group{Name: "devices " + strings.Join(words, ","), Ranks: ranks, Size: len(ranks)}
}

// operator is an instruction as an operator with the shapes of what it reads. The operands of a product of matrices are
// [batch, M, K] and [batch, K, N], whatever the order of their dimensions.
func (m *hloModule) operator(i *hloInstruction) trace.Operator {
	o := trace.Operator{Name: i.path}
	if o.Name == "" {
		o.Name = i.name
	}
	if a, b, dot := m.factors(i); dot != nil {
		if !strings.HasSuffix(o.Name, "/dot_general") { // JAX's word, which the lift looks for
			o.Name += "/dot_general"
		}
		c := &dot.contracts
		o.Dims = [][]int64{matrix(a.dims, c[2], c[0], false), matrix(b.dims, c[3], c[1], true)}
		o.Types = []string{a.dtype, b.dtype}
		return o
	}
	for k := range i.operands {
		if of := m.part(i, k); of != nil {
			for _, a := range of.arrays(nil) {
				o.Dims, o.Types = append(o.Dims, a.dims), append(o.Types, a.dtype)
			}
		}
	}
	return o
}

// part is the shape of what an instruction reads of an operand: of a table or a stack of layers, of which a fusion takes slices
// alone, the slices, and of a buffer in which it replaces a slice, that.
func (m *hloModule) part(i *hloInstruction, k int) *hloShape {
	of := m.at(i.operands, k)
	if of == nil {
		return nil
	}
	var parameter *hloInstruction
	if i.opcode == "fusion" && len(i.called) == 1 && m.computations[i.called[0]] != nil {
		all := m.computations[i.called[0]].all
		if at := slices.IndexFunc(all, func(p *hloInstruction) bool { return p.opcode == "parameter" && p.index == int64(k) }); at >= 0 {
			parameter = all[at]
		}
	}
	if parameter == nil {
		return of.shape
	}
	var part *hloShape
	for _, user := range parameter.of.all {
		switch first := m.at(user.operands, 0); {
		case !slices.ContainsFunc(user.operands, func(id int64) bool { return m.byID[id] == parameter }):
		case first == parameter && (user.opcode == "gather" || user.opcode == "slice" || user.opcode == "dynamic-slice"):
			part = user.shape
		case first == parameter && user.opcode == "dynamic-update-slice" && m.at(user.operands, 1) != nil:
			part = m.at(user.operands, 1).shape
		default:
			return of.shape
		}
	}
	if part == nil {
		return of.shape
	}
	return part
}

// factors are the two sides of the product of matrices that an instruction is or holds, and the instruction with its
// dimensions; nil if there is none, or several.
func (m *hloModule) factors(i *hloInstruction) (a, b *hloShape, dot *hloInstruction) {
	dot = i
	if i.opcode == "fusion" && len(i.called) == 1 && m.computations[i.called[0]] != nil {
		dot = nil
		for _, x := range m.computations[i.called[0]].all {
			if x.opcode == "dot" && dot != nil {
				return nil, nil, nil
			}
			if x.opcode == "dot" {
				dot = x
			}
		}
	}
	if dot == nil || len(dot.contracts[0]) == 0 {
		return nil, nil, nil
	}
	left, right := m.at(dot.operands, 0), m.at(dot.operands, 1)
	if left == nil || right == nil {
		return nil, nil, nil
	}
	return left.shape, right.shape, dot
}

// matrix orders the dimensions of one side of a product: batch, then rows and columns, of which the contracted ones are
// the rows of the right side.
func matrix(dims, batch, contracted []int64, right bool) []int64 {
	size := func(of []int64) []int64 {
		var list []int64
		for _, d := range of {
			if d >= 0 && d < int64(len(dims)) {
				list = append(list, dims[d])
			}
		}
		return list
	}
	var free []int64
	for d := range dims {
		if !slices.Contains(batch, int64(d)) && !slices.Contains(contracted, int64(d)) {
			free = append(free, int64(d))
		}
	}
	rows, columns := extentOf(size(free), MaxBytes), extentOf(size(contracted), MaxBytes)
	if right {
		rows, columns = columns, rows
	}
	if len(batch) == 0 {
		return []int64{rows, columns}
	}
	return []int64{extentOf(size(batch), MaxBytes), rows, columns}
}

// result is a new value of a shape: its arrays one behind the other in a storage.
func (m *hloModule) result(s *hloShape) *hloValue {
	m.storages++
	at := int64(0)
	var of func(s *hloShape) *hloValue
	of = func(s *hloShape) *hloValue {
		v := &hloValue{}
		if s.dtype != "" {
			n := min(s.bytes(), MaxBytes-at)
			v.hloBuffer, at = hloBuffer{m.storages, at, at + n}, at+n
		}
		for _, p := range s.parts {
			v.join(of(p))
		}
		return v
	}
	return of(s)
}

// valueOf is where the result of an instruction is: in buffers of its own, or in those of others.
func (m *hloModule) valueOf(i *hloInstruction, depth int) *hloValue {
	if i == nil || depth > maxNesting*maxNesting {
		return &hloValue{}
	}
	if v := m.values[i]; v != nil {
		return v
	}
	m.values[i] = &hloValue{} // of a program that depends on itself
	operand := func(k int) *hloValue {
		if k < 0 || k >= len(i.operands) {
			return &hloValue{}
		}
		return m.valueOf(m.byID[i.operands[k]], depth+1)
	}
	part := func(v *hloValue, k int64) *hloValue {
		if k < 0 || k >= int64(len(v.parts)) {
			return &hloValue{}
		}
		return v.parts[k]
	}
	root := func() *hloValue {
		if len(i.called) == 0 || m.computations[i.called[0]] == nil {
			return &hloValue{}
		}
		return m.valueOf(m.computations[i.called[0]].root, depth+1)
	}
	var v *hloValue
	switch i.opcode {
	case "parameter":
		switch caller := i.of.caller; {
		case caller == nil || caller.opcode == "fusion":
			v = m.result(i.shape)
		case caller.opcode == "while":
			v = m.valueOf(caller, depth+1)
		case caller.opcode == "conditional":
			v = m.valueOf(m.at(caller.operands, i.of.branch+1), depth+1)
		default:
			v = m.valueOf(m.at(caller.operands, int(i.index)), depth+1)
		}
	case "tuple":
		v = &hloValue{}
		for k := range i.operands {
			v.join(operand(k))
		}
	case "get-tuple-element":
		v = part(operand(0), i.index)
	case "bitcast", "opt-barrier", "domain", "add-dependency", "async-update", "all-reduce-done":
		v = operand(0)
	case "call":
		v = root()
	case "async-start":
		v = &hloValue{parts: []*hloValue{{}}}
		v.join(root())
	case "async-done", "all-gather-done", "collective-permute-done":
		v = part(operand(0), 1)
	case "copy-done":
		v = part(operand(0), 0)
	default:
		v = m.result(i.shape)
	}
	m.values[i] = v
	return v
}

// join appends a part, unless a tuple holds it so often that no program has it.
func (v *hloValue) join(part *hloValue) {
	const most = 1 << 16
	if v.size += part.size + 1; v.size > most {
		part = &hloValue{}
	}
	v.parts = append(v.parts, part)
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

// carry finds to where values go on: what the body of a loop returns to the next iteration, what a branch returns, and what
// the entry returns in the place of its parameters to the next run.
func (m *hloModule) carry(entry *hloComputation, alias []byte) {
	ids := make([]int64, 0, len(m.byID))
	for id := range m.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids) // the order gives the storages their numbers
	for _, id := range ids {
		i := m.byID[id]
		if i.opcode != "while" && i.opcode != "conditional" {
			continue
		}
		to := m.valueOf(i, 0)
		for _, b := range to.buffers(nil) {
			m.persists[b.storage] = true
		}
		if i.opcode == "while" {
			m.goesOn(m.valueOf(m.at(i.operands, 0), 0), to)
		}
		for _, id := range i.called {
			if c := m.computations[id]; c != nil {
				m.goesOn(m.valueOf(c.root, 0), to)
			}
		}
	}
	parameters := map[int64]*hloInstruction{}
	for _, i := range entry.all {
		if i.opcode == "parameter" {
			parameters[i.index] = i
			for _, b := range m.valueOf(i, 0).buffers(nil) {
				m.persists[b.storage] = true
			}
		}
	}
	for f := (lex.Field{Rest: alias}); f.Next(); { // entries: output_shape_index, parameter_number, parameter_shape_index
		if p := parameters[int64(lex.Last(f.Bytes, 2).Number)]; p != nil {
			m.goesOn(m.valueOf(entry.root, 0).element(signed(f.Bytes, 1)), m.valueOf(p, 0).element(signed(f.Bytes, 3)))
		}
	}
}

// element is what of a tuple has an index of each level.
func (v *hloValue) element(index []int64) *hloValue {
	for _, k := range index {
		if k < 0 || k >= int64(len(v.parts)) {
			return &hloValue{}
		}
		v = v.parts[k]
	}
	return v
}

// goesOn notes that what is written to one value is in another one then.
func (m *hloModule) goesOn(from, to *hloValue) {
	if a, b := from.hloBuffer, to.hloBuffer; a.storage != 0 && b.storage != 0 && a != b {
		m.carried[a] = append(m.carried[a], b)
	}
	for k := range min(len(from.parts), len(to.parts)) {
		m.goesOn(from.parts[k], to.parts[k])
	}
}

// buffers appends the buffers of a value.
func (v *hloValue) buffers(list []hloBuffer) []hloBuffer {
	if v.storage != 0 && v.to > v.from {
		list = append(list, v.hloBuffer)
	}
	for _, p := range v.parts {
		list = p.buffers(list)
	}
	return list
}

// accesses are what an instruction reads and writes.
func (m *hloModule) accesses(i *hloInstruction) (list []trace.Access) {
	access := func(b hloBuffer) trace.Access {
		a := trace.Access{Storage: b.storage, From: b.from, To: b.to}
		if !m.persists[b.storage] {
			a.Life = 1
		}
		return a
	}
	for _, id := range i.operands {
		for _, b := range m.valueOf(m.byID[id], 0).buffers(nil) {
			a := access(b)
			a.Read = true
			list = append(list, a)
		}
	}
	writes := m.valueOf(i, 0).buffers(nil)
	for k := 0; k < len(writes); k++ {
		b := writes[k]
		a := access(b)
		a.Write = true
		list = append(list, a)
		for _, next := range m.carried[b] {
			if !slices.Contains(writes, next) {
				writes = append(writes, next)
			}
		}
	}
	return unique(list)
}
