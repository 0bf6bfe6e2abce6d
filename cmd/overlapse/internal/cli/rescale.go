package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// rescaled is the workload of --ranks and --retarget, and its machine. m is the machine of
// the capture.
func (r *Reader) rescaled(f Flags, w *workload.Workload, m machine.Machine) (*workload.Workload, machine.Machine, error) {
	if f.Ranks == "" && f.Retarget == "" {
		return w, m, nil
	}
	if IsYAML(f.Path) {
		return nil, m, Errorf("%s is a workload file, without captured durations: set ranks: in it, and give --machine", f.Path)
	}
	if f.Retarget != "" && m.Guess != "" {
		return nil, m, Errorf("--retarget scales the durations of the captured GPU: %s (name it: --machine %s, if it is that)",
			m.Guess, m.Name)
	}
	world, lifted := w.World, w
	var resized *edit.Resized
	if f.Ranks != "" {
		group, n, err := parseRanks(f.Ranks)
		if err != nil {
			return nil, m, err
		}
		run, z, err := edit.Ranks(w.Run, w.World, group, n)
		if err != nil {
			return nil, m, Errorf("--ranks %s: %w", f.Ranks, err)
		}
		if z.Ranks == z.Was && f.Retarget == "" {
			r.Notef("--ranks %s: as many as captured", f.Ranks)
			return w, m, nil
		}
		if lifted, err = lift.Workload(run, f.lift); err != nil {
			return nil, m, LiftError(f.Path, err)
		}
		resized, world = z, lifted.World
	}
	to, err := r.target(f.Retarget, m, world)
	if err != nil {
		return nil, m, err
	}
	if resized == nil {
		scaled := edit.To(w, m, to)
		if scaled.Rescaled.Same {
			r.Notef("--retarget %s changes no duration: the trace was captured on %s", f.Retarget, m.Name)
			return w, to, nil
		}
		return scaled, to, nil
	}
	return resized.Lifted(lifted, w, m, to), to, nil
}

// target is the machine of --retarget or, without it, that of the capture, with enough GPUs.
func (r *Reader) target(name string, m machine.Machine, ranks int) (machine.Machine, error) {
	if name != "" {
		if !isPath(name) && !machine.Sized(name) {
			name = fmt.Sprintf("%s:%d", name, ranks)
		}
		return r.MachineNamed(name, ranks)
	}
	if m.GPUs >= ranks {
		return m, nil
	}
	to, err := m.Sized(ranks)
	if err != nil {
		return m, Wrap(err)
	}
	r.noteNetwork(&to)
	return to, nil
}

// parseRanks reads N or GROUP=N.
func parseRanks(s string) (group string, n int, err error) {
	number := s
	if i := strings.LastIndexByte(s, '='); i >= 0 {
		group, number = s[:i], s[i+1:]
	}
	n, err = strconv.Atoi(strings.TrimSpace(number))
	if err != nil || n < 2 || n > machine.MaxGPUs {
		return "", 0, Errorf("--ranks %q: give a number of ranks from 2 to %d, or GROUP=N", s, machine.MaxGPUs)
	}
	return strings.TrimSpace(group), n, nil
}
