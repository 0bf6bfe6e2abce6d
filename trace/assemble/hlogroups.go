package assemble

import (
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

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
