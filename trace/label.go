package trace

import (
	"fmt"
	"path"
)

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
	label := l.Name
	if label == "" {
		label = r.unnamed(l)
	}
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
