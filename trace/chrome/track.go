package chrome

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// A place is the group of timeline rows that an event belongs to.
type place uint8

const (
	onHost      place = iota
	onDevice          // kernels and copies
	aboveDevice       // annotations and stream waits, which overlap kernels
	ofProfiler        // events about the profiler itself
	elsewhere         // of a trace that is not from Kineto: resolved in finish
	numPlaces
)

// A track is one (rank, pid, tid) of the file in one place.
type track struct {
	place    place
	rank     int32  // args.rank, or None
	pid, tid string // raw, without quotes
	device   int32
	stream   int64
	lane     trace.LaneID
	category string // of asynchronous events
}

type recentTrack struct {
	key []byte
	id  trace.LaneID
}

// track returns the event's track, adding it if it is new.
func (d *reader) track(e *event, p place) trace.LaneID {
	pid, tid := lex.Unquote(e.pid), lex.Unquote(e.tid)
	k := append(d.key[:0], byte(p))
	k = append(k, pid...)
	k = append(k, 0)
	k = append(k, tid...)
	if e.args.original != nil { // the row is for display, and joins work of several streams
		k = append(append(k, 0, 0), e.args.original...)
	}
	if e.args.pidRaw != nil { // pids of a fused file may collide
		k = append(k, 0)
		k = append(k, e.args.rank...)
	}
	d.key = k
	if r := &d.recent[p]; bytes.Equal(r.key, k) {
		return r.id
	}
	id := d.named(k, func() track { return newTrack(e, p) })
	d.recent[p].key = append(d.recent[p].key[:0], k...)
	d.recent[p].id = id
	return id
}

func newTrack(e *event, p place) track {
	t := track{place: p, rank: trace.None, device: trace.None, pid: string(lex.Unquote(e.pid)), tid: string(lex.Unquote(e.tid))}
	device := e.pid
	if e.args.pidRaw != nil {
		device = e.args.pidRaw
		if n, ok := lex.Integer(e.args.rank); ok && n >= 0 && n <= math.MaxInt32 {
			t.rank = int32(n)
		}
	}
	if rank, pid, ok := mergedPid(t.pid); ok {
		t.rank, device = rank, pid
	}
	if e.args.device != nil {
		device = e.args.device
	}
	if (p == onDevice || p == aboveDevice) || e.args.device != nil {
		t.device = small(device)
	}
	var ok bool
	if t.stream, ok = lex.Integer(e.args.original); ok {
		return t
	}
	if t.stream, ok = lex.Integer(e.args.stream); !ok {
		t.stream, _ = lex.Trailing(t.tid)
	}
	return t
}

// mergedPid splits a process of a file that SGLang merged of all ranks' profiles (its
// --merge-profiles): "[TP03-DP00-PP00-EP03] 65212" is process 65212 of rank 3. The ranks of a
// pipeline's stages follow each other in blocks of a thousand, which processes closes up.
func mergedPid(pid string) (rank int32, in []byte, ok bool) {
	label, process, _ := strings.Cut(pid, "] ")
	if label, ok = strings.CutPrefix(label, "["); !ok || process == "" {
		return 0, nil, false
	}
	ok = false // until its rank among those that split a layer
	for _, part := range strings.Split(label, "-") {
		n, err := strconv.ParseUint(part[min(2, len(part)):], 10, 31)
		if err != nil || n >= maxMerged {
			return 0, nil, false
		}
		switch part[:2] {
		case "TP":
			rank, ok = rank+int32(n), true
		case "PP":
			rank += int32(n) * maxMerged
		}
	}
	return rank, []byte(process), ok
}

// maxMerged is more ranks than a stage of a merged file has.
const maxMerged = 1000
