package html

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

const black, white = "#000000", "#ffffff"

// A kind is how one sort of segment or mark is drawn.
type kind struct {
	Label  string  `json:"label"`
	Color  string  `json:"color"` // "": that of the page's text
	Ink    string  `json:"ink"`   // of text on it
	Glyph  string  `json:"glyph"`
	Height float64 `json:"height"`         // share of the row's; with the glyph it tells kinds apart without colour
	Mark   string  `json:"mark,omitempty"` // shape of a mark; "" for a segment
	Hollow bool    `json:"hollow,omitempty"`
	Sum    int     `json:"sum,omitempty"` // as of layout.Ink
}

// kinds begins with what a search did not find, at the index of layout.Idle,
// goes on with the classes at theirs, and ends with the marks and the gaps.
func kinds() []kind {
	list := []kind{{Label: "not found", Color: "#80808030", Ink: "#808080", Height: 0.5}}
	for c := layout.Idle + 1; int(c) <= len(layout.Classes()); c++ {
		ink := c.Ink()
		k := kind{Label: ink.Name, Color: c.CSS(), Ink: black, Glyph: string(ink.Letter), Height: c.Height(), Sum: ink.Sum}
		if ink.Dark {
			k.Ink = white
		}
		list = append(list, k)
	}
	for m := layout.PutIssued; m <= layout.OtherMark; m++ {
		list = append(list, markStyle(m))
	}
	return append(list, kind{Label: "stalled", Color: "#80808080", Ink: black, Height: 0.15})
}

// gapKind is a queue with work left and nothing running, for a known reason.
func gapKind() uint8 { return markKind(layout.OtherMark) + 1 }

func markStyle(m layout.MarkKind) kind {
	k := kind{Label: m.String(), Glyph: string(m.Glyph()), Mark: "triangle", Color: layout.Put.CSS()}
	switch m {
	case layout.StoreIssued:
		k.Hollow = true
	case layout.SliceDone:
		k.Mark, k.Color = "diamond", ""
	case layout.OtherMark:
		k.Mark, k.Color = "diamond", layout.Wait.CSS()
	}
	return k
}

func markKind(k layout.MarkKind) uint8 { return uint8(len(layout.Classes()) + 1 + int(k)) }

// A dictionary interns the texts of spans.
type dictionary struct {
	names, details   []string
	nameID, detailID map[string]int32
}

func newDictionary() *dictionary {
	return &dictionary{
		names: []string{""}, nameID: map[string]int32{"": 0},
		details: []string{""}, detailID: map[string]int32{"": 0},
	}
}

func (d *dictionary) name(s string) int32   { return intern(s, &d.names, d.nameID) }
func (d *dictionary) detail(s string) int32 { return intern(s, &d.details, d.detailID) }

func intern(s string, list *[]string, ids map[string]int32) int32 {
	id, ok := ids[s]
	if !ok {
		id = int32(len(*list))
		ids[s] = id
		*list = append(*list, s)
	}
	return id
}

// newData also returns the texts that rows refer to.
func newData(rep Report) (data, error) {
	d := newDictionary()
	out := data{Kinds: kinds(), Charts: []any{}}
	var err, err2 error
	out.Lanes, err = rep.lanes(d).finish(d)
	out.Workgroups, err2 = rep.workgroups(d).finish(d)
	out.Names, out.Details, out.Short = d.names, d.details, map[int]string{}
	for i, name := range d.names {
		if short := trace.Short(name); short != name {
			out.Short[i] = short
		}
	}
	return out, errors.Join(err, err2)
}

// firstShown are the runs that timelines show at first.
func (r Report) firstShown() []int {
	if r.Shown != nil {
		return r.Shown
	}
	shown := make([]int, len(r.Runs))
	for i := range shown {
		shown[i] = i
	}
	if len(shown) <= 4 {
		return shown
	}
	slices.SortStableFunc(shown[1:], func(a, b int) int {
		return cmp.Compare(r.Runs[a].Run.End-r.Runs[a].Start, r.Runs[b].Run.End-r.Runs[b].Start)
	})
	shown = shown[:4]
	slices.Sort(shown)
	return shown
}

// charted are the runs in charts of changes.
func (r Report) charted() []int {
	runs := []int{}
	for _, rep := range append([]Report{r}, r.Others...) {
		for i, n := range r.Runs {
			if rep.Changes != nil && slices.ContainsFunc(rep.Changes.Bars, func(b Line) bool { return b.Key == n.Name }) {
				runs = append(runs, i)
			}
		}
	}
	return runs
}

// title is the name of a run with its note.
func (n Named) title() string {
	return strings.TrimSuffix(cmp.Or(n.Says, n.Name)+" · "+n.Note, " · ")
}

func (r Report) section(run int, group string) section {
	n := r.Runs[run]
	time := cmp.Or(n.Time, layout.Short(n.Run.End-n.Start))
	switch {
	case n.Run.Estimated != "":
		time = "est. " + time
	case layout.IsChanges(n.Run):
		time = ""
	}
	return section{
		Run: run, Key: n.Name, Name: cmp.Or(n.Says, n.Name), Title: n.title(), Group: group, End: n.Run.End, Time: time,
		Changes: layout.IsChanges(n.Run),
	}
}

// views are the runs with their starts at one time of the axis, origin. The page counts
// times from there, and shows at first what comes after.
func (r Report) views() (views []layout.View, origin trace.Time) {
	views = make([]layout.View, len(r.Runs))
	starts := make([]trace.Time, len(r.Runs))
	for i, n := range r.Runs {
		views[i], starts[i] = layout.View{Run: n.Run, Name: n.title(), Gaps: n.Gaps, CopyOf: n.CopyOf}, n.Start
	}
	layout.Align(views, starts)
	if len(views) > 0 {
		origin = views[0].Offset + starts[0]
	}
	return views, origin
}

// mostLanes is how many lanes are shown at first; of more, those of one rank. Beside
// strategies they are fewer, such that a screen has both.
func (r Report) mostLanes() int {
	if len(r.Strategies) > 0 {
		return 6
	}
	return 60
}

// pathGrain is the share of a timeline below which gaps of the critical path are left out.
const pathGrain = 2000

// lanes is the timeline of every rank's queues, engines and links. Host
// threads are left out: the page is about the devices.
func (r Report) lanes(d *dictionary) *panel {
	p := &panel{RowHeight: 18, Shown: r.firstShown(), Main: r.charted()}
	rows := 0 // that would be shown of all ranks
	views, origin := r.views()
	for run, v := range views {
		v.Offset -= origin
		n, t := r.Runs[run], layout.New([]layout.View{v})
		texts := newTexts(n.Run, d)
		texts.layer = n.Layer
		path := map[int][]trace.Time{} // by row
		for _, h := range t.Hops(0, (t.End-t.Start)/pathGrain) {
			gap := trace.Time(0)
			if h.Label != "" {
				gap = 1
			}
			path[h.Row] = append(path[h.Row], h.From, h.To-h.From, gap)
		}
		for i := range t.Rows {
			at := &t.Rows[i]
			switch {
			case n.CopyOf != nil && at.Rank != trace.None && n.CopyOf[at.Rank] != trace.None:
			case at.Kind == layout.RankHeading:
				p.Sections = append(p.Sections, r.section(run, shortRank(at.Label)))
				s := &p.Sections[len(p.Sections)-1]
				s.End += v.Offset
				if at.Strip {
					s.Rows = append(s.Rows, stripRow(t, i, d))
				}
			case at.Kind == layout.LaneRow && onPage(n.Run.Lanes[at.Lane].Kind) && len(at.Spans) > 0:
				s := &p.Sections[len(p.Sections)-1]
				row := laneRow(t, i, texts)
				row.Path = path[i]
				s.Rows = append(s.Rows, row)
				if !row.Detail && slices.Contains(p.Shown, run) {
					rows++
				}
			}
		}
	}
	p.Sections = slices.DeleteFunc(p.Sections, func(s section) bool {
		return !slices.ContainsFunc(s.Rows, func(r row) bool { return !r.Strip })
	})
	p.Begin = -origin
	if rows > r.mostLanes() && len(p.Sections) > 0 {
		p.Pick = r.pick(p)
	}
	return p
}

// pick is the group of a panel that is shown at first.
func (r Report) pick(p *panel) string {
	name := fmt.Sprintf("rank %d", r.Rank)
	if slices.ContainsFunc(p.Sections, func(s section) bool { return s.Group == name }) {
		return name
	}
	return p.Sections[0].Group
}

func onPage(k trace.LaneKind) bool {
	return k != trace.HostThread && k != trace.Persistent && k != trace.Slot
}

// shortRank drops the device from a heading, which is the same all over.
func shortRank(label string) string {
	short, _, _ := strings.Cut(label, " · ")
	return short
}

// stripRow is what a rank did over time: its states instead of its lanes.
func stripRow(t *layout.Timeline, i int, d *dictionary) row {
	out := row{Label: "overlap", Strip: true}
	for _, id := range t.Rows[i].Spans {
		s := t.Span(i, id)
		shift := t.Offset(i)
		out.spans = append(out.spans, segment{s.Start + shift, s.End + shift, uint8(t.Class(i, id)), d.name(t.Run(i).NameOf(s)), 0})
	}
	return out
}

func laneRow(t *layout.Timeline, i int, texts *texts) row {
	run, lane, shift := t.Run(i), t.Run(i).Lanes[t.Rows[i].Lane], t.Offset(i)
	out := row{Label: t.Rows[i].Label, Detail: lane.Kind == trace.Annotation && !layout.IsChanges(run)}
	layout.Flatten(run, t.Rows[i].Spans, func(id trace.SpanID, from, to trace.Time) {
		s := run.Spans[id]
		out.spans = append(out.spans, segment{from + shift, to + shift, uint8(t.Class(i, id)), texts.name(s), texts.detail(t, i, id)})
	})
	var gaps []segment
	for _, g := range t.Stalls(i) {
		gaps = append(gaps, segment{g.Start, g.End, gapKind(), texts.dictionary.name("stalled: " + g.Cause), texts.dictionary.detail(g.Note)})
	}
	out.spans = between(out.spans, gaps)
	return out
}

// between adds what of the gaps lies between the spans, both in order of time.
func between(spans, gaps []segment) []segment {
	if len(gaps) == 0 {
		return spans
	}
	slices.SortStableFunc(gaps, func(a, b segment) int { return cmp.Compare(a.start, b.start) })
	var out []segment
	var free trace.Time
	put := func(until trace.Time) {
		for len(gaps) > 0 && gaps[0].start < until {
			g := gaps[0]
			g.start, g.end = max(g.start, free), min(g.end, until)
			if g.start < g.end {
				out = append(out, g)
				free = g.end
			}
			if gaps[0].end > until {
				return
			}
			gaps = gaps[1:]
		}
	}
	for _, s := range spans {
		put(s.start)
		out = append(out, s)
		free = max(free, s.end)
	}
	put(trace.Infinity)
	return out
}
