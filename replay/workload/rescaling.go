package workload

import (
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// A Rescaling is how the durations of a workload follow from captured ones, on another
// machine or with another number of ranks.
type Rescaling struct {
	From  string     `json:"from"` // machine of the captured durations
	To    string     `json:"to"`
	Same  bool       `json:"same_gpu"`                 // only the number of ranks changes, or nothing
	Group string     `json:"group,omitempty"`          // group that was resized
	Was   int        `json:"captured_ranks,omitempty"` // its captured number of ranks
	Ranks int        `json:"ranks,omitempty"`
	Parts []Rescaled `json:"parts"` // by what bounds them and by law, longest captured time first

	Of *Workload       `json:"-"` // as captured
	On machine.Machine `json:"-"` // of the capture
}

// A Rescaled is a part of the operations' time that one law scales, over the captured ranks.
type Rescaled struct {
	Bound string     `json:"bound"` // what limits it: matrix units, memory, latency and vector units, launch, links, copies of the host
	Law   string     `json:"law"`
	Sure  bool       `json:"sure"`        // false: the trace does not show what limits them
	Ops   int        `json:"operations"`  // whose largest part this is; collectives count once per rank
	Was   trace.Time `json:"captured_ns"` // sum of durations alone
	Is    trace.Time `json:"time_ns"`
}

// Guessed is the share of the captured time that is scaled by a law that the trace does not
// justify, 0 to 1.
func (r *Rescaling) Guessed() float64 {
	var all, guessed trace.Time
	for _, p := range r.Parts {
		all += p.Was
		if !p.Sure && !(r.Same && p.Is == p.Was) {
			guessed += p.Was
		}
	}
	return float64(guessed) / float64(max(1, all))
}

// TooGuessed reports whether more than a third of the captured time is scaled by guesses: no change is stated then.
func (r *Rescaling) TooGuessed() bool { return !r.Same && r.Guessed() > 1.0/3 }
