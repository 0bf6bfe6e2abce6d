package workload

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Summaries
//
// A Summary describes a workload for people: what was found, how often, and why it is
// believed.

// A Summary is a workload for people: what was found, how often, and why it is
// believed. Times are nanoseconds.
type Summary struct {
	Name        string              `json:"name"`
	World       int                 `json:"world"`
	Captured    int                 `json:"captured"`
	Estimated   bool                `json:"estimated,omitempty"` // nobody measured the times: the first note says what they rest on
	Ranks       []rankSummary       `json:"ranks"`
	Kernels     []KernelSummary     `json:"kernels"`     // by total time, captured ranks only
	Collectives []CollectiveSummary `json:"collectives"` // by total transfer
	Copies      []copySummary       `json:"copies"`      // by total time, captured ranks only
	Pairs       []PairSummary       `json:"pairs"`       // by first occurrence
	Steps       []stepSummary       `json:"steps"`
	Notes       []string            `json:"notes"`
}

// A rankSummary is one rank.
type rankSummary struct {
	Rank          int        `json:"rank"`
	CopyOf        *int       `json:"copy_of,omitempty"` // nil: captured
	Source        string     `json:"source"`
	Device        string     `json:"device"`
	Ops           int        `json:"ops"`
	Queues        int        `json:"queues"`
	StartNs       trace.Time `json:"start_ns"`
	EndNs         trace.Time `json:"end_ns"`
	UncertaintyNs trace.Time `json:"uncertainty_ns"` // of its clock against rank 0's; -1 where unknown
}

// A KernelSummary is the launches of one compute kernel or copy that are alike.
type KernelSummary struct {
	Name    string     `json:"name"`
	Kind    string     `json:"kind"`
	Count   int        `json:"count"`
	TotalNs trace.Time `json:"total_ns"`
	InNs    trace.Time `json:"iterations_ns"` // of TotalNs, in the intervals that Of was given; 0 where it was given those of several phases
	// PhasesNs is InNs in the intervals of each phase.
	PhasesNs   []trace.Time `json:"phases_ns,omitempty"`
	MedianNs   trace.Time   `json:"median_ns"`
	Shape      string       `json:"shape,omitempty"` // "gemm 8192x4096x3584 bf16": M, N, K
	Workgroups int          `json:"workgroups"`
	Tile       string       `json:"tile,omitempty"` // "128x256": rows and columns of the output
	Tiles      int          `json:"tiles"`
	Schedule   string       `json:"schedule,omitempty"` // "persistent", "persistent, dynamic"
	Evidence   string       `json:"evidence,omitempty"`
	Fused      string       `json:"communicates,omitempty"` // what a kernel of compute communicates inside: "all_reduce after"
	Bytes      int64        `json:"bytes,omitempty"`        // of all these copies; 0: not known of each
}

// A copySummary is the copies of one direction, and of one kind of the host's memory where names tell it.
type copySummary struct {
	Direction string     `json:"direction"`        // "host to device"
	Memory    string     `json:"memory,omitempty"` // of the host: pinned, pageable
	Count     int        `json:"count"`
	Bytes     int64      `json:"bytes"` // 0: not known of each
	TotalNs   trace.Time `json:"total_ns"`
	BesideNs  trace.Time `json:"beside_compute_ns"` // of TotalNs, while the rank computed
}

// A CollectiveSummary is the collectives of one operation, group, number of channels and size
// class: sizes between two powers of two.
type CollectiveSummary struct {
	Op         string     `json:"op"`
	Bytes      int64      `json:"bytes"` // smallest; 0: unknown
	MostBytes  int64      `json:"most_bytes"`
	Group      string     `json:"group"`
	Ranks      int        `json:"ranks"`
	Channels   int        `json:"channels"`
	Kernel     string     `json:"kernel"`            // of the first
	Guessed    bool       `json:"guessed,omitempty"` // operation or size
	Count      int        `json:"count"`
	Paired     int        `json:"paired"`      // of these, in a pair with a kernel
	TransferNs trace.Time `json:"transfer_ns"` // median; by copy engines from the first copy's start to the last command's end
	SkewNs     trace.Time `json:"skew_ns"`     // median: from the first arrival to the last
	MaxSkewNs  trace.Time `json:"max_skew_ns"`
	// Bandwidths in bytes per second as nccl-tests defines them, of the collective that takes TransferNs: size over transfer
	// time, and the bytes that each rank sends (trace.CollectiveOp.WireBytes) over it; 0 where
	// the size or the time is unknown.
	Algorithm float64 `json:"algorithm_bandwidth"`
	Bus       float64 `json:"bus_bandwidth"`
	// Waiting is the share of the captured members' time before the last of them arrived, of the collective in the median: the first
	// one often waits for a rank that still starts.
	Waiting  float64 `json:"waiting_share"`
	Evidence string  `json:"evidence"`
}

// A PairSummary is the pairs of kernels of the same names and size.
type PairSummary struct {
	Number     int      `json:"number"` // from 1, as commands take it
	Direction  string   `json:"direction"`
	First      string   `json:"first"`
	Second     string   `json:"second"`
	Bytes      int64    `json:"bytes"` // communicated; 0 between kernels
	Count      int      `json:"count"`
	Confidence float64  `json:"confidence"` // of the weakest
	Evidence   []string `json:"evidence"`   // of the weakest
	Rows       []int    `json:"-"`          // of Workload.Pairs
}

// A stepSummary is one iteration.
type stepSummary struct {
	Name     string     `json:"name"`
	Ops      int        `json:"ops"`             // of all ranks
	StartNs  trace.Time `json:"start_ns"`        // of the first rank
	MedianNs trace.Time `json:"median_ns"`       // over ranks: from its first start to its last end
	Phase    string     `json:"phase,omitempty"` // of serving: prefill, decode or mixed; absent: unknown
	Requests int64      `json:"requests,omitempty"`
	Tokens   int64      `json:"tokens,omitempty"`
}

// Of describes a workload. in are, of all iterations or of each phase, by row of Run.Ranks the interval in which those ran whose
// time kernels are a share of; none: all of the run.
func Of(w *Workload, in [][]overlap.Interval) Summary {
	return Summary{
		Name:        w.Run.Name,
		World:       w.World,
		Captured:    w.Captured,
		Estimated:   w.Run.Estimated != "",
		Ranks:       summarizeRanks(w),
		Kernels:     summarizeKernels(w, in),
		Collectives: summarizeCollectives(w),
		Copies:      summarizeCopies(w),
		Pairs:       Pairs(w),
		Steps:       summarizeSteps(w),
		Notes:       slices.Clone(w.Notes),
	}
}

func summarizeRanks(w *Workload) []rankSummary {
	original := make([]int, w.Captured)
	for rank, row := range w.Rows {
		if !w.Copies[rank] {
			original[row] = rank
		}
	}
	ranks := make([]rankSummary, 0, w.World)
	for rank, row := range w.Rows {
		r := &w.Run.Ranks[row]
		s := rankSummary{Rank: rank, Source: r.Source, Device: r.Device.Name, Ops: len(w.Ranks[rank]), UncertaintyNs: r.Uncertainty}
		if w.Copies[rank] {
			s.CopyOf = &original[row]
		}
		queues := map[int64]bool{}
		for i, id := range w.Ranks[rank] {
			op := &w.Ops[id]
			queues[op.Queue] = true
			if i == 0 {
				s.StartNs = op.Start
			}
			s.EndNs = max(s.EndNs, op.End)
		}
		s.Queues = len(queues)
		ranks = append(ranks, s)
	}
	return ranks
}

func summarizeKernels(w *Workload, in [][]overlap.Interval) []KernelSummary {
	type kin struct {
		name  string
		kind  trace.Kind
		shape Shape
		tiles Tiling
	}
	type launch struct {
		kernel *Kernel
		kind   trace.Kind
	}
	g, rows := newGroups[kin, trace.Time](), map[launch]*[]trace.Time{}
	sizes := map[kin][]int64{} // of copies, bytes
	within := map[kin][]trace.Time{}
	for rank, ids := range w.Ranks {
		if w.Copies[rank] {
			continue
		}
		for _, id := range ids {
			op := &w.Ops[id]
			if op.Kind == trace.Collective {
				continue
			}
			l := launch{op.Kernel, op.Kind}
			k := kin{op.Name, op.Kind, op.Shape, op.Tiling}
			if op.Unfused.Kind != NoShape {
				k.shape = op.Unfused
			}
			if rows[l] == nil { // several kernels may differ in what is not shown
				rows[l] = g.row(k)
			}
			*rows[l] = append(*rows[l], op.Dur())
			sums := trace.Memo(within, k, func() []trace.Time { return make([]trace.Time, len(in)) })
			for i := range in {
				x := in[i][w.Rows[rank]]
				sums[i] += max(0, min(op.End, x.End)-max(op.Start, x.Start))
			}
			if c := w.Run.Copy(w.Run.Spans[op.Span]); c != nil {
				sizes[k] = append(sizes[k], c.Bytes)
			}
		}
	}
	kernels := make([]KernelSummary, 0, len(g.keys))
	for _, k := range g.keys {
		times := *g.of[k]
		s := KernelSummary{
			Name: k.name, Kind: k.kind.String(), Count: len(times), TotalNs: total(times), MedianNs: overlap.Median(times),
			Shape: k.shape.String(), Workgroups: k.tiles.WGs, Tiles: k.tiles.Tiles, Schedule: schedule(&k.tiles),
			Evidence: k.tiles.Evidence,
		}
		switch len(in) {
		case 0:
			s.InNs = s.TotalNs
		case 1:
			s.InNs = within[k][0]
		default:
			s.PhasesNs = within[k]
		}
		if k.kind == trace.Compute {
			_, _, s.Fused = trace.Fused(k.name)
		}
		if bytes := sizes[k]; !slices.Contains(bytes, 0) {
			for _, n := range bytes {
				s.Bytes += n
			}
		}
		if k.tiles.TileM > 0 {
			s.Tile = fmt.Sprintf("%dx%d", k.tiles.TileM, k.tiles.TileN)
		}
		if k.shape.Kind == GEMM || k.shape.Kind == GEMV || k.shape.Kind == Embedding || k.shape.Kind == EmbeddingGrad {
			s.Evidence = joinEvidence(k.shape.Evidence, s.Evidence)
		}
		kernels = append(kernels, s)
	}
	slices.SortStableFunc(kernels, func(a, b KernelSummary) int { return cmp.Compare(b.TotalNs, a.TotalNs) })
	return kernels
}

// The memory of the host that a copy reads or writes, as traces name it.
const (
	pinned   = "pinned"
	Pageable = "pageable" // the driver copies it to pinned memory first, and the host waits
)

// HostMemory is the memory of the host that a copy of a name reads or writes; "" if that does not say.
func HostMemory(name string) string {
	name = strings.ToLower(name)
	for _, of := range []string{pinned, Pageable} {
		if strings.Contains(name, of) {
			return of
		}
	}
	return ""
}

func summarizeCopies(w *Workload) []copySummary {
	type kin struct{ direction, memory string }
	g, sizes := newGroups[kin, trace.Time](), map[kin][]int64{}
	beside := map[kin]trace.Time{}
	for rank, ids := range w.Ranks {
		var computes []overlap.Interval // apart, by start
		for _, id := range ids {
			if op := &w.Ops[id]; op.Kind != trace.Compute {
				continue
			} else if n := len(computes); n > 0 && op.Start <= computes[n-1].End {
				computes[n-1].End = max(computes[n-1].End, op.End)
			} else {
				computes = append(computes, overlap.Interval{Start: op.Start, End: op.End})
			}
		}
		for _, id := range ids {
			op := &w.Ops[id]
			c := w.Run.Copy(w.Run.Spans[op.Span])
			if w.Copies[rank] || op.Kind != trace.Copy || c == nil || c.Dir == trace.Fill {
				continue
			}
			k := kin{direction: c.Dir.String(), memory: HostMemory(op.Name)}
			g.add(k, op.Dur())
			sizes[k] = append(sizes[k], c.Bytes)
			at := sort.Search(len(computes), func(i int) bool { return computes[i].End > op.Start })
			for ; at < len(computes) && computes[at].Start < op.End; at++ {
				beside[k] += min(computes[at].End, op.End) - max(computes[at].Start, op.Start)
			}
		}
	}
	rows := []copySummary{}
	for _, k := range g.keys {
		r := copySummary{Direction: k.direction, Memory: k.memory, Count: len(*g.of[k]), TotalNs: total(*g.of[k]), BesideNs: beside[k]}
		if !slices.Contains(sizes[k], 0) {
			for _, n := range sizes[k] {
				r.Bytes += n
			}
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b copySummary) int { return cmp.Compare(b.TotalNs, a.TotalNs) })
	return rows
}

func joinEvidence(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

func schedule(t *Tiling) string {
	switch {
	case t.Dynamic:
		return "persistent, dynamic"
	case t.Persistent:
		return "persistent"
	}
	return ""
}

func summarizeCollectives(w *Workload) []CollectiveSummary {
	type kin struct {
		op              trace.CollectiveOp
		class           int
		group           string
		ranks, channels int
		guessed         bool
	}
	inPair := make([]bool, len(w.Collectives))
	for i := range w.Pairs {
		if c := w.Pairs[i].Collective; c >= 0 {
			inPair[c] = true
		}
	}
	alike := newGroups[kin, *Collective]()
	paired := map[kin]int{}
	for i := range w.Collectives {
		c := &w.Collectives[i]
		copied := !slices.ContainsFunc(c.Members, func(id int32) bool { return !w.Copies[w.Ops[id].Rank] })
		if c.Earlier || copied { // listed with the last, or not captured
			continue
		}
		k := kin{op: c.Op, class: bits.Len64(uint64(max(0, c.Bytes-1))), ranks: len(c.Members), channels: c.Channels, guessed: c.Guessed}
		if c.Group >= 0 {
			k.group = w.Run.Groups[c.Group].Name
		}
		alike.add(k, c)
		if inPair[i] {
			paired[k]++
		}
	}
	rows := make([]CollectiveSummary, 0, len(alike.keys))
	for _, k := range alike.keys {
		r := CollectiveSummary{
			Op: k.op.String(), Bytes: math.MaxInt64, Group: k.group, Ranks: k.ranks, Channels: k.channels,
			Guessed: k.guessed, Paired: paired[k],
		}
		n := len(*alike.of[k])
		transfers, skews := make([]moved, 0, n), make([]trace.Time, 0, n)
		shares := make([]float64, 0, n)
		for _, c := range *alike.of[k] {
			var waited, stayed trace.Time
			r.Evidence, r.Kernel = cmp.Or(r.Evidence, c.Evidence), cmp.Or(r.Kernel, w.Ops[c.Members[0]].Name)
			r.Bytes, r.MostBytes = min(r.Bytes, c.Bytes), max(r.MostBytes, c.Bytes)
			transfers, skews = append(transfers, moved{c.Before + c.Transfer(), c.Bytes, w.sent(c)}), append(skews, c.Arrive-w.StartOf(c))
			for _, id := range c.Members {
				if op := &w.Ops[id]; !w.Copies[op.Rank] {
					waited, stayed = waited+max(0, min(w.Met(op), op.End)-op.Start), stayed+op.Dur()
				}
			}
			shares = append(shares, float64(waited)/float64(max(1, stayed)))
		}
		slices.Sort(shares)
		r.Waiting = shares[(n-1)/2]
		slices.SortFunc(transfers, func(a, b moved) int { return cmp.Or(cmp.Compare(a.took, b.took), cmp.Compare(a.bytes, b.bytes)) })
		median := transfers[(n-1)/2]
		r.Count, r.TransferNs, r.SkewNs, r.MaxSkewNs = n, median.took, overlap.Median(skews), slices.Max(skews)
		if seconds := float64(median.took) / 1e9; seconds > 0 && k.op != trace.UnknownOp {
			r.Algorithm, r.Bus = float64(median.bytes)/seconds, float64(median.sent)/seconds
		}
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b CollectiveSummary) int {
		return cmp.Compare(b.TransferNs*trace.Time(b.Count), a.TransferNs*trace.Time(a.Count))
	})
	return rows
}

// moved is the bytes that one collective moved, and the time that it took.
type moved struct {
	took  trace.Time
	bytes int64
	sent  int64 // by the rank that sends most to others
}

// sent is the bytes that a rank of a collective sends to others, the most of any.
func (w *Workload) sent(c *Collective) (most int64) {
	for _, id := range c.Members {
		if comm := w.Run.Comm(w.Run.Spans[w.Ops[id].Span]); comm != nil {
			most = max(most, comm.Sent)
		}
	}
	return cmp.Or(most, c.Op.WireBytes(c.Bytes, len(c.Members)))
}

// Pairs groups the pairs by kernels' names and size, by first occurrence.
func Pairs(w *Workload) []PairSummary {
	type kin struct {
		direction     Direction
		first, second string
		bytes         int64
	}
	alike := newGroups[kin, int]()
	for i := range w.Pairs {
		p := &w.Pairs[i]
		k := kin{p.Direction, w.Ops[p.First[0]].Name, w.Ops[p.Second[0]].Name, 0}
		if p.Collective >= 0 {
			k.bytes = w.Collectives[p.Collective].Bytes
		}
		alike.add(k, i)
	}
	rows := []PairSummary{}
	for n, k := range alike.keys {
		of := *alike.of[k]
		weakest := slices.MinFunc(of, func(a, b int) int { return cmp.Compare(w.Pairs[a].Confidence, w.Pairs[b].Confidence) })
		rows = append(rows, PairSummary{
			Number: n + 1, Direction: k.direction.String(), First: k.first, Second: k.second, Bytes: k.bytes, Count: len(of),
			Confidence: w.Pairs[weakest].Confidence, Evidence: w.Pairs[weakest].Evidence, Rows: of,
		})
	}
	return rows
}

func summarizeSteps(w *Workload) []stepSummary {
	ops := make([]int, len(w.Steps))
	for i := range w.Ops {
		if s := w.Ops[i].Step; s >= 0 {
			ops[s]++
		}
	}
	rows := make([]stepSummary, 0, len(w.Steps))
	for i, s := range w.Steps {
		row := stepSummary{Name: s.Name, Ops: ops[i], Phase: s.Batch.Phase.String(), Requests: s.Batch.Requests, Tokens: s.Batch.Tokens}
		var spans []trace.Time
		for rank := range s.Start {
			if s.Start[rank] == trace.Infinity {
				continue
			}
			if len(spans) == 0 {
				row.StartNs = s.Start[rank]
			}
			spans = append(spans, s.End[rank]-s.Start[rank])
		}
		row.MedianNs = overlap.Median(spans)
		rows = append(rows, row)
	}
	return rows
}

// groups gathers values by key, keys in order of first appearance.
type groups[K comparable, V any] struct {
	keys []K
	of   map[K]*[]V
}

func newGroups[K comparable, V any]() *groups[K, V] { return &groups[K, V]{of: map[K]*[]V{}} }

// row is the values of a key.
func (g *groups[K, V]) row(k K) *[]V {
	row := g.of[k]
	if row == nil {
		row = new([]V)
		g.keys, g.of[k] = append(g.keys, k), row
	}
	return row
}

func (g *groups[K, V]) add(k K, v V) {
	row := g.row(k)
	*row = append(*row, v)
}

func total(times []trace.Time) (sum trace.Time) {
	for _, t := range times {
		sum += t
	}
	return sum
}
