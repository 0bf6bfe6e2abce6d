package assemble

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/overlapse/overlapse/trace"
)

// A processGPU is a process and one GPU that it used: a row of Run.Ranks.
type processGPU struct{ process, agent int32 }

// ranks adds the rank rows, one for each GPU that a process used, in order of rank,
// process id and GPU, and returns the row of each processGPU. A process without GPU
// work has a processGPU without agent.
func (s *Session) ranks() map[processGPU]int32 {
	used := map[processGPU]bool{}
	for _, t := range s.Tracks {
		if t.Kind == QueueTrack && t.Agent != trace.None {
			used[s.gpu(t.Process, t.Agent)] = true
		}
	}
	for i := range s.Tracks {
		if t := &s.Tracks[i]; t.Kind == engineTrack {
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
	gpus := slices.SortedFunc(maps.Keys(used), s.compareGPUs)
	numbered, listed, busiest := s.numberedByFile(gpus), s.countGPUs(), s.busiest()
	rows := make(map[processGPU]int32, len(gpus))
	for i, k := range gpus {
		p := &s.Processes[k.process]
		r := trace.Rank{ID: p.Rank, World: p.World, Source: p.Source, Host: p.Host, Process: p.ID, Compiler: p.Compiler}
		if !numbered {
			r.ID = i
		}
		switch {
		case p.Device != nil:
			r.Device = p.Device(busiest[k.process])
		case k.agent != trace.None:
			r.Device = s.Agents[k.agent].Device
			r.NodeGPUs = listed[k.process]
		}
		r.Device.RuntimeVersion = cmp.Or(r.Device.RuntimeVersion, s.Runtime)
		rows[k] = s.Builder.AddRank(r)
	}
	if !numbered {
		s.Builder.Note(trace.Noted, s.Name, "ranks are numbered by process and GPU: the files have no rank ids", "", 0)
	}
	return rows
}

// gpu is the processGPU of an agent.
func (s *Session) gpu(process, agent int32) processGPU {
	if s.Processes[process].Device != nil {
		agent = trace.None
	}
	return processGPU{process, agent}
}

// busiest is, by process, the number of the GPU that ran most of its work; the lowest on a tie,
// and 0 without work.
func (s *Session) busiest() []int32 {
	work := make([]int, len(s.Agents))
	for i := range s.Builder.Len() {
		if span := s.Builder.Span(trace.SpanID(i)); span.Kind.OnDevice() && s.Tracks[span.Lane].Agent != trace.None {
			work[s.Tracks[span.Lane].Agent]++
		}
	}
	number, most := make([]int32, len(s.Processes)), make([]int, len(s.Processes))
	for i, n := range work {
		a := &s.Agents[i]
		if n > most[a.Process] || n > 0 && n == most[a.Process] && a.Ordinal < number[a.Process] {
			number[a.Process], most[a.Process] = a.Ordinal, n
		}
	}
	return number
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
func (s *Session) gpuOf(t *Track, used map[processGPU]bool) processGPU {
	near, far := processGPU{t.Process, t.Agent}, processGPU{t.Process, t.other}
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
	return processGPU{t.Process, trace.None}
}

// lanes assigns a lane to every track and to every span the lane of its track.
func (s *Session) lanes(rows map[processGPU]int32) []trace.LaneID {
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
	var order []int32 // lanes must not depend on the order of records
	ids := make([]trace.LaneID, len(s.Tracks))
	lanes := make([]trace.Lane, len(s.Tracks))
	for i := range s.Tracks {
		t := &s.Tracks[i]
		if ids[i] = trace.None; t.Kind == noTrack {
			continue
		}
		order = append(order, int32(i))
		l := trace.Lane{Rank: firstRow[t.Process], ID: t.ID, Peer: trace.None, Name: t.Name}
		switch t.Kind {
		case QueueTrack:
			l.Kind = trace.Queue
			s.place(&l, s.gpu(t.Process, t.Agent), t.Agent, rows)
		case engineTrack:
			l.Kind, l.Name = trace.Engine, trace.CopyDir(t.ID).String()
			k := s.gpuOf(t, used)
			s.place(&l, k, k.agent, rows)
		case ThreadTrack:
			l.Kind, l.Device = trace.HostThread, t.Device
		case AnnotationTrack:
			l.Kind = trace.Annotation
			s.place(&l, s.gpu(t.Process, t.Agent), t.Agent, rows)
		}
		lanes[i] = l
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := &lanes[a], &lanes[b]
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Device, y.Device), cmp.Compare(x.ID, y.ID),
			cmp.Compare(s.Tracks[a].Thread, s.Tracks[b].Thread), cmp.Compare(a, b))
	})
	for n, i := range order {
		if l := &lanes[i]; n > 0 && s.Tracks[i].Thread != "" {
			if before := lanes[order[n-1]]; before.Rank == l.Rank && before.Kind == l.Kind &&
				before.Device == l.Device && before.ID == l.ID {
				if l.Sub = before.Sub; s.Tracks[i].Thread != s.Tracks[order[n-1]].Thread {
					l.Sub++
				}
			}
		}
		ids[i] = s.Builder.Lane(lanes[i])
	}
	for i := range s.Builder.Len() {
		span := s.Builder.Span(trace.SpanID(i))
		span.Lane = ids[span.Lane]
	}
	return ids
}

// place sets the rank row of a lane from a processGPU, if it has one, and the device from the agent.
func (s *Session) place(l *trace.Lane, k processGPU, agent int32, rows map[processGPU]int32) {
	row, ok := rows[k]
	if !ok || agent == trace.None {
		return
	}
	l.Rank, l.Device = row, s.Agents[agent].Ordinal
}

// A Description is a file's description of an agent, separate from the records that
// refer to it.
type Description struct {
	GPU     bool
	Logical int64 // number among all agents of the process, CPUs included
	OfKind  int64 // number among agents of its kind; trace.None if unknown
	Device  trace.Device
}

// Describe stores a description until Finish: records and descriptions may come in any
// order.
func (s *Session) Describe(process int32, d Description) {
	if s.descriptions == nil {
		s.descriptions = map[int32][]Description{}
	}
	s.descriptions[process] = append(s.descriptions[process], d)
}

// describeAgents matches agents with their descriptions. Records refer to an agent by
// its logical number ("Agent 4" or 4), by its absolute number if rocprofv3 wrote that,
// or by its number among GPUs ("GPU 3").
func (s *Session) describeAgents() {
	for _, all := range s.descriptions {
		slices.SortFunc(all, func(a, b Description) int { return cmp.Compare(a.Logical, b.Logical) })
		gpus := int64(0)
		for i := range all {
			if all[i].GPU && all[i].OfKind == trace.None {
				all[i].OfKind = gpus
			}
			if all[i].GPU {
				gpus++
			}
		}
	}
	for i := range s.Agents {
		a := &s.Agents[i]
		a.join(s.descriptions[a.Process])
	}
}

func (a *Agent) join(all []Description) {
	number := strconv.Itoa(int(a.Ordinal))
	i := slices.IndexFunc(all, func(d Description) bool {
		switch a.Key {
		case "GPU " + number:
			return d.GPU && d.OfKind == int64(a.Ordinal)
		case "CPU " + number:
			return !d.GPU && d.OfKind == int64(a.Ordinal)
		}
		return d.Logical == int64(a.Ordinal)
	})
	if i < 0 {
		return
	}
	a.GPU, a.Ordinal, a.Device = all[i].GPU, Narrow(all[i].OfKind), all[i].Device
}

// A gpuWait is a wait of a stream of a GPU, or of the host for it.
type gpuWait struct {
	processGPU
	wait trace.Wait
}

// AddWait adds a wait on a GPU. Finish gives it the rank and the number of the GPU; waits of GPUs
// without work have neither and are left out.
func (s *Session) AddWait(process, agent int32, w trace.Wait) {
	w.Call, w.Recorded = trace.None, trace.None
	s.waits = append(s.waits, gpuWait{processGPU{process, agent}, w})
}

// placeWaits hands the waits to the builder once ranks are known.
func (s *Session) placeWaits(rows map[processGPU]int32) {
	for _, w := range s.waits {
		if row, ok := rows[s.gpu(w.process, w.agent)]; ok {
			w.wait.Rank, w.wait.Device = row, s.Agents[w.agent].Ordinal
			s.Builder.AddWait(w.wait)
		}
	}
}
