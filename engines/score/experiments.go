package score

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/operator"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// Claims returns claims with the numbers of replays and their status. Each experiment is replayed
// once, in parallel. files holds the workload files. on is the machine that replaces those of the
// papers, with as many GPUs as they have; nil: none. started gets the number of experiments, done is
// called as they finish; nil: not.
func Claims(files fs.FS, claims []Claim, on *machine.Machine, stop func() bool, started func(experiments int),
	done func(),
) ([]Claim, error) {
	b := bench{index: map[string]*job{}}
	claims = slices.Clone(claims)
	for i := range claims {
		claims[i].Points = slices.Clone(claims[i].Points)
	}
	each := func(f func(p *Point) error) error {
		for _, c := range claims {
			for k := range c.Points {
				if err := f(&c.Points[k]); err != nil {
					return fmt.Errorf("%s: %s: %w", c.ID, c.Points[k].Label, err)
				}
			}
		}
		return nil
	}
	if err := each(func(p *Point) error { _, err := b.number(p); return err }); err != nil {
		return nil, err
	}
	if started != nil {
		started(len(b.jobs))
	}
	if err := guard.Each(len(b.jobs), func(i int) error {
		if done != nil {
			defer done()
		}
		return b.jobs[i].run(files, on, stop)
	}); err != nil {
		return nil, err
	}
	if err := each(b.answer); err != nil {
		return nil, err
	}
	for i := range claims {
		c := &claims[i]
		switch c.Status = cmp.Or(c.Status, judge(c.Points)); c.Status {
		case Reproduced:
			c.Why = ""
		case NotScored:
			c.Why = c.Points[0].Apart
		}
	}
	return claims, nil
}

// A job is one strategy on one workload.
type job struct {
	workload, strategy string
	set                map[string]string
	measures           map[string]number // that points need, by name
	waits              float64           // seconds of the host, as in replayed
	links              float64           // bytes per second of the slowest link between the ranks of the first collective
}

type number struct {
	value float64
	err   error
}

// A bench holds the experiments of all points. Those that several points share run once: the numbers of
// points are asked for twice, and what the first time needs runs before the second.
type bench struct {
	jobs  []*job
	index map[string]*job
}

// job is that of a strategy on a point's workload.
func (b *bench) job(p *Point, strategy string, set map[string]string) *job {
	key := fmt.Sprint(p.Workload, "|", strategy, "|", withMarks(p.Measure), "|", set) // maps print in order of keys
	return trace.Memo(b.index, key, func() *job {
		j := &job{workload: p.Workload, strategy: strategy, set: set, measures: map[string]number{}}
		b.jobs = append(b.jobs, j)
		return j
	})
}

// sets are the keys of each experiment of a point.
func (p *Point) sets() (all []map[string]string) {
	if p.Over == nil {
		return []map[string]string{keys(p.With)}
	}
	for _, over := range p.Over {
		all = append(all, keys(p.With, over))
	}
	return all
}

// run replays a job and reads off its measures.
func (j *job) run(files fs.FS, on *machine.Machine, stop func() bool) error {
	x, err := j.replay(files, on, stop)
	if err != nil {
		return fmt.Errorf("%s with %v under %s: %w", j.workload, j.set, j.strategy, err)
	}
	for name := range j.measures {
		v, err := x.measure(name)
		j.measures[name] = number{v, err}
	}
	j.waits = x.waits
	if len(x.Collectives) > 0 {
		j.links = x.LinkRate(len(x.Collectives[0].Members))
	}
	return nil
}

// replay runs a job's strategy on its workload.
func (j *job) replay(files fs.FS, on *machine.Machine, stop func() bool) (x replayed, err error) {
	in, err := files.Open(j.workload)
	if err != nil {
		return x, err
	}
	defer in.Close()
	f, err := operator.Parse(in, j.workload, j.set)
	if err != nil {
		return x, err
	}
	f.Ranks = 0 // all of the machine
	m, err := machineNamed(f.Machine)
	if err == nil && on != nil {
		m, err = on.Sized(m.GPUs)
	}
	if err != nil {
		return x, err
	}
	run, err := f.Run(m)
	if err != nil {
		return x, err
	}
	w, err := lift.Workload(run, lift.Options{Unprofiled: true})
	if err != nil {
		return x, err
	}
	sel, err := engines.ParseSelection(j.strategy)
	if err != nil {
		return x, err
	}
	if len(sel) != 1 {
		return x, fmt.Errorf("%q is not one strategy", j.strategy)
	}
	o := replay.Options{Stop: stop}
	for name := range j.measures {
		if withMarks(name) { // phases, of workgroups of as many tiles as a figure shows
			o.Level, o.Ranks, o.Tiles = replay.Phases, []int{0}, 1<<15
		}
	}
	out, err := engines.Run(w, m, sel[0], plan.Scenario{}, o)
	if err != nil {
		return x, err
	}
	x = replayed{Workload: w, Machine: m, Outcome: out, seconds: float64(out.Expected) / 1e9}
	if gap := f.HostGap(m) / float64(f.Iterations); gap > 0 { // before the first kernel and behind the last
		x.seconds, x.waits = x.seconds+gap, gap-m.Launch.Gap.Value
	}
	if j.strategy == "captured" && f.Sync != "" && len(f.Times) > 0 {
		x.seconds = 0 // what the file says, with what only its own kernels need
		for _, t := range f.Times {
			x.seconds += t
		}
	}
	return x, nil
}

// machineNamed is an embedded profile, or a machine of a paper from the folder machines with all of its GPUs
// or, behind a colon, some.
func machineNamed(name string) (machine.Machine, error) {
	file, gpus, _ := strings.Cut(name, ":")
	if !strings.HasSuffix(file, ".yaml") {
		return machine.Load(name)
	}
	f, err := papers.Open("machines/" + file)
	if err != nil {
		return machine.Machine{}, err
	}
	defer f.Close()
	m, err := machine.Parse(f, file)
	n, all := strconv.Atoi(gpus)
	if all != nil {
		n = int(m.Most.Value)
	}
	return m.Resize(n), err
}

// A noNumber is why the replays of a point give nothing.
type noNumber string

func (e noNumber) Error() string { return string(e) }

// answer sets what the replays of a point give.
func (b *bench) answer(p *Point) error {
	here, err := b.number(p)
	if err == nil && (math.IsNaN(here) || math.IsInf(here, 0)) {
		err = noNumber("the replays give no finite number")
	}
	var why noNumber
	if errors.As(err, &why) {
		p.Why = string(why)
		return nil
	}
	p.Here = math.Round(here*1e6) / 1e6
	if p.As == bandwidth {
		p.Links = b.job(p, p.Strategy, keys(p.With)).links
	}
	p.Within, p.SameSign = p.As.within(p.Published, p.Here), p.As.sameSign(p.Published, p.Here)
	return err
}

// number is what the replays of a point give; the error may be a noNumber.
func (b *bench) number(p *Point) (float64, error) {
	if p.As == order {
		if p.More == nil || p.Less == nil {
			return 0, errors.New("an order needs more and less")
		}
		more, err := b.number(p.More)
		if err != nil {
			return 0, err
		}
		less, err := b.number(p.Less)
		if p.More.As == time && less > 0 {
			return more/less - 1, err
		}
		return more - less, err
	}
	var list []float64
	for _, set := range p.sets() {
		x, err := b.one(p, set)
		if err != nil {
			return 0, err
		}
		list = append(list, x)
	}
	if p.As == gain && p.Of == "geomean" { // of the ratios
		for i := range list {
			list[i]++
		}
		return summary(list, p.Of) - 1, nil
	}
	return summary(list, p.Of), nil
}

// one is the number of one experiment.
func (b *bench) one(p *Point, set map[string]string) (float64, error) {
	here := math.Inf(1) // the least of the strategies
	for s := range strings.SplitSeq(p.Strategy, "|") {
		x, err := b.found(p, s, set)
		if err != nil {
			return 0, err
		}
		here = min(here, x)
	}
	switch p.As {
	case share, time, count, bandwidth:
		return here, nil
	case reduction, speedup, gain:
	default:
		return 0, fmt.Errorf("unknown quantity %q", p.As)
	}
	base, err := b.found(p, p.Against, set)
	switch {
	case err != nil:
		return 0, err
	case here == 0 || base == 0:
		return 0, fmt.Errorf("%s needs a strategy and a baseline with %s above 0", p.As, cmp.Or(p.Measure, "time"))
	case p.As == reduction:
		return 1 - here/base, nil
	case p.As == gain:
		return base/here - 1, nil
	}
	return base / here, nil
}

// found is the measure of a point under one strategy; 0 without one, 1 before it has run.
func (b *bench) found(p *Point, strategy string, set map[string]string) (float64, error) {
	if strategy == "" {
		return 0, nil
	}
	j := b.job(p, strategy, set)
	x := trace.Memo(j.measures, p.Measure, func() number { return number{value: 1} })
	if why := noNumber(""); errors.As(x.err, &why) {
		return 0, noNumber(strategy + ": " + string(why))
	}
	if strategy == p.Loop {
		x.value -= j.waits
	}
	return x.value, x.err
}

// summary is the mean, geometric mean, largest or smallest of a list; without a name, the
// only one.
func summary(list []float64, of string) float64 {
	switch of {
	case "max":
		return slices.Max(list)
	case "min":
		return slices.Min(list)
	}
	var sum float64
	for _, x := range list {
		if of == "geomean" {
			x = math.Log(x)
		}
		sum += x
	}
	if of == "geomean" {
		return math.Exp(sum / float64(len(list)))
	}
	return sum / float64(len(list))
}
