package results

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/overlap"
)

// printCollectives prints collectives by kind and size class, with their bandwidths.
func (v *Inspection) printCollectives() {
	if len(v.summary.Collectives) == 0 {
		return
	}
	title := "collectives (bandwidths in GB/s, as nccl-tests defines them"
	if v.machine != nil {
		if rate := v.machine.LinkRate(v.summary.World); rate > 0 && v.machine.Nodes() == 1 {
			title += fmt.Sprintf("; links of %s: %.0f out of a GPU", v.machine.Name, rate/1e9)
		}
	}
	title += ")"
	all := v.summary.Collectives
	several := slices.ContainsFunc(all, func(c workload.CollectiveSummary) bool { return c.Group != all[0].Group })
	columns := []string{"operation", "size", "group", "ranks", "count", "transfer", "algbw", "busbw", "of links", "waiting", "kernel"}
	alike, kernels := false, false // rows differ in their channels, or kernels, only
	seen := map[string]string{}
	for _, c := range all {
		key := fmt.Sprint(c.Op, sizesOf(c), c.Group, c.Ranks)
		kernel, found := seen[key]
		alike, kernels = alike || found, kernels || found && kernel != c.Kernel
		seen[key] = c.Kernel
	}
	if alike || v.All {
		columns = append(columns, "channels")
	}
	if v.All {
		columns = append(columns, "matched by")
	}
	t := cli.Table{Title: title, Columns: columns, Top: v.Top}
	for _, c := range all {
		group, kernel := "", ""
		if several {
			group = cli.Shorten(c.Group, 14)
		}
		if kernels {
			kernel = cli.Middle(trace.Short(c.Kernel), 22)
		}
		algorithm, bus, links, waiting := "", "", "", ""
		if c.Bus > 0 && !c.Guessed {
			algorithm, bus = fmt.Sprintf("%.1f", c.Algorithm/1e9), fmt.Sprintf("%.1f", c.Bus/1e9)
			if v.machine != nil && v.machine.Nodes() == 1 && v.machine.LinkRate(c.Ranks) > 0 {
				links = fmt.Sprintf("%.0f %%", 100*c.Bus/v.machine.LinkRate(c.Ranks))
			}
		}
		if !v.blind() && c.Ranks > 1 {
			waiting = fmt.Sprintf("%.0f %%", 100*c.Waiting)
		}
		t.Add(c.Op, sizesOf(c), group, c.Ranks, c.Count, c.TransferNs, algorithm, bus, links, waiting, kernel, known(int64(c.Channels)), c.Evidence)
	}
	v.Show(&t)
}

// sizesOf is the size of a class of collectives: its only size, or the smallest and the largest.
func sizesOf(c workload.CollectiveSummary) string {
	size := sizeOrUnknown(c.Bytes, c.Op != trace.Barrier.String())
	if c.MostBytes > c.Bytes && c.Bytes > 0 {
		size = trace.Range(c.Bytes, c.MostBytes)
	}
	if c.Guessed && c.Bytes > 0 {
		size = "≤ " + size
	}
	return size
}

// printCopies prints copies by direction: their bytes and rate, what that is of the link to the host, and the share of their time
// beside compute.
func (v *Inspection) printCopies() {
	if len(v.summary.Copies) == 0 {
		return
	}
	title, host := "copies", 0.0
	if v.machine != nil {
		if host = v.machine.Engines.Host.Or(0); host > 0 {
			title += fmt.Sprintf(" (host link of %s: %.0f GB/s each way)", v.machine.Name, host/1e9)
		}
	}
	columns := []string{"from, to", "memory", "count", "bytes", "total", "GB/s", "of link", "beside compute"}
	t := cli.Table{Title: title, Columns: columns, Top: v.Top}
	for _, c := range v.summary.Copies {
		rate, link := "", ""
		if c.Bytes > 0 && c.TotalNs > 0 {
			bytes := float64(c.Bytes) / float64(c.TotalNs)
			rate = fmt.Sprintf("%.1f", bytes)
			if strings.Contains(c.Direction, "host") && host > 0 {
				link = fmt.Sprintf("%.0f %%", 100*bytes/(host/1e9))
			}
		}
		t.Add(c.Direction, c.Memory, c.Count, sizeOrUnknown(c.Bytes, true), c.TotalNs, rate, link, shareOf(c.BesideNs, c.TotalNs))
	}
	v.Show(&t)
}

// printKernels prints the kernels and copies that take most time. Without --all, those of one
// name and shape are one row, whatever their grids.
func (v *Inspection) printKernels() {
	ks := v.summary.Kernels
	if len(ks) == 0 {
		return
	}
	columns, wholes := []string{"kernel", "count", "total"}, make([]trace.Time, len(v.each))
	for i, p := range v.each {
		columns = append(columns, "of "+cmp.Or(strings.TrimSuffix(p.title(), " steps: "), "time"))
		for _, in := range p.of.In {
			wholes[i] += in.Length()
		}
	}
	columns = append(columns, "mean", "communicates", "shape")
	if v.All {
		columns = append(columns, "WGs", "tiles", "schedule")
	} else {
		ks = merged(ks)
	}
	short := kernelNames(ks)
	t := cli.Table{Title: "kernels and copies", Columns: columns, Top: v.Top}
	for i, k := range ks {
		tiles := k.Tile
		if k.Tiles > 0 {
			tiles = fmt.Sprintf("%d of %s", k.Tiles, k.Tile)
		}
		cells := []any{short[i], k.Count, k.TotalNs}
		for of, whole := range wholes {
			in := k.InNs
			if len(k.PhasesNs) > 0 {
				in = k.PhasesNs[of]
			}
			cells = append(cells, shareOf(in, whole))
		}
		t.Add(append(cells, k.TotalNs/trace.Time(k.Count), k.Fused, k.Shape, k.Workgroups, tiles, k.Schedule)...)
	}
	v.Show(&t)
}

// merged joins kernels of the same name and shape; the longest in total come first.
func merged(ks []workload.KernelSummary) (joined []workload.KernelSummary) {
	at := map[[2]string]int{}
	for _, k := range ks {
		key := [2]string{k.Name, k.Shape}
		i, ok := at[key]
		if !ok {
			i = len(joined)
			first := workload.KernelSummary{Name: k.Name, Shape: k.Shape, Fused: k.Fused}
			first.PhasesNs = make([]trace.Time, len(k.PhasesNs))
			at[key], joined = i, append(joined, first)
		}
		joined[i].Count, joined[i].TotalNs, joined[i].InNs = joined[i].Count+k.Count, joined[i].TotalNs+k.TotalNs, joined[i].InNs+k.InNs
		for of, d := range k.PhasesNs {
			joined[i].PhasesNs[of] += d
		}
	}
	slices.SortStableFunc(joined, func(a, b workload.KernelSummary) int { return cmp.Compare(b.TotalNs, a.TotalNs) })
	return joined
}

// nameWidth is the longest name of a kernel in a table.
const nameWidth = 28

// kernelNames are short names of kernels. One that would look like another shows where its
// full name begins to differ from the most similar one.
func kernelNames(ks []workload.KernelSummary) []string {
	shown := func(k workload.KernelSummary) string { return cli.Middle(trace.Short(k.Name), nameWidth) }
	alike := map[[2]string][]string{} // full names, by what is shown
	for _, k := range ks {
		key := [2]string{shown(k), k.Shape}
		if !slices.Contains(alike[key], k.Name) {
			alike[key] = append(alike[key], k.Name)
		}
	}
	shows := make([]string, len(ks))
	for i, k := range ks {
		shows[i] = shown(k)
		all := alike[[2]string{shows[i], k.Shape}]
		if len(all) < 2 {
			continue
		}
		at := 0 // where it differs from the most similar one
		for _, other := range all {
			n := 0
			for other != k.Name && n < min(len(k.Name), len(other)) && k.Name[n] == other[n] {
				n++
			}
			at = max(at, n)
		}
		rest := strings.ToValidUTF8(k.Name[at:], "")
		name, most := trace.Short(k.Name), nameWidth/2
		if strings.Contains(name, " ") { // with a tile
			most = nameWidth * 2 / 3
		}
		name = cli.Shorten(name, most)
		shows[i] = name + " …" + cli.Shorten(rest, max(2, nameWidth-2-len([]rune(name))))
	}
	return shows
}

// printPairs prints the pairs that strategies can overlap.
func (v *Inspection) printPairs() {
	ps := v.summary.Pairs
	if len(ps) == 0 {
		return
	}
	columns := []string{"pair", "kind", "first", "second", "size", "count", "sure"}
	if v.All {
		columns = append(columns, "evidence")
	}
	t := cli.Table{Title: "pairs (numbers for --pair)", Columns: columns, Top: v.Top}
	for _, p := range ps {
		size := ""
		if p.Direction != workload.ComputeThenCompute.String() {
			size = sizeOrUnknown(p.Bytes, true)
		}
		first, second := pairNames(v.workload, p.Rows)
		t.Add(p.Number, p.Direction, first, second,
			size, p.Count, fmt.Sprintf("%.0f %%", 100*p.Confidence), strings.Join(p.Evidence, "; "))
	}
	v.Show(&t)
}

// printRanks prints what the time of each captured rank goes to, of an iteration or of one of each phase.
func (v *Inspection) printRanks() {
	title := "ranks: where the time goes"
	if workload.Iterations(v.workload) > 0 {
		title = "ranks: where the time of an iteration goes"
	}
	for _, p := range v.each {
		if of := p.title(); of != "" {
			title = "ranks: where the time of " + strings.TrimSuffix(of, ": ") + " goes"
		}
		v.printRanksOf(title, p.of.Each, len(v.each) > 1)
	}
	if copies := len(v.summary.Ranks) - len(v.workload.Run.Ranks); copies > 0 {
		fmt.Fprintf(v.Out, " and %s that no file has: copies of these\n", cli.Counted(copies, "rank"))
	}
}

// printRanksOf prints the times of the captured ranks. What is hidden is of the whole run, unless the times are of a phase.
func (v *Inspection) printRanksOf(title string, times []overlap.Times, phase bool) {
	run := v.workload.Run
	names := make([]int, len(run.Ranks)) // by row: the trace need not say which rank it is
	for _, r := range v.summary.Ranks {
		if r.CopyOf == nil {
			names[v.workload.Rows[r.Rank]] = r.Rank
		}
	}
	transfer := "transfer"
	if v.blind() {
		transfer = "transfer and waiting"
	}
	columns := []string{"rank", "device", "compute", transfer, "waiting", "copies", "idle", "hidden"}
	if v.All {
		columns = append(columns, "clock ±", "file")
	}
	rows := cli.Table{Title: title, Columns: columns, OneUnit: true, Top: v.Top}
	for i, t := range times {
		hidden, device := "", ""
		p, ok := v.ranks[i].OverlapPercent()
		if phase {
			p, ok = hiddenPercent(t)
		}
		if ok {
			hidden = fmt.Sprintf("%.1f %%", p)
		}
		if slices.ContainsFunc(run.Ranks, func(x trace.Rank) bool { return x.Device.Name != run.Ranks[0].Device.Name }) {
			device = run.Ranks[i].Device.Name
		}
		rows.Add(fmt.Sprint(names[i]), device, t.Compute, t.Transfer, t.Waiting, t.Copies, t.Idle, hidden,
			uncertainty(run.Ranks[i].Uncertainty), run.Ranks[i].Source)
	}
	v.Show(&rows)
}

// printSteps prints the time of every step.
func (v *Inspection) printSteps() {
	if !v.All || len(v.summary.Steps) == 0 {
		return
	}
	t := cli.Table{Title: "steps", Columns: []string{"step", "phase", "requests", "tokens", "operations", "from", "median over ranks"}, Top: v.Top}
	for _, st := range v.summary.Steps {
		t.Add(st.Name, st.Phase, known(st.Requests), known(st.Tokens), st.Ops, st.StartNs, st.MedianNs)
	}
	v.Show(&t)
}

// known is a number; "" for 0, which stands for unknown.
func known(n int64) any {
	if n == 0 {
		return ""
	}
	return n
}

// sizeOrUnknown is a number of bytes; "unknown" for 0 where bytes are moved.
func sizeOrUnknown(bytes int64, moves bool) string {
	if bytes == 0 && moves {
		return "unknown"
	}
	return trace.Bytes(bytes)
}

// mostReasons is how many reasons of damage are printed without --ledger.
const mostReasons = 3

// printLedger prints how many events were skipped, repaired or noted, with the reasons for
// those skipped or repaired; all: every entry.
func (v *Inspection) printLedger(run *trace.Run, all bool) {
	l := &run.Ledger
	if len(l.Entries) == 0 {
		return
	}
	if !all {
		v.Labelled("ledger", fmt.Sprintf("%d events skipped, %d repaired, %d noted (--ledger lists them)",
			l.Count(trace.Skipped), l.Count(trace.Repaired), l.Count(trace.Noted)))
		shown := 0
		for _, e := range l.Entries {
			if e.Action != trace.Noted && shown < mostReasons {
				v.Labelled("", fmt.Sprintf("%d %s: %s", e.Count, e.Action, e.Reason))
				shown++
			}
		}
		return
	}
	t := cli.Table{Title: "ledger", Columns: []string{"action", "count", "reason", "file", "first at"}}
	for _, e := range l.Entries {
		var at []string
		for i, p := range e.Positions {
			if i == 3 {
				at = append(at, "…")
				break
			}
			at = append(at, fmt.Sprint(p))
		}
		t.Add(e.Action.String(), e.Count, cli.Shorten(e.Reason, 80), e.File, e.Unit+" "+strings.Join(at, ", "))
	}
	v.Show(&t)
}

// explainMetrics prints the definition of every figure.
func (v *Inspection) explainMetrics() {
	fmt.Fprintln(v.Out)
	for _, d := range overlap.Explain() {
		fmt.Fprintf(v.Out, "%s: %s\n", d.Term, d.Meaning)
	}
}

// uncertainty formats the alignment error of a rank's clock against the first rank's.
func uncertainty(t trace.Time) string {
	if t == trace.None {
		return "unknown"
	}
	return trace.Micros(t)
}

// printIgnored says which files with recorded dataflow were not used, and why.
func (v *Inspection) printIgnored() {
	for _, e := range v.workload.Run.Ledger.Entries {
		switch {
		case strings.Contains(e.Reason, "execution trace ") && strings.Contains(e.Reason, "ignored"), e.Reason == assemble.NoCapture, strings.HasPrefix(e.Reason, "capture of graphs ignored"):
			v.Labelled("note", e.File+": "+e.Reason)
		}
	}
}

// printDependencies prints the dataflow graph in numbers.
func (v *Inspection) printDependencies() {
	s := workload.Flows(v.workload)
	edges := 0
	for _, n := range s.Edges {
		edges += n
	}
	t := cli.Table{Title: "dependencies", Columns: []string{
		"operations", "exact", "annotated", "guessed", "given", "edges",
		"of these by stream order only", "more by reused memory", "longest chain", "its operations",
	}}
	total := 0
	for _, n := range s.Operations { // of captured ranks
		total += n
	}
	t.Add(total, s.Operations["exact"], s.Operations["annotated"], s.Operations["guessed"], s.Operations["given"],
		edges, s.Edges[workload.StreamOnly.String()], s.Reused, s.ChainNs, s.ChainOps)
	v.Show(&t)
}

// shareOf writes a part of a time as a percentage.
func shareOf(part, whole trace.Time) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(1, whole)))
}
