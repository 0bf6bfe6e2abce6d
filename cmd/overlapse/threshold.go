package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Batches are tried in factors of eight from the captured one, and refined where a strategy begins
// or ceases to pay, all in eighths of the captured batch.
const (
	eighths     = 8
	refinements = 2
)

var firstBatches = []int{1, eighths, 8 * eighths, 64 * eighths}

// A threshold is what `tune --threshold batch --format json` prints.
type threshold struct {
	Schema int         `json:"schema"`
	Phases []phaseFrom `json:"phases"`
}

// A phaseFrom is one phase of serving.
type phaseFrom struct {
	Phase      string       `json:"phase,omitempty"`  // absent: unknown, or no serving
	Tokens     int64        `json:"tokens,omitempty"` // of a captured step; absent: unknown
	Strategies []batchRange `json:"strategies"`
}

// A batchRange is the batches for which a strategy pays, as multiples of the captured one.
type batchRange struct {
	Strategy string      `json:"strategy"`
	Pays     [][]float64 `json:"pays"` // least and largest batch tried of each range in which it likely takes at least 1 % less time
	Tried    []batchTime `json:"tried"`
	Why      string      `json:"why,omitempty"` // why it does not apply
	outcome  engines.Outcome
}

// A batchTime is a strategy's row with a batch.
type batchTime struct {
	Batch    float64    `json:"batch"` // times the captured one
	Captured trace.Time `json:"captured_ns"`
	results.Row
	pays bool // it is likely, or of a bound predicted
}

// A batchSearch replays one workload with other batches.
type batchSearch struct {
	w    *workload.Workload
	m    machine.Machine
	sc   plan.Scenario
	opts replay.Options
	sel  []plan.Selection
	of   map[int]*workload.Workload // by eighths
	by   map[int][]engines.Outcome  // by eighths: the captured schedule, and every selection; without a strategy: not tried
}

// threshold prints from which batch on strategies pay.
func (a *app) threshold(ctx context.Context, o tuneOptions) error {
	if o.Strategy == "all" {
		o.Strategy = engines.OfServing
	}
	sel, w, m, err := cli.Prepare(&a.Reader, o.Flags, engines.ParseSelection)
	if err != nil {
		return err
	}
	if len(w.Collectives) == 0 {
		return fmt.Errorf("%s: no communication, so no batch from which on to overlap it", o.Path)
	}
	w = edit.WithTokens(w, int64(o.tokens))
	s := &batchSearch{w: w, m: m, sc: o.Scenario(), opts: replay.Options{Like: true, Stop: stopFunc(ctx)}, sel: sel}
	s.of, s.by = map[int]*workload.Workload{}, map[int][]engines.Outcome{}
	bar := a.Progress(-1, "replaying batches")
	found := threshold{Schema: results.Version}
	tried := map[int][]int{}
	for _, batch := range firstBatches {
		for i := range sel {
			tried[batch] = append(tried[batch], i)
		}
	}
	for range refinements + 1 {
		maps.DeleteFunc(tried, func(batch int, _ []int) bool { return !s.whole(batch) })
		for _, batch := range slices.Sorted(maps.Keys(tried)) {
			if err := s.replay(batch, tried[batch]); err != nil {
				bar.Finish()
				return results.Stopped(ctx, err)
			}
			bar.Add(1)
		}
		found.Phases = s.phases()
		tried = between(found.Phases)
	}
	bar.Finish()
	if o.format == "json" {
		return results.WriteJSON(a.Out, found)
	}
	a.Say(fmt.Sprintf("%s · %s · other batches than the captured one", o.Path, cli.MachineText(m.Name, m.Guess)))
	for i := range found.Phases {
		a.printThreshold(w, &found.Phases[i])
	}
	fmt.Fprintln(a.Out)
	a.Say("times of other batches follow from laws: GEMMs by their rows, those of unknown size as GEMMs that take their time, other kernels by their tokens as soon as these fill the GPU, collectives by their bytes" + unsure(w))
	return nil
}

// unsure says what the laws of other batches do not know of a step.
func unsure(w *workload.Workload) (text string) {
	has := func(words ...string) bool {
		return slices.ContainsFunc(w.Ops, func(op workload.Op) bool {
			return op.Kind == trace.Compute &&
				workload.NameHas(op.Name, words...)
		})
	}
	if has("attention", "attn", "fmha", "flash", "mla_", "mlapage", "sdpa") {
		text += "; attention by requests, although short contexts take as long for more of them"
	}
	if has("fused_moe", "fmoe", "moe_gemm") {
		text += "; experts as one GEMM, although few tokens reach more experts as they become more"
	}
	if text != "" {
		text += ": capture a second batch to be sure"
	}
	return text
}

// mostBatch is more than engines give a step (vLLM's max_num_batched_tokens and SGLang's chunked_prefill_size are
// 2,048 to 16,384 by default).
const mostBatch = 1 << 16

// tooMany reports whether a batch, in eighths of so many tokens, is larger than the captured one and than engines have.
func tooMany(tokens int64, batch int) bool {
	return batch > eighths && tokens*int64(batch) > mostBatch*eighths
}

// whole reports whether a batch, in eighths, has whole tokens, to an eighth of the captured ones, and not too many in
// every phase.
func (s *batchSearch) whole(batch int) bool {
	fewest := int64(0)
	for i, step := range s.w.Steps {
		tokens := step.Batch.Tokens
		if n := tokens * int64(batch); tokens > 0 && (n < eighths || n%eighths > 0 && tokens < eighths) {
			return false
		}
		if i == 0 || tokens < fewest {
			fewest = tokens
		}
	}
	return !tooMany(fewest, batch)
}

// replay replays the captured schedule and some strategies with a batch, in eighths.
func (s *batchSearch) replay(batch int, strategies []int) error {
	w := s.w
	if batch != eighths { // else as captured, as replay has it
		w = edit.Batch(s.w, s.m, batch, eighths, 1)
	}
	sel := []plan.Selection{engines.CapturedSelection()}
	for _, i := range strategies {
		sel = append(sel, s.sel[i])
	}
	list, err := engines.Compare(w, s.m, sel, s.sc, s.opts, nil)
	if err = cmp.Or(err, engines.Defect(list...)); err != nil {
		return err
	}
	if batch == eighths && list[0].Result == nil { // another one may be too large to simulate
		return fmt.Errorf("the captured schedule: %s", list[0].Why)
	}
	s.of[batch], s.by[batch] = w, make([]engines.Outcome, len(s.sel)+1)
	s.by[batch][0] = list[0]
	for k, i := range strategies {
		s.by[batch][i+1] = list[k+1]
	}
	return nil
}

// phases are what is known so far.
func (s *batchSearch) phases() []phaseFrom {
	var list []phaseFrom
	captured := s.by[eighths][0]
	for i, phase := range captured.Each() {
		var p plan.PhaseTime
		switch {
		case len(captured.Phases) > 0:
			p = captured.Phases[i].Steps
		case len(s.w.Steps) > 0:
			p.Tokens = s.w.Steps[0].Batch.Tokens
		}
		from := phaseFrom{Phase: p.Phase, Tokens: p.Tokens}
		for i, sel := range s.sel {
			r := batchRange{Strategy: sel.String(), outcome: s.by[eighths][i+1], Pays: [][]float64{}}
			last := false
			for _, batch := range slices.Sorted(maps.Keys(s.by)) {
				if tooMany(p.Tokens, batch) {
					continue
				}
				base, out := s.by[batch][0], s.by[batch][i+1]
				if base.Result == nil || out.Result == nil {
					r.Why = cmp.Or(r.Why, out.Why, base.Why)
					continue
				}
				prediction := verdict.Predict(s.of[batch], base.Of(phase), out.Of(phase))
				if prediction.Result == nil {
					r.Why = cmp.Or(r.Why, prediction.Why)
					continue
				}
				t := batchTime{Batch: float64(batch) / eighths, Captured: base.Of(phase).Expected, Row: results.RowOf(&prediction, p.Phase)}
				t.pays = t.Change <= verdict.Faster && (t.Error == 0 || t.PFaster >= verdict.Likely)
				switch {
				case t.pays && !last:
					r.Pays = append(r.Pays, []float64{t.Batch, t.Batch})
				case t.pays:
					r.Pays[len(r.Pays)-1][1] = t.Batch
				}
				if last = t.pays; t.pays && r.outcome.Result == nil { // the captured batch is too large for it
					r.outcome = out
				}
				r.Tried = append(r.Tried, t)
			}
			from.Strategies = append(from.Strategies, r)
		}
		list = append(list, from)
	}
	return list
}

// between are the batches halfway, as a ratio, between two of which a strategy pays for one, and
// those strategies.
func between(phases []phaseFrom) map[int][]int {
	batches := map[int][]int{}
	for _, p := range phases {
		for at, r := range p.Strategies {
			for i := 1; i < len(r.Tried); i++ {
				a, b := r.Tried[i-1], r.Tried[i]
				middle := int(eighths*math.Sqrt(a.Batch*b.Batch) + 0.5)
				if a.pays != b.pays && float64(middle) > a.Batch*eighths && float64(middle) < b.Batch*eighths &&
					!slices.Contains(batches[middle], at) {
					batches[middle] = append(batches[middle], at)
				}
			}
		}
	}
	return batches
}

// batchText is a batch in tokens, else as a multiple of the captured one.
func (p *phaseFrom) batchText(batch float64) string {
	if p.Tokens == 0 {
		return fmt.Sprintf("%g × captured", batch)
	}
	return fmt.Sprint(p.tokens(batch))
}

func (p *phaseFrom) tokens(batch float64) int64 { return max(1, int64(batch*float64(p.Tokens)+0.5)) }

// sizeText is batchText with its unit.
func (p *phaseFrom) sizeText(batch float64) string {
	if p.Tokens == 0 {
		return p.batchText(batch)
	}
	return cli.Counted(int(p.tokens(batch)), "token")
}

// printThreshold prints the answer for one phase, and what was tried.
func (a *app) printThreshold(w *workload.Workload, p *phaseFrom) {
	fmt.Fprintln(a.Out)
	title := strings.TrimSpace(p.Phase + " steps")
	if p.Tokens > 0 {
		title += fmt.Sprintf(" (captured: %s)", cli.Counted(int(p.Tokens), "token"))
	}
	t := cli.Table{Title: title, Columns: []string{"tokens"}}
	if p.Tokens == 0 {
		t.Columns[0] = "batch"
	}
	t.Columns = append(t.Columns, "captured")
	captured, changes := map[float64]trace.Time{}, map[float64]map[string]string{} // by batch, and strategy
	left := ""
	for i := range p.Strategies {
		r := &p.Strategies[i]
		if len(r.Tried) == 0 {
			a.Say(fmt.Sprintf("%s does not apply: %s", r.Strategy, r.Why))
			continue
		}
		a.Say(p.answer(w, r))
		t.Columns = append(t.Columns, r.Strategy)
		for _, b := range r.Tried {
			captured[b.Batch] = b.Captured
			trace.Memo(changes, b.Batch, func() map[string]string { return map[string]string{} })[r.Strategy] = trace.Percent(b.Change)
		}
		if left == "" && r.Why != "" {
			left = fmt.Sprintf("%s: batches that are not in the table: %s", r.Strategy, r.Why)
		}
	}
	if left != "" {
		a.Say(left)
	}
	for _, batch := range slices.Sorted(maps.Keys(captured)) {
		row := []any{p.batchText(batch), trace.Micros(captured[batch])}
		for _, name := range t.Columns[2:] {
			row = append(row, changes[batch][name])
		}
		t.Add(row...)
	}
	if len(captured) > 0 {
		a.Show(&t)
	}
}

// answer is the sentence for a strategy.
func (p *phaseFrom) answer(w *workload.Workload, r *batchRange) string {
	first, last := r.Tried[0].Batch, r.Tried[len(r.Tried)-1].Batch
	best := slices.MinFunc(r.Tried, func(a, b batchTime) int { return cmp.Compare(b.PFaster, a.PFaster) })
	switch {
	case len(r.Pays) == 0 && best.Change <= verdict.Faster:
		return fmt.Sprintf("%s may pay, best for %s: %s, but at most %s likely",
			r.Strategy, p.sizeText(best.Batch), trace.Percent(best.Change), verdict.PercentOf(best.PFaster))
	case len(r.Pays) == 0 && first == last:
		return fmt.Sprintf("%s does not pay for %s, the only batch tried: leave it off", r.Strategy, p.sizeText(first))
	case len(r.Pays) == 0:
		return fmt.Sprintf("%s does not pay for any batch from %s to %s: leave it off", r.Strategy, p.sizeText(first), p.sizeText(last))
	}
	var ranges []string
	for _, x := range r.Pays {
		switch least, most := p.sizeText(x[0]), p.sizeText(x[1]); {
		case first == last:
			ranges = append(ranges, "for "+least+", the only batch tried")
		case x[0] == first && x[1] == last:
			ranges = append(ranges, "for every batch tried")
		case x[0] == first:
			ranges = append(ranges, "up to a batch of about "+most)
		case x[1] == last:
			ranges = append(ranges, "from a batch of about "+least+" on")
		default:
			ranges = append(ranges, "between batches of about "+least+" and "+most)
		}
	}
	text := r.Strategy + " likely pays " + strings.Join(ranges, " and ")
	if r.outcome.Experimental() {
		text += " (experimental)"
	}
	ways, _ := verdict.HowTo(w, r.outcome)
	var lines []string
	for _, way := range ways {
		if !strings.Contains(way.For, "=") { // of the strategy without the setting
			continue
		}
		if flag := p.flag(&way); flag != "" && r.Pays[0][0] > first && p.Tokens > 0 {
			way.Line += " " + flag + " " + p.batchText(r.Pays[0][0])
		}
		lines = append(lines, way.String())
	}
	if len(lines) > 0 {
		text += "; " + strings.Join(lines, "; or ")
	}
	return text
}

// flag is the option of vLLM (vllm/config/parallel.py) that sets from which number of tokens of a
// rank's batch on it is split; SGLang has none, and splits all.
func (p *phaseFrom) flag(way *plan.Way) string {
	switch {
	case way.Library != plan.VLLM || !strings.HasPrefix(way.Line, "--enable-dbo"):
		return ""
	case p.Phase == workload.Decode.String():
		return "--dbo-decode-token-threshold"
	}
	return "--dbo-prefill-token-threshold"
}
