package replay

import (
	"fmt"

	"github.com/overlapse/overlapse/replay/program"
)

// Scripts
//
// The phases of a tile are generated when a workgroup needs them and are not stored per
// workgroup. Only the last generated script is kept, and the phases of tiles in which a
// workgroup waits often.

// nextTile generates the phases of the workgroup's next tile, prologue or epilogue; false
// if there is none (rule D12).
func (s *sim) nextTile(id int32, w *workgroup, l *launch) bool {
	k := l.kernel
	if w.span != none {
		s.record.end(w.span, s.now)
		w.span = none
	}
	w.next, w.n, w.far, w.keeps = 0, 0, none, false
	switch w.stage {
	case arriving:
		w.stage = tiling
		if k.Prologue != nil && k.Tiles > 0 {
			return s.fetch(id, w, l, none)
		}
		fallthrough
	case tiling:
		if tile, ok := l.nextTile(w); ok {
			return s.fetch(id, w, l, tile)
		}
		w.stage = leaving
		if k.Epilogue != nil && k.Tiles > 0 {
			return s.fetch(id, w, l, none)
		}
	}
	return false
}

// nextTile is the index of the workgroup's next tile.
func (l *launch) nextTile(w *workgroup) (tile int, ok bool) {
	k := l.kernel
	round := int(w.rounds)
	w.rounds++
	switch {
	case k.Tiles == 0:
		return int(w.index), round == 0
	case round < l.owned:
		tile = int(w.index) + round*k.WGs
	default:
		tile = l.ticket
		l.ticket++
	}
	return tile, tile < k.Tiles
}

func (s *sim) fetch(id int32, w *workgroup, l *launch, tile int) bool {
	w.tile = int32(tile)
	phases := s.phases(id, w, l)
	w.n = int32(len(phases))
	unchecked, alike := phases, l.kernel.Recipe == nil && tile != none
	switch {
	case alike && l.checked:
		unchecked = nil
	case alike:
		unchecked = l.kernel.Each
	}
	l.checked = alike
	for i := range unchecked {
		if err := s.program.CheckPhase(&unchecked[i], s.flows.inner.topology); err != nil {
			where := fmt.Sprintf("tile %d", tile)
			if tile == none {
				where = fmt.Sprintf("workgroup %d", w.index)
			}
			s.fail(fmt.Errorf("%s: %s: phase %d: %w", s.streams[l.stream].Where(int(l.gpu), l.command), where, i, err))
			return false
		}
	}
	if s.record.deep[l.gpu] && w.slot != none && len(phases) > 0 {
		s.record.tile(w, l, &s.gpus[l.gpu].cus[w.cu], s.now)
	}
	if len(phases) > manyHalts && halts(phases) > manyHalts {
		w.keeps = true
		if n := len(s.wgs.all); n > len(s.kept) {
			s.kept = append(s.kept, make([][]program.Phase, n-len(s.kept))...)
		}
		s.kept[id] = append(s.kept[id][:0], phases...)
	}
	return true
}

// halts is the number of phases that may take time.
func halts(phases []program.Phase) int {
	n := 0
	for i := range phases {
		if op := phases[i].Op; op != program.PostTo && op != program.Put {
			n++
		}
	}
	return n
}

// A script is the phases generated last: those of a tile or, if tile is none, of a
// workgroup's prologue or epilogue.
type script struct {
	kernel *program.Kernel
	stage  stage
	tile   int32
	index  int32
	phases []program.Phase
}

// manyHalts is the number of waits in a tile from which a workgroup keeps the tile's
// phases instead of generating them again after each wait.
const manyHalts = 8

// phases returns the phases of the workgroup's current script. The slice is valid until
// the next call.
func (s *sim) phases(id int32, w *workgroup, l *launch) []program.Phase {
	if w.keeps {
		return s.kept[id]
	}
	k := l.kernel
	if k.Recipe == nil && w.tile != none {
		return k.Of(int(w.tile))
	}
	x := &s.script
	if x.kernel == k && x.tile == w.tile && (w.tile != none || x.index == w.index && x.stage == w.stage) {
		return x.phases
	}
	x.kernel, x.stage, x.tile, x.index = k, w.stage, w.tile, w.index
	switch {
	case w.tile != none:
		x.phases = k.Recipe(int(w.tile), x.phases[:0])
	case w.stage == tiling:
		x.phases = k.Prologue(int(w.index), x.phases[:0])
	default:
		x.phases = k.Epilogue(int(w.index), x.phases[:0])
	}
	return x.phases
}

// current is the workgroup's current phase.
func (s *sim) current(id int32) *program.Phase {
	w := s.wgs.at(id)
	return &s.phases(id, w, s.kernels.at(w.launch))[w.next]
}
