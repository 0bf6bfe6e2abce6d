package chrome

import (
	"strconv"

	"github.com/overlapse/overlapse/trace"
)

// rankLabel is what a rank is called in a heading.
func rankLabel(r trace.Rank, row int) string {
	id := r.ID
	if id == trace.None {
		id = row
	}
	name := "rank " + strconv.Itoa(id)
	if r.Run != "" {
		name = r.Run + " · " + name
	}
	if r.Device.Name != "" {
		name += " · " + r.Device.Name
	}
	return name
}

// laneLabel is what a lane is called beside its row.
func laneLabel(run *trace.Run, l trace.Lane) string {
	id := strconv.FormatInt(l.ID, 10)
	var name string
	switch l.Kind {
	case trace.Queue:
		name = "stream " + id
	case trace.Slot:
		name = "CU " + id + " slot " + strconv.Itoa(int(l.Sub))
	case trace.Link:
		name = "link"
		if l.Peer != trace.None {
			name += " to " + rankLabel(run.Ranks[l.Peer], int(l.Peer))
		}
	case trace.Annotation:
		name = "annotations of stream " + id
		if l.ID == trace.None {
			name = "profiler"
		}
	default:
		name = l.Kind.String() + " " + id
	}
	if l.Sub > 0 && l.Kind != trace.Slot {
		name += " (" + strconv.Itoa(int(l.Sub)+1) + ")"
	}
	if l.Name != "" {
		name = l.Name + " · " + name
	}
	return name
}
