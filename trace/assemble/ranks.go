package assemble

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A processGPU is a process and one GPU that it used: a row of Run.Ranks.
type processGPU struct{ process, agent int32 }

// ranks adds the rank rows, one for each GPU that a process used, in order of rank,
// process id and GPU, and returns the row of each processGPU. A process without GPU
// work has a processGPU without agent.
func (s *Session) ranks() map[processGPU]int32 {
	used := map[processGPU]bool{}
	for _, t := range s.tracks {
		if t.kind == queueTrack && t.agent != trace.None {
			used[processGPU{t.process, t.agent}] = true
		}
	}
	for i := range s.tracks {
		if t := &s.tracks[i]; t.kind == engineTrack {
			if end := s.gpuOf(t, used); end.agent != trace.None {
				used[end] = true
			}
		}
	}
	hasGPU := make([]bool, len(s.Processes))
	for k := range used {
		hasGPU[k.process] = true
	}
	for i := range s.Processes {
		if !hasGPU[i] {
			used[processGPU{int32(i), trace.None}] = true
		}
	}
	gpus := make([]processGPU, 0, len(used))
	for k := range used {
		gpus = append(gpus, k)
	}
	slices.SortFunc(gpus, s.compareGPUs)
	numbered, listed := s.numberedByFile(gpus), s.countGPUs()
	rows := make(map[processGPU]int32, len(gpus))
	for i, k := range gpus {
		p := &s.Processes[k.process]
		r := trace.Rank{ID: p.Rank, World: p.World, Source: p.Source, Host: p.Host, Process: p.ID}
		if !numbered {
			r.ID = i
		}
		if k.agent != trace.None {
			r.Device = s.Agents[k.agent].Device
			r.NodeGPUs = listed[k.process]
		}
		rows[k] = s.Builder.AddRank(r)
	}
	if !numbered {
		s.Builder.Note(trace.Noted, s.Name, "ranks are numbered by process and GPU: the files have no rank ids", "", 0)
	}
	return rows
}

// countGPUs is, by process, the number of GPUs that the files list for it.
func (s *Session) countGPUs() []int {
	gpus := make([]int, len(s.Processes))
	for i := range s.Agents {
		if a := &s.Agents[i]; a.GPU {
			gpus[a.Process]++
		}
	}
	for process, all := range s.descriptions {
		described := 0
		for _, d := range all {
			if d.GPU {
				described++
			}
		}
		gpus[process] = max(gpus[process], described)
	}
	return gpus
}

func (s *Session) compareGPUs(a, b processGPU) int {
	p, q := &s.Processes[a.process], &s.Processes[b.process]
	if c := cmp.Or(cmp.Compare(p.Rank, q.Rank), cmp.Compare(p.ID, q.ID), cmp.Compare(p.Key, q.Key)); c != 0 || a.agent == b.agent {
		return c
	}
	x, y := &s.Agents[a.agent], &s.Agents[b.agent] // two GPUs of one process have agents
	return cmp.Or(cmp.Compare(x.Ordinal, y.Ordinal), cmp.Compare(x.Key, y.Key))
}

// numberedByFile reports whether the files give each processGPU a rank, or there is
// only one processGPU.
func (s *Session) numberedByFile(gpus []processGPU) bool {
	if len(gpus) == 1 {
		return true
	}
	seen := map[int]bool{trace.None: true}
	for _, k := range gpus {
		rank := s.Processes[k.process].Rank
		if seen[rank] {
			return false
		}
		seen[rank] = true
	}
	return true
}

// gpuOf returns the GPU that an engine's track belongs to: the end on which the process
// ran kernels, else the nearer end.
func (s *Session) gpuOf(t *track, used map[processGPU]bool) processGPU {
	near, far := processGPU{t.process, t.agent}, processGPU{t.process, t.other}
	isGPU := func(k processGPU) bool { return k.agent != trace.None && s.Agents[k.agent].GPU }
	switch {
	case isGPU(near) && used[near]:
		return near
	case isGPU(far) && used[far]:
		return far
	case isGPU(near):
		return near
	case isGPU(far):
		return far
	}
	return processGPU{t.process, trace.None}
}

// lanes assigns a lane to every track and to every span the lane of its track.
func (s *Session) lanes(rows map[processGPU]int32) {
	firstRow := make([]int32, len(s.Processes)) // of the process
	for i := range firstRow {
		firstRow[i] = trace.None
	}
	used := make(map[processGPU]bool, len(rows))
	for k, row := range rows {
		used[k] = true
		if f := firstRow[k.process]; f == trace.None || row < f {
			firstRow[k.process] = row
		}
	}
	order := make([]int32, len(s.tracks)) // lanes must not depend on the order of records
	for i := range order {
		order[i] = int32(i)
	}
	lanes := make([]trace.Lane, len(s.tracks))
	for i := range s.tracks {
		t := &s.tracks[i]
		lanes[i] = trace.Lane{Rank: firstRow[t.process], ID: t.id, Peer: trace.None}
		l := &lanes[i]
		switch t.kind {
		case queueTrack:
			l.Kind = trace.Queue
			s.place(l, processGPU{t.process, t.agent}, rows)
		case engineTrack:
			l.Kind, l.Name = trace.Engine, trace.CopyDir(t.id).String()
			s.place(l, s.gpuOf(t, used), rows)
		case threadTrack:
			l.Kind, l.Name = trace.HostThread, t.name
		case rangeTrack:
			l.Kind, l.Name = trace.Annotation, "memory"
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := &lanes[a], &lanes[b]
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Device, y.Device), cmp.Compare(x.ID, y.ID), cmp.Compare(a, b))
	})
	ids := make([]trace.LaneID, len(s.tracks))
	for _, i := range order {
		ids[i] = s.Builder.Lane(lanes[i])
	}
	for i := range s.Builder.Len() {
		span := s.Builder.Span(trace.SpanID(i))
		span.Lane = ids[span.Lane]
	}
}

// place sets the rank row and device of a lane from a processGPU, if it has them.
func (s *Session) place(l *trace.Lane, k processGPU, rows map[processGPU]int32) {
	row, ok := rows[k]
	if !ok {
		return
	}
	l.Rank = row
	if k.agent != trace.None {
		l.Device = s.Agents[k.agent].Ordinal
	}
}
