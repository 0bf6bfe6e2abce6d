package assemble

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// NameGraphs gives the kernels of captured graphs what a profiler records of them only elsewhere:
// operators with shapes, sizes and groups of collectives, and grids that they lack. Sources are runs of
// the same ranks: of the launches that were recorded while the graphs were captured, or of the same
// step launched kernel by kernel. Kernels are matched by name in the order of launch; if a source does
// not name the kernels, by order alone, where there are equally many. A rank without a source takes that of
// another one with the same kernels. The run is not changed; a source may be the run itself.
func NameGraphs(run *trace.Run, sources []*trace.Run) *trace.Run {
	launches := graphLaunches(run)
	if len(launches) == 0 {
		return run
	}
	n := naming{
		run: run, keys: map[string]int32{"": 0}, named: *run, found: map[string]match{}, operators: map[*trace.Run]int32{},
		setups: map[trace.Setup]int32{},
	}
	n.named.Kernels, n.named.Comms = slices.Clone(run.Kernels), slices.Clone(run.Comms)
	n.named.Operators, n.named.Groups, n.named.Setups = slices.Clip(run.Operators), slices.Clip(run.Groups), slices.Clip(run.Setups)
	n.named.Ledger.Entries = slices.Clone(run.Ledger.Entries)
	for _, s := range sources {
		n.all = append(n.all, n.sourcesOf(s)...)
	}
	total, found, from := 0, 0, map[*trace.Run]int{}
	for _, l := range launches {
		total += len(l.kernels)
		if m := n.match(l); m.source != nil {
			for i, at := range m.at {
				if at != trace.None {
					n.take(l.kernels[i], m.source, &m.source.launches[at])
					found++
					from[m.source.run]++
				}
			}
		}
	}
	for _, s := range sources {
		if from[s] == 0 && s != run {
			n.named.Ledger.Add(trace.Noted, s.Name, NoCapture, "", 0)
		}
	}
	if found > 0 {
		n.named.Ledger.Entries = append(n.named.Ledger.Entries, trace.Entry{
			Action: trace.Noted, File: run.Name, Count: 1, Kernels: found,
			Reason: fmt.Sprintf("of the %d %s: %d take an operator, %d a grid, %d the size of a collective", total, fromCaptures,
				n.took.operators, n.took.grids, n.took.sizes),
		})
		n.named.MatchCollectives()
	}
	return &n.named
}

// What the ledger says of captures.
const (
	fromCaptures = "in captured graphs are among the launches of a capture"
	NoCapture    = "ignored: its launches are not those of a captured graph of this run"
)

// A graphLaunch is the kernels that one launch of a graph ran, in order of capture where the file numbers
// them, else of their starts.
type graphLaunch struct {
	row     int32 // of Run.Ranks
	size    int32 // of the batch, at most; 0 if unknown
	kernels []trace.SpanID
}

// executeSize finds the size of a batch in the name of the range around its forward pass:
// execute_32_context_0(...) and execute_context_0(0)_generation_32(32) of vLLM, step[DECODE bs=32 ...] of SGLang.
var executeSize = regexp.MustCompile(`^execute_(\d{1,6})_|^execute_context_0\(0\)_generation_\d+\((\d{1,6})\)|\bbs=(\d{1,6})\b`)

// captureSize finds it in the name of the file of a capture, DecodeCudaGraphRunner_bs_32_rank0.json.gz of SGLang.
var captureSize = regexp.MustCompile(`(?:^|Runner_)bs_(\d{1,6})[_.]`)

// graphLaunches lists the launches of graphs in order of their first kernel.
func graphLaunches(run *trace.Run) []graphLaunch {
	type key struct {
		row         int32
		correlation int64
	}
	at := map[key]int{}
	var all []graphLaunch
	for i, s := range run.Spans {
		k := run.Kernel(s)
		if k == nil || k.Correlation == 0 {
			continue
		}
		of := key{run.Lanes[s.Lane].Rank, k.Correlation}
		n, ok := at[of]
		if !ok {
			n = len(all)
			at[of] = n
			all = append(all, graphLaunch{row: of.row})
			for p := k.Launch; p != trace.None; p = run.Spans[p].Parent {
				if m := executeSize.FindStringSubmatch(run.NameOf(run.Spans[p])); m != nil {
					size, _ := strconv.Atoi(m[1] + m[2] + m[3])
					all[n].size = int32(size)
				}
			}
		}
		all[n].kernels = append(all[n].kernels, trace.SpanID(i))
	}
	all = slices.DeleteFunc(all, func(l graphLaunch) bool { return len(l.kernels) < 2 })
	for _, l := range all {
		number := func(id trace.SpanID) (uint32, bool) {
			n, ok := run.NodeOf(id)
			return n.Number, ok
		}
		if !slices.ContainsFunc(l.kernels, func(id trace.SpanID) bool { _, ok := number(id); return !ok }) {
			slices.SortStableFunc(l.kernels, func(a, b trace.SpanID) int {
				x, _ := number(a)
				y, _ := number(b)
				return cmp.Compare(x, y)
			})
		}
	}
	return all
}

// A source is launches of one rank in order: those of one captured graph, or all that were not of a graph.
type source struct {
	run      *trace.Run
	rank     int // id
	launches []trace.Captured
	named    bool
}

type naming struct {
	run       *trace.Run
	all       []source
	keys      map[string]int32     // numbers of names
	found     map[string]match     // by rank, size and kernels
	operators map[*trace.Run]int32 // by source: its first row in named.Operators
	setups    map[trace.Setup]int32
	named     trace.Run
	took      struct{ operators, grids, sizes int } // numbers of kernels
}

// sourcesOf lists the sources of a run: its captures, or if it has none its kernels outside of graphs.
func (n *naming) sourcesOf(run *trace.Run) []source {
	var all []source
	if len(run.Captured) > 0 {
		for i, c := range run.Captured {
			if i == 0 || c.Graph != run.Captured[i-1].Graph || c.Rank != run.Captured[i-1].Rank {
				all = append(all, source{run: run, rank: run.Ranks[c.Rank].ID, named: true})
			}
			s := &all[len(all)-1]
			if m := captureSize.FindStringSubmatch(path.Base(strings.ReplaceAll(run.Name, `\`, "/"))); m != nil && c.Size == 0 {
				size, _ := strconv.Atoi(m[1])
				c.Size = int32(size)
			}
			s.launches = append(s.launches, c)
			s.named = s.named && c.Name != 0
		}
		return all
	}
	graphs := map[trace.SpanID]bool{}
	for _, l := range graphLaunches(run) {
		for _, id := range l.kernels {
			graphs[id] = true
		}
	}
	rows := make([]source, len(run.Ranks))
	for i, s := range run.Spans {
		if k := run.Kernel(s); k != nil && !graphs[trace.SpanID(i)] {
			row := run.Lanes[s.Lane].Rank
			rows[row].launches = append(rows[row].launches, trace.Captured{Kernel: *k, As: run.Setup(k), Name: s.Name, Rank: row})
		}
	}
	for row, s := range rows {
		at := func(c *trace.Captured) trace.Time {
			if c.Launch == trace.None {
				return 0
			}
			return run.Spans[c.Launch].Start
		}
		slices.SortStableFunc(s.launches, func(a, b trace.Captured) int { return cmp.Compare(at(&a), at(&b)) })
		if len(s.launches) > 0 {
			all = append(all, source{run: run, rank: run.Ranks[row].ID, launches: s.launches, named: true})
		}
	}
	return all
}

// A match is the source of a graph launch, and by kernel the position in it or trace.None.
type match struct {
	source *source
	at     []int32
}

// fewestMatched is the smallest share, in percent, of a graph's kernels that a source has to have.
const fewestMatched = 90

// match finds the source that has most of a launch's kernels: of its rank if there is one. On a tie
// it is that of the smallest batch that holds the launch's.
func (n *naming) match(l graphLaunch) match {
	id := n.run.Ranks[l.row].ID
	key := binary.AppendVarint(binary.AppendVarint(nil, int64(id)), int64(l.size))
	for _, s := range l.kernels {
		key = binary.AppendVarint(binary.AppendVarint(key, int64(n.run.Spans[s].Name)), int64(n.setupOf(s).WGs()))
	}
	if m, ok := n.found[string(key)]; ok {
		return m
	}
	var best match
	most := 0
	for _, same := range [...]bool{true, false} {
		for i := range n.all {
			s := &n.all[i]
			if (s.rank == id) != same {
				continue
			}
			at, count := n.align(l, s)
			if count*100 >= fewestMatched*len(l.kernels) && (count > most ||
				count == most && best.source != nil && s.fits(l.size, best.source)) {
				best, most = match{s, at}, count
			}
		}
		if best.source != nil {
			break
		}
	}
	n.found[string(key)] = best
	return best
}

// fits reports whether a source is of a batch nearer to the size from above than another one's.
func (s *source) fits(size int32, other *source) bool {
	a, b := s.launches[0].Size, other.launches[0].Size
	return size > 0 && a >= size && (b < size || a < b)
}

// align matches the kernels of a launch with those of a source, and counts the matches.
func (n *naming) align(l graphLaunch, s *source) (at []int32, count int) {
	at = make([]int32, len(l.kernels))
	for i := range at {
		at[i] = trace.None
	}
	if !s.named {
		if len(s.launches) != len(l.kernels) || !n.plausible(l, s) {
			return at, 0
		}
		for i := range at {
			at[i] = int32(i)
		}
		return at, len(at)
	}
	grids := !slices.ContainsFunc(s.launches, func(c trace.Captured) bool { return c.As.WGs() == 0 })
	for _, id := range l.kernels {
		grids = grids && n.setupOf(id).WGs() > 0
	}
	ours, theirs := make([]issued, len(l.kernels)), make([]issued, len(s.launches))
	for i, id := range l.kernels {
		ours[i].key = n.key(n.run.NameOf(n.run.Spans[id]), n.setupOf(id), grids)
	}
	for i := range theirs {
		theirs[i].key = n.key(s.run.Names[s.launches[i].Name], s.launches[i].As, grids)
	}
	for _, p := range align(ours, theirs) {
		at[p[0]] = int32(p[1])
		count++
	}
	return at, count
}

func (n *naming) setupOf(kernel trace.SpanID) trace.Setup {
	return n.run.Setup(n.run.Kernel(n.run.Spans[kernel]))
}

// key is a number for a kernel's name, and with its grid.
func (n *naming) key(name string, k trace.Setup, grid bool) int32 {
	if grid {
		name = fmt.Sprint(name, k.Grid)
	}
	return trace.Number(n.keys, name)
}

// plausible reports whether the operators of a source that does not name its kernels fit those of
// a launch: where one is of communication, so is the other.
func (n *naming) plausible(l graphLaunch, s *source) bool {
	for i, id := range l.kernels {
		c := &s.launches[i]
		if c.Op == trace.None && c.Comm == trace.None {
			continue
		}
		is := c.Comm != trace.None || communicates(s.run.Operators[c.Op].Name)
		if is != trace.Communicates(n.run.NameOf(n.run.Spans[id])) {
			return false
		}
	}
	return true
}

// take gives a kernel what it lacks of what the source has.
func (n *naming) take(id trace.SpanID, s *source, from *trace.Captured) {
	span := n.run.Spans[id]
	k := &n.named.Kernels[span.Attr]
	if k.Op == trace.None && from.Op != trace.None {
		first, ok := n.operators[s.run]
		if !ok {
			first = 0
			if s.run != n.run {
				first = int32(len(n.named.Operators))
				n.named.Operators = append(n.named.Operators, s.run.Operators...)
			}
			n.operators[s.run] = first
		}
		k.Op = from.Op + first
		n.took.operators++
	}
	if was := n.named.Setup(k); was.WGs() == 0 && from.As.WGs() > 0 {
		n.took.grids++
		was.Grid, was.Block, was.Shared = from.As.Grid, from.As.Block, max(was.Shared, from.As.Shared)
		k.Setup = trace.Memo(n.setups, was, func() int32 { return trace.Push(&n.named.Setups, was) + 1 })
	}
	if span.Kind != trace.Collective {
		return
	}
	if k.Comm == trace.None {
		k.Comm = int32(len(n.named.Comms))
		n.named.Comms = append(n.named.Comms, trace.Comm{Group: trace.None, Peer: trace.None, Collective: trace.None})
	}
	c := &n.named.Comms[k.Comm]
	before := c.Bytes()
	if from.Comm != trace.None {
		n.describe(c, s.run, &s.run.Comms[from.Comm])
	}
	if k.Op != trace.None {
		fromOperator(c, &n.named.Operators[k.Op])
	}
	if c.Group != trace.None {
		complete(c, int64(n.named.Groups[c.Group].Size))
	}
	if before == 0 && c.Bytes() > 0 {
		n.took.sizes++
	}
}

// describe gives a collective what it lacks of what another one has.
func (n *naming) describe(c *trace.Comm, run *trace.Run, from *trace.Comm) {
	if c.Op == trace.UnknownOp {
		c.Op = from.Op
	}
	if c.Bytes() == 0 {
		c.In, c.Out, c.Peer = from.In, from.Out, from.Peer
		c.DType, c.ElemSize = from.DType, from.ElemSize
	}
	if c.Group == trace.None && from.Group != trace.None {
		g := run.Groups[from.Group]
		row := slices.IndexFunc(n.named.Groups, func(h trace.Group) bool {
			return h.Name == g.Name && h.Size == g.Size && slices.Equal(h.Ranks, g.Ranks)
		})
		if row < 0 {
			row = len(n.named.Groups)
			n.named.Groups = append(n.named.Groups, g)
		}
		c.Group = int32(row)
	}
}
