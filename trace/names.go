package trace

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// CollectiveOpIn reads the operation from a framework's name for it, such as
// allreduce, _allgather_base or reduce_scatter_tensor_coalesced, from a call of
// NCCL or RCCL, or from the name of a kernel.
func CollectiveOpIn(name string) CollectiveOp {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "")
	for _, o := range [...]struct {
		word string
		op   CollectiveOp
	}{
		{"allreduce", AllReduce},
		{"reducescatter", ReduceScatter},
		{"allgather", AllGather},
		{"alltoall", AllToAll},
		{"sendrecv", SendRecv},
		{"broadcast", Broadcast},
		{"barrier", Barrier},
		{"send", SendRecv},
		{"recv", SendRecv},
		{"crossdevicereduce", AllReduce},
		{"reduce", Reduce},
		{"gather", Gather},
		{"scatter", Scatter},
	} {
		if strings.Contains(name, o.word) {
			return o.op
		}
	}
	return UnknownOp
}

var (
	rankWord   = regexp.MustCompile(`(?i)rank[_.-]?(\d{1,6})`)
	tensorRank = regexp.MustCompile(`-TP-(\d{1,6})`)
	laterStage = regexp.MustCompile(`-PP-[1-9]`)
	rankFolder = regexp.MustCompile(`(?i)^rank[_.-]?(\d{1,6})$`)
)

// RankInName reads the rank from the name of a file such as rank-3.json.gz, or of its
// folder such as rank-3, or from SGLang's names, 1758.5-TP-3-EP-0.trace.json.gz, without stages of a
// pipeline. It returns None if nothing has one.
func RankInName(file string) int {
	file = strings.ReplaceAll(file, `\`, "/")
	if m := rankWord.FindStringSubmatch(path.Base(file)); m != nil {
		return rankNumber(m[1])
	}
	if rank := RankOfFolder(path.Base(path.Dir(file))); rank != None {
		return rank
	}
	if m := tensorRank.FindStringSubmatch(path.Base(file)); m != nil && !laterStage.MatchString(path.Base(file)) {
		return rankNumber(m[1])
	}
	return None
}

// RankOfFolder reads the rank from the name of a folder such as rank_3, or returns None.
func RankOfFolder(name string) int {
	if m := rankFolder.FindStringSubmatch(name); m != nil {
		return rankNumber(m[1])
	}
	return None
}

func rankNumber(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return None
	}
	return n
}

// Direction reads the direction of a copy from its name, such as Memcpy HtoD, CopyHostToDevice
// or MEMORY_COPY_HOST_TO_DEVICE.
func Direction(name string) CopyDir {
	plain := strings.ReplaceAll(strings.ToLower(name), "_", "")
	for _, d := range [...]struct {
		short, long string
		dir         CopyDir
	}{
		{"HtoD", "hosttodevice", HostToDevice},
		{"DtoH", "devicetohost", DeviceToHost},
		{"DtoD", "devicetodevice", DeviceToDevice},
		{"PtoP", "peertopeer", PeerToPeer},
		{"HtoH", "hosttohost", HostToHost},
	} {
		if strings.Contains(name, d.short) || strings.Contains(plain, d.long) {
			return d.dir
		}
	}
	return UnknownDir
}

// RankID is a rank's number in its job, or its row if no file gives one.
func (r *Run) RankID(row int32) int {
	if id := r.Ranks[row].ID; id != None {
		return id
	}
	return int(row)
}

// RankLabel is the heading of a rank: its number, or its file if the number is unknown,
// and its device.
func (r *Run) RankLabel(row int32) string {
	rank := &r.Ranks[row]
	label := fmt.Sprintf("rank %d", r.RankID(row))
	if rank.ID == None && rank.Source != "" {
		label = path.Base(rank.Source)
	}
	if rank.Device.Name != "" {
		label += " · " + rank.Device.Name
	}
	return label
}

// LaneLabel is the label of a lane's row: its name, or its kind and id.
func (r *Run) LaneLabel(id LaneID) string {
	l := &r.Lanes[id]
	label := cmp.Or(l.Name, r.unnamed(l))
	if l.Sub > 0 && l.Kind != Slot {
		label += fmt.Sprintf(" +%d", l.Sub)
	}
	return label
}

func (r *Run) unnamed(l *Lane) string {
	switch l.Kind {
	case Queue:
		return fmt.Sprintf("stream %d", l.ID)
	case Slot:
		return fmt.Sprintf("CU %d.%d", l.ID, l.Sub)
	case Persistent:
		return fmt.Sprintf("WG %d", l.ID)
	case Link:
		if l.Peer >= 0 && int(l.Peer) < len(r.Ranks) {
			return fmt.Sprintf("link to rank %d", r.RankID(l.Peer))
		}
	case Annotation:
		if l.ID == None {
			return "annotations"
		}
		return fmt.Sprintf("annotations %d", l.ID)
	}
	return fmt.Sprintf("%s %d", l.Kind, l.ID)
}
