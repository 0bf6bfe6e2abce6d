package replay

import (
	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
)

// A stream is the state of one of the program's streams.
type stream struct {
	*program.Stream
	fluid.Member
	gpu        int32
	index      int32 // index in the GPU's streams
	next       int   // index in Commands
	step       int   // step of the current command
	alarm      alarm
	since      program.Time // time at which the current step began
	launch     int32        // of the running kernel, or none
	awaited    poster       // poster of the flag that released it
	posted     program.Flag // the flag that it posted, as the poster names it
	engine     int32        // of the running copy, or none
	span       spanRef
	moves      spanRef // the copy's span on its engine's lane
	copied     bool    // a copy ended last, and nothing was launched or waited for since
	idle       []Idle
	posters    []posted // by idle interval
	causeEvent int32    // event that put it in its current state, if causes are recorded
}

// The steps of a command. Launches and copies use all of them.
const (
	arrived = iota // the previous command has ended
	ready          // its gap has passed
	issued         // a kernel has been launched; a copy has its engine
	moving         // a copy's bytes are being transferred
	ended
)

// stepStream runs commands until the stream has to wait (rule S1).
func (s *sim) stepStream(id int32) {
	st := &s.streams[id]
	for st.next < len(st.Commands) && s.err == nil {
		c := &st.Commands[st.next]
		s.causes.follow(st.causeEvent)
		if !s.stepCommand(id, st, c) {
			return
		}
		st.next++
		st.step, st.since = arrived, s.now
	}
}

// stepCommand reports whether the command has ended. If not, it has set what will step it
// again.
func (s *sim) stepCommand(id int32, st *stream, c *program.Command) bool {
	switch c.Op {
	case program.Post:
		s.post(c.Flag, c.Count, poster{stream: id})
		return true
	case program.Wait:
		return s.stepWait(id, st, c)
	case program.Delay:
		if s.gap(id, st, c.Delay) {
			return false
		}
		s.paused(id, st, c.Why, Delaying)
		return true
	}
	if st.step == arrived {
		if s.gap(id, st, c.Delay) {
			return false
		}
		st.step = ready
	}
	if st.step == ready {
		s.paused(id, st, program.LaunchGap, Launching)
		st.since, st.step = s.now, issued
		if c.Op == program.Launch {
			st.copied = false
			s.launch(id, st, c)
			return false
		}
	}
	if c.Op == program.Launch {
		st.launch = none
		return true
	}
	return s.stepCopy(id, st, c)
}

// gap waits for the command's delay once; true while it waits (rule S2).
func (s *sim) gap(id int32, st *stream, d program.Time) bool {
	if st.step != arrived || d == 0 {
		return false
	}
	st.step = ready
	s.wakeAt(&st.alarm, s.now+d, actor{dueStream, id})
	return true
}

func (s *sim) stepWait(id int32, st *stream, c *program.Command) bool {
	if st.step == arrived {
		st.step = ready
		there := s.await(c.Flag, c.Count, actor{dueStream, id})
		st.copied = st.copied && there
		return there
	}
	s.reached(id, st, c.Flag)
	return true
}
