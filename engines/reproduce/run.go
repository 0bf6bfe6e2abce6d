package reproduce

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
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/replay/operator"
	"github.com/overlapse/overlapse/trace/guard"
)

// A PointResult is a published number and that of a replay.
type PointResult struct {
	Label     string   `json:"label,omitempty"`
	As        Quantity `json:"as"`
	Published float64  `json:"published"`
	Here      float64  `json:"here"`
	Links     float64  `json:"links,omitempty"` // of a bandwidth: the rate of the slowest link between the ranks
	Within    bool     `json:"within_tolerance"`
	SameSign  bool     `json:"same_sign"`
	Apart     string   `json:"apart,omitempty"` // why it is not scored
	Why       string   `json:"why,omitempty"`   // why nothing was replayed
	Experiment
}

// A ClaimResult is a claim with its points and status.
type ClaimResult struct {
	Claim
	Paper  string        `json:"paper"`
	Status Status        `json:"status"`
	Points []PointResult `json:"points,omitempty"`
}

// Run replays the points of the claims of the papers, each experiment once, in parallel. files
// holds their workload files.
// only selects claims by id; nil: all. on is the machine that replaces those of the papers,
// with as many GPUs as they have; nil: none. done is called as experiments finish; nil: not.
func Run(
	files fs.FS, papers []Paper, only func(id string) bool, on *machine.Machine, stop func() bool, started func(experiments int), done func(),
) ([]ClaimResult, error) {
	b := bench{files: files, index: map[string]int{}, on: on}
	var results []ClaimResult
	for _, p := range papers {
		for _, c := range p.Claims {
			if only != nil && !only(c.ID) {
				continue
			}
			results = append(results, ClaimResult{Claim: c, Paper: p.Name, Status: c.Status})
			for i := range c.Points {
				if err := b.need(&c.Points[i]); err != nil {
					return nil, fmt.Errorf("%s: %s: %w", c.ID, c.Points[i].name(), err)
				}
			}
		}
	}
	if started != nil {
		started(len(b.jobs))
	}
	if err := b.run(stop, done); err != nil {
		return nil, err
	}
	for i := range results {
		r := &results[i]
		for k := range r.Claim.Points {
			p, err := b.result(&r.Claim.Points[k])
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", r.ID, p.Label, err)
			}
			r.Points = append(r.Points, p)
		}
		if r.Status == "" {
			r.Status = judge(r.Points)
		}
		switch r.Status {
		case Reproduced:
			r.Why = ""
		case NotScored:
			r.Why = r.Points[0].Apart
		}
	}
	return results, nil
}

// A job is one strategy on one workload.
type job struct {
	workload, strategy string
	set                map[string]string
	marks              bool // records what marks need
	found              measured
}

// A bench holds the experiments of all points. Those that several points share run once.
type bench struct {
	files fs.FS
	jobs  []job
	index map[string]int // by key
	on    *machine.Machine
}

func key(p *Point, strategy string, set map[string]string) string {
	return fmt.Sprint(p.Workload, "|", strategy, "|", withMarks(p.Measure), "|", set) // maps print in order of keys
}

// need adds the experiments of a point.
func (b *bench) need(p *Point) error {
	if p.As == Order {
		if p.More == nil || p.Less == nil {
			return errors.New("an order needs more and less")
		}
		return errors.Join(b.need(p.More), b.need(p.Less))
	}
	for _, set := range p.sets() {
		for _, s := range append(strings.Split(p.Strategy, "|"), p.Against) {
			k := key(p, s, set)
			if _, ok := b.index[k]; !ok && s != "" {
				b.index[k] = len(b.jobs)
				b.jobs = append(b.jobs, job{workload: p.Workload, strategy: s, set: set, marks: withMarks(p.Measure)})
			}
		}
	}
	return nil
}

// sets are the keys of each experiment of a point.
func (p *Point) sets() []map[string]string {
	if p.Over == nil {
		return []map[string]string{keys(p.With)}
	}
	var all []map[string]string
	for _, over := range p.Over {
		all = append(all, keys(p.With, over))
	}
	return all
}

func (b *bench) run(stop func() bool, done func()) error {
	return guard.Each(len(b.jobs), func(i int) (err error) {
		if done != nil {
			defer done()
		}
		j := &b.jobs[i]
		if j.found, err = j.replay(b.files, b.on, stop); err != nil {
			return fmt.Errorf("%s with %v under %s: %w", j.workload, j.set, j.strategy, err)
		}
		return nil
	})
}

// replay runs a job's strategy on its workload.
func (j *job) replay(files fs.FS, on *machine.Machine, stop func() bool) (x measured, err error) {
	in, err := files.Open(j.workload)
	if err != nil {
		return x, err
	}
	defer in.Close()
	f, err := operator.ParseWith(in, j.workload, j.set)
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
	if j.marks {
		o = phases(o)
	}
	out, err := compare.Run(w, m, sel[0], plan.Scenario{}, o)
	if err != nil {
		return x, err
	}
	x = measure(w, m, out)
	if gap := f.HostGap(m) / float64(f.Iterations); gap > 0 { // before the first kernel and behind the last
		x.time, x.waits = x.time+gap, gap-m.Launch.Gap.Value
	}
	if j.strategy == "captured" && f.Sync != operator.SyncStream && len(f.Times) > 0 {
		x.time = 0 // what the file says, with what only its own kernels need
		for _, t := range f.Times {
			x.time += t
		}
	}
	return x, nil
}

// machineNamed is an embedded profile, or a machine of a paper from the folder machines with all of its GPUs
// or, behind a colon, some.
func machineNamed(name string) (machine.Machine, error) {
	file, gpus, _ := strings.Cut(name, ":")
	if !strings.HasSuffix(file, ".yaml") {
		return profile.Load(name)
	}
	f, err := files.Open("machines/" + file)
	if err != nil {
		return machine.Machine{}, err
	}
	defer f.Close()
	m, err := profile.Parse(f, file)
	n, all := strconv.Atoi(gpus)
	if all != nil {
		n = int(m.Most.Value)
	}
	return m.Resize(n), err
}

// result compares a point with its replays.
func (b *bench) result(p *Point) (PointResult, error) {
	r := PointResult{Label: p.name(), As: p.As, Published: p.Published, Apart: p.Apart, Experiment: p.Experiment}
	here, err := b.number(p)
	if err == nil && (math.IsNaN(here) || math.IsInf(here, 0)) {
		err = noNumber("the replays give no finite number")
	}
	var why noNumber
	if errors.As(err, &why) {
		r.Why = string(why)
		return r, nil
	}
	r.Here = math.Round(here*1e6) / 1e6
	if p.As == Bandwidth {
		r.Links = b.jobs[b.index[key(p, p.Strategy, keys(p.With))]].found.links
	}
	r.Within, r.SameSign = p.As.within(p.Published, r.Here), p.As.sameSign(p.Published, r.Here)
	return r, err
}

// A noNumber is why the replays of a point give nothing.
type noNumber string

func (e noNumber) Error() string { return string(e) }

// number is what the replays of a point give; the error may be a noNumber.
func (b *bench) number(p *Point) (float64, error) {
	if p.As == Order {
		more, err := b.number(p.More)
		if err != nil {
			return 0, err
		}
		less, err := b.number(p.Less)
		if p.More.As == Time && less > 0 {
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
	if p.As == Gain && p.Of == "geomean" { // of the ratios
		for i := range list {
			list[i]++
		}
		return summary(list, p.Of) - 1, nil
	}
	return summary(list, p.Of), nil
}

// one is the number of one experiment.
func (b *bench) one(p *Point, set map[string]string) (float64, error) {
	var values []float64
	tuned := strings.Split(p.Strategy, "|")
	for n, s := range append(tuned, p.Against) {
		i, ok := b.index[key(p, s, set)]
		if !ok {
			continue // no baseline
		}
		v, err := b.jobs[i].found.value(p.Measure)
		if s == p.Loop {
			v -= b.jobs[i].found.waits
		}
		if why := noNumber(""); errors.As(err, &why) {
			err = noNumber(s + ": " + string(why))
		}
		if err != nil {
			return 0, err
		}
		if 0 < n && n < len(tuned) {
			values[0] = min(values[0], v)
			continue
		}
		values = append(values, v)
	}
	switch p.As {
	case Reduction, Speedup, Gain:
		if len(values) != 2 || values[0] == 0 || values[1] == 0 {
			return 0, fmt.Errorf("%s needs a strategy and a baseline with %s above 0", p.As, cmp.Or(p.Measure, "time"))
		}
		switch p.As {
		case Reduction:
			return 1 - values[0]/values[1], nil
		case Gain:
			return values[1]/values[0] - 1, nil
		}
		return values[1] / values[0], nil
	case Share, Time, Count, Bandwidth:
		return values[0], nil
	}
	return 0, fmt.Errorf("unknown quantity %q", p.As)
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
