package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Row is a cell with its result, as tables and files have it. Times are nanoseconds.
type Row struct {
	Input      string  `json:"input" parquet:"input,dict"`
	Machine    string  `json:"machine" parquet:"machine,dict"` // "": that of the input
	WhatIf     string  `json:"what_if" parquet:"what_if,dict"`
	Clock      string  `json:"clock" parquet:"clock,dict"`
	Ranks      string  `json:"ranks" parquet:"ranks,dict"`
	Retarget   string  `json:"retarget" parquet:"retarget,dict"`
	Strategy   string  `json:"strategy" parquet:"strategy,dict"`
	Settings   string  `json:"settings" parquet:"settings,dict"`
	Seed       int64   `json:"seed" parquet:"seed"`
	Applies    bool    `json:"applies" parquet:"applies"`
	Time       int64   `json:"time_ns" parquet:"time_ns"`
	Fastest    int64   `json:"fastest_ns" parquet:"fastest_ns"`
	Slowest    int64   `json:"slowest_ns" parquet:"slowest_ns"`
	Captured   int64   `json:"captured_ns" parquet:"captured_ns"`
	Change     float64 `json:"change" parquet:"change"` // relative to Captured: -0.1 is 10 % less
	Exposed    int64   `json:"exposed_ns" parquet:"exposed_ns"`
	Confidence string  `json:"confidence" parquet:"confidence,dict"`
	Why        string  `json:"why" parquet:"why,dict"`
	Damage     string  `json:"damage" parquet:"damage,dict"` // what is damaged in the input
	ID         string  `json:"id" parquet:"id"`
}

// A HolesError is cells without a result.
type HolesError struct {
	Cells   []Cell
	Of      int
	Example string // the first one in words
}

func (e *HolesError) Error() string {
	return fmt.Sprintf("%d of %d cells have no result, the first is %s (run the sweep again: finished cells are not repeated)", len(e.Cells), e.Of, e.Example)
}

// Rows joins cells with their records, in the order of the plan. Missing records are a
// *HolesError.
func (a *Axes) Rows(finished map[string]Record) ([]Row, error) {
	cells, groups := a.Cells(), a.Groups()
	rows := make([]Row, 0, len(cells))
	var holes []Cell
	for _, c := range cells {
		g, s := groups[c.Group], a.Strategies[c.Setting]
		row := Row{
			Input: g.Input, Machine: g.Machine, WhatIf: g.WhatIf, Clock: g.Clock, Ranks: g.Ranks, Retarget: g.Retarget,
			Strategy: s.Strategy, Settings: s.Settings, Seed: c.Seed, ID: c.ID,
		}
		r, ok := finished[c.ID]
		if !ok {
			holes = append(holes, c)
			continue
		}
		row.Applies, row.Why, row.Confidence, row.Damage = r.Why == "", r.Why, r.Confidence, r.Damage
		row.Time, row.Fastest, row.Slowest, row.Captured, row.Exposed = r.Time, r.Fastest, r.Slowest, r.Captured, r.Exposed
		if row.Applies && r.Captured > 0 {
			row.Change = float64(r.Time)/float64(r.Captured) - 1
		}
		rows = append(rows, row)
	}
	if len(holes) > 0 {
		g, s := groups[holes[0].Group], a.Strategies[holes[0].Setting]
		return nil, &HolesError{holes, len(cells), fmt.Sprintf("%s under %s", g.Input, strings.TrimSpace(s.Strategy+" "+s.Settings))}
	}
	return rows, nil
}

// A Best is the fastest setting of a workload on a machine.
type Best struct {
	Group
	Strategy   string  `json:"strategy"`
	Settings   string  `json:"settings"`
	Time       int64   `json:"time_ns"` // mean over seeds
	Captured   int64   `json:"captured_ns"`
	Change     float64 `json:"change"`
	Confidence string  `json:"confidence"`
	Next       string  `json:"next"`         // the second fastest
	NextTime   int64   `json:"next_time_ns"` // 0: there is none
}

// BestOf lists the fastest setting for each group, in the order of the rows. runs reports
// whether a strategy can be chosen: bounds and future hardware cannot.
func BestOf(rows []Row, runs func(strategy string) bool) []Best {
	type setting struct {
		Row
		n int64
	}
	var order []Group
	byGroup := map[Group][]*setting{}
	index := map[Row]*setting{}
	for _, r := range rows {
		g := Group{r.Input, r.Machine, r.WhatIf, r.Clock, r.Ranks, r.Retarget}
		if _, ok := byGroup[g]; !ok {
			order = append(order, g)
			byGroup[g] = nil
		}
		if !r.Applies || !runs(r.Strategy) {
			continue
		}
		key := Row{Input: r.Input, Machine: r.Machine, WhatIf: r.WhatIf, Clock: r.Clock, Ranks: r.Ranks, Retarget: r.Retarget, Strategy: r.Strategy, Settings: r.Settings}
		if s := index[key]; s != nil {
			s.Time += r.Time
			s.n++
			continue
		}
		index[key] = &setting{r, 1}
		byGroup[g] = append(byGroup[g], index[key])
	}
	var list []Best
	for _, g := range order {
		all := byGroup[g]
		slices.SortStableFunc(all, func(a, b *setting) int { return cmp.Compare(a.Time/a.n, b.Time/b.n) })
		b := Best{Group: g}
		if len(all) > 0 {
			first := all[0]
			b.Strategy, b.Settings, b.Time, b.Captured, b.Confidence = first.Strategy, first.Settings, first.Time/first.n, first.Captured, first.Confidence
			if b.Captured > 0 {
				b.Change = float64(b.Time)/float64(b.Captured) - 1
			}
		}
		if len(all) > 1 {
			b.Next, b.NextTime = strings.TrimSpace(all[1].Strategy+" "+all[1].Settings), all[1].Time/all[1].n
		}
		list = append(list, b)
	}
	return list
}
