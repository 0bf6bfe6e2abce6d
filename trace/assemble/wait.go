package assemble

import "github.com/overlapse/overlapse/trace"

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
