package format

import (
	"sync"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

// companions are the execution traces among the files of a run. Kineto readers,
// which run in parallel, take theirs from here.
type companions struct {
	all  []*assemble.Execution
	sole bool    // there is one Kineto file
	bad  []error // of those that cannot be read

	mu   sync.Mutex
	used map[*assemble.Execution]bool
}

// takeCompanions reads the execution traces among the parts and returns the others.
func (o Options) takeCompanions(all []part) (rest []part, c *companions, err error) {
	if len(all) == 1 {
		return all, nil, nil
	}
	c = &companions{used: map[*assemble.Execution]bool{}}
	alone := 0 // execution traces that may be read without a profile
	for _, p := range all {
		x, readable, err := o.openExecution(p)
		if readable {
			alone++
		}
		switch {
		case err != nil && o.SkipBad != nil:
			c.bad = append(c.bad, err)
		case err != nil:
			return nil, nil, err
		case x != nil:
			c.all = append(c.all, x)
		default:
			rest = append(rest, p)
		}
	}
	switch {
	case len(c.all) == 0 && len(c.bad) == 0:
		return rest, nil, nil
	case len(rest) == 0 && len(c.bad) > 0:
		return nil, nil, c.bad[0]
	case len(rest) == 0 && alone == len(c.all):
		return all, nil, nil
	case len(rest) == 0:
		return nil, nil, assemble.Alone(c.all[0].File)
	}
	c.sole = len(rest) == 1
	return rest, c, nil
}

// openExecution reads the part if it is an execution trace; else it returns nil. alone reports whether
// its format may also be read without a profile.
func (o Options) openExecution(p part) (x *assemble.Execution, alone bool, err error) {
	if len(p.paths) != 1 {
		return nil, false, nil
	}
	o.Progress = nil // what is no execution trace is read again
	f, err := o.open(p.paths[0])
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	in, err := o.input(f, o.nameOf(p.paths[0]))
	if err != nil {
		return nil, false, nil // its reader says so
	}
	defer in.close()
	for _, row := range o.formats {
		if row.sniff(in.head, in.name) {
			if row.execution == nil {
				return nil, false, nil
			}
			x, err = row.execution(in.text(), in.name, o.budget.limit)
			return x, row.read != nil, err
		}
	}
	return nil, false, nil
}

// of returns the execution trace of a rank: the one whose file is named so, of
// several or none the one that is of a process of the file, and to a file that
// is alone, the only one unless it is named after another rank.
func (c *companions) of(rank int, hasProcess func(int64) bool) *assemble.Execution {
	x := c.find(rank, hasProcess)
	if x != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.used[x] = true
	}
	return x
}

func (c *companions) find(rank int, hasProcess func(int64) bool) *assemble.Execution {
	var named, of []*assemble.Execution
	for _, x := range c.all {
		if x.Rank == rank && rank != trace.None {
			named = append(named, x)
		}
		if x.Process != 0 && hasProcess(x.Process) {
			of = append(of, x)
		}
	}
	switch {
	case len(named) == 1:
		return named[0]
	case len(of) == 1:
		return of[0]
	case c.sole && len(c.all) == 1 && (rank == trace.None || trace.RankInName(c.all[0].File) == trace.None):
		return c.all[0]
	}
	return nil
}

// noteUnused adds ledger entries for execution traces that were not used or cannot be read.
func (c *companions) noteUnused(run *trace.Run, skipped func(error)) {
	if c == nil {
		return
	}
	for _, err := range c.bad {
		skipped(err)
		noteBad(run, err)
	}
	for _, x := range c.all {
		if !c.used[x] {
			run.Ledger.Add(trace.Noted, x.File, "execution trace ignored: no file is of its rank or process", "", 0)
		}
	}
}
