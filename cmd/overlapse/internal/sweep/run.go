package sweep

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// A Subject is what the cells of a group replay.
type Subject struct {
	Workload *workload.Workload // isolated
	Machine  machine.Machine
	Scenario plan.Scenario // without seed
	Captured int64         // ns of the captured schedule, replayed
	Why      string        // why nothing can be replayed, as --ranks on a workload file; else ""
}

// A Record is the result of a cell. Times are nanoseconds of one iteration, or of the whole
// trace if it marks none.
type Record struct {
	ID         string  `json:"id"`
	Time       int64   `json:"time_ns"` // of a seed; of seed 0 the mean over dispatch orders
	Fastest    int64   `json:"fastest_ns"`
	Slowest    int64   `json:"slowest_ns"` // over dispatch orders
	Captured   int64   `json:"captured_ns"`
	Exposed    int64   `json:"exposed_ns"` // communication without computation, mean over ranks
	Confidence string  `json:"confidence"`
	Why        string  `json:"why,omitempty"`    // why the strategy does not apply; then times are 0
	Damage     string  `json:"damage,omitempty"` // what is damaged in the input
	Seconds    float64 `json:"seconds"`          // that the replay took
}

// A Runner replays cells.
type Runner struct {
	Axes  *Axes
	Load  func(Group) (*Subject, error)
	Save  func([]Record) error // called by one goroutine at a time
	Clock func() float64       // seconds, for Record.Seconds
	Jobs  int                  // cells at once; 0: as many as processors
	Batch float64              // seconds between two calls of Save
	Stop  func() bool
	Done  func() // called as each cell finishes, from several goroutines
}

// A loaded group is read by the first of its cells and dropped after the last.
type loaded struct {
	once    sync.Once
	left    int
	subject *Subject
	err     error
}

// Run replays cells in their order and saves the records in batches. On an error, or when
// Stop reports true, it saves what is finished. Results do not depend on Jobs.
func (r *Runner) Run(cells []Cell) error {
	names := r.Axes.Groups()
	groups := map[int]*loaded{}
	for _, c := range cells {
		if groups[c.Group] == nil {
			groups[c.Group] = &loaded{}
		}
		groups[c.Group].left++
	}
	selections := make([]plan.Selection, len(r.Axes.Strategies))
	for i, s := range r.Axes.Strategies {
		var err error
		if selections[i], err = s.Selection(); err != nil {
			return err
		}
	}
	var mu sync.Mutex // guards what follows
	var batch []Record
	saved := r.Clock()
	next := 0
	work := func() error {
		for {
			mu.Lock()
			if next == len(cells) || r.Stop() {
				mu.Unlock()
				return nil
			}
			c := cells[next]
			next++
			g := groups[c.Group]
			mu.Unlock()
			g.once.Do(func() { g.subject, g.err = r.Load(names[c.Group]) })
			if g.err != nil {
				return g.err
			}
			start := r.Clock()
			rec, err := r.replay(g.subject, selections[c.Setting], c)
			if err != nil {
				if errors.Is(err, replay.ErrStopped) {
					return nil
				}
				return fmt.Errorf("%s, %s, seed %d: %w", names[c.Group].Input, selections[c.Setting], c.Seed, err)
			}
			rec.Seconds = r.Clock() - start
			r.Done()
			mu.Lock()
			batch = append(batch, rec)
			if g.left--; g.left == 0 {
				g.subject = nil
			}
			if now := r.Clock(); now-saved > r.Batch {
				saved = now
				if err := guard.Call(func() error { return r.Save(batch) }); err != nil {
					mu.Unlock()
					return err
				}
				batch = nil
			}
			mu.Unlock()
		}
	}
	var all errgroup.Group
	for range max(1, min(len(cells), r.jobs())) {
		all.Go(guard.Func(func() error {
			err := work()
			if err != nil { // the others end after their cell
				mu.Lock()
				next = len(cells)
				mu.Unlock()
			}
			return err
		}))
	}
	err := all.Wait()
	if len(batch) > 0 {
		err = errors.Join(err, r.Save(batch))
	}
	return err
}

func (r *Runner) jobs() int {
	if r.Jobs > 0 {
		return r.Jobs
	}
	return runtime.GOMAXPROCS(0)
}

func (r *Runner) replay(s *Subject, sel plan.Selection, c Cell) (Record, error) {
	rec := Record{ID: c.ID, Captured: s.Captured, Why: s.Why}
	if s.Why != "" {
		return rec, nil
	}
	sc := s.Scenario
	sc.Seed = c.Seed
	out, err := compare.Run(s.Workload, s.Machine, sel, sc, replay.Options{Like: true, Stop: r.Stop})
	if err != nil {
		return rec, err
	}
	rec.Why = out.Why
	if out.Result == nil {
		return rec, nil
	}
	rec.Time, rec.Fastest, rec.Slowest = int64(out.Expected), int64(out.Best), int64(out.Worst)
	if c.Seed > 0 {
		rec.Time = int64(out.Time)
		rec.Fastest, rec.Slowest = rec.Time, rec.Time
	}
	rec.Exposed = int64(explain.TimesOf(s.Workload, out).Exposed())
	rec.Damage = strings.Join(s.Workload.Damage.Sentences, "; ")
	rec.Confidence = string(verdict.Predict(s.Workload, compare.Outcome{Expected: trace.Time(s.Captured)}, out).Confidence.Level)
	return rec, nil
}

// Sample is at most n cells spread evenly over the others, for an estimate of their cost.
func Sample(cells []Cell, n int) []Cell {
	if len(cells) <= n {
		return cells
	}
	part := make([]Cell, n)
	for i := range part {
		part[i] = cells[(2*i+1)*len(cells)/(2*n)]
	}
	return part
}
