package html

import (
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// maxSpans is how many spans a timeline carries one by one: about 5 MB of the
// page. What is beyond is merged, see fit.
const maxSpans = 1_000_000

// data is the JSON document that page/*.js draws from.
type data struct {
	Kinds      []kind         `json:"kinds"`
	Names      []string       `json:"names"`   // of spans; [0] is ""
	Details    []string       `json:"details"` // of spans; [0] is ""
	Short      map[int]string `json:"short"`   // captions of names that are longer
	Charts     []any          `json:"charts"`  // options of ECharts, in the page's order
	Lanes      *panel         `json:"lanes"`
	Workgroups *panel         `json:"workgroups"`
	Use        []useGraph     `json:"use"`
}

// A panel is one timeline: its rows, and the spans of all rows in one string.
type panel struct {
	Sections  []section  `json:"sections"`
	Spans     string     `json:"spans"`
	Legend    []int      `json:"legend"` // of kinds
	RowHeight int        `json:"rowHeight"`
	Begin     trace.Time `json:"begin"`     // of the first span; not positive
	FirstRows int        `json:"firstRows"` // of a section that are shown at first; 0: all
	Shown     []int      `json:"shown"`     // runs that are shown at first
	Main      []int      `json:"main"`      // runs that can be chosen at first: those, and those in the chart of changes
	Pick      string     `json:"pick"`      // group that is shown at first; "": all
	Kernel    string     `json:"kernel"`    // likewise, of sections with a kernel
	Note      string     `json:"note"`
}

// A section is the rows of one rank of one run.
type section struct {
	Run    int        `json:"run"`
	Key    string     `json:"key"`   // of the run, in addresses
	Name   string     `json:"name"`  // of the run
	Title  string     `json:"title"` // the name with additional information
	Time   string     `json:"time"`
	Group  string     `json:"group"`
	Kernel string     `json:"kernel"` // the part of the step that the rows compare; "": all
	End    trace.Time `json:"end"`
	Rows   []row      `json:"rows"`

	Changes bool       `json:"changes,omitempty"` // between two runs
	Gaps    []gapLabel `json:"gaps,omitempty"`    // the largest intervals without computation, in order of time
}

// A gapLabel is an interval that the heading of a section labels.
type gapLabel struct {
	From  trace.Time `json:"from"`
	To    trace.Time `json:"to"`
	Color string     `json:"color"`
	Text  string     `json:"text"`
}

type row struct {
	Label   string `json:"label"`
	Cluster bool   `json:"cluster,omitempty"` // the first of a cluster
	Of      string `json:"of,omitempty"`      // likewise: the cluster's name
	Detail  bool   `json:"detail,omitempty"`  // hidden by default
	Strip   bool   `json:"strip,omitempty"`   // states of the rank, not a lane
	Nth     int    `json:"nth,omitempty"`     // number of a workgroup below its kernel
	Spans   int    `json:"spans"`
	Marks   int    `json:"marks"`

	// Path is where the critical path runs on the row: start, duration and 1 for a gap, one after another.
	Path []trace.Time `json:"path,omitempty"`

	spans, marks []segment
}

// A segment is a stretch of one colour; those of a row do not overlap. A mark is one of no length.
type segment struct {
	start, end   trace.Time
	kind         uint8
	name, detail int32
}

// encode writes segments as page/data.js reads them: five columns of numbers, each of seven
// bits a byte, low bits first, compressed together. Starts are differences from the previous
// end of the row, details from the previous detail; both may be negative, and are written
// as 2x or -2x-1. A workgroup takes about two characters.
func (p *panel) encode() error {
	var columns [5][]byte
	put := func(segments []segment) {
		var end trace.Time
		var detail int32
		for _, s := range segments {
			columns[0] = binary.AppendVarint(columns[0], int64(s.start-end))
			columns[1] = binary.AppendUvarint(columns[1], uint64(s.end-s.start))
			columns[2] = binary.AppendUvarint(columns[2], uint64(s.kind))
			columns[3] = binary.AppendUvarint(columns[3], uint64(s.name))
			columns[4] = binary.AppendVarint(columns[4], int64(s.detail-detail))
			end, detail = s.end, s.detail
		}
	}
	p.each(0, func(r *row) {
		r.Spans, r.Marks = len(r.spans), len(r.marks)
		put(r.spans)
		put(r.marks)
	})
	var text strings.Builder
	plain := base64.NewEncoder(base64.StdEncoding, &text)
	z, err := gzip.NewWriterLevel(plain, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, c := range columns {
		if _, err := z.Write(c); err != nil {
			return err
		}
	}
	if err := errors.Join(z.Close(), plain.Close()); err != nil {
		return err
	}
	p.Spans = text.String()
	return nil
}

// finish merges spans beyond the limit, notes that, and fills in derived fields.
func (p *panel) finish(d *dictionary) (*panel, error) {
	if len(p.Sections) == 0 {
		return nil, nil
	}
	p.fit(d, maxSpans)
	var seen [256]bool
	p.each(0, func(r *row) {
		for _, g := range slices.Concat(r.spans, r.marks) {
			seen[g.kind] = true
		}
	})
	for k := range seen {
		if seen[k] {
			p.Legend = append(p.Legend, k)
		}
	}
	return p, p.encode()
}

// fit coarsens the rows until they hold no more than so many spans, and spares
// the rows that a section shows at first if those are no more than half of it.
func (p *panel) fit(d *dictionary, most int) {
	all := p.count(0)
	if all <= most {
		return
	}
	spared := p.FirstRows
	if all-p.count(spared) > most/2 {
		spared = 0
	}
	var grain trace.Time = 1
	for p.countMerged(grain, spared)+all-p.count(spared) > most {
		grain *= 2
	}
	p.each(spared, func(r *row) {
		r.spans = merge(r.spans, grain, d)
		r.marks = thin(r.marks, grain)
	})
	p.Note = fmt.Sprintf("%d spans are shown as %d: neighbours shorter than %s are merged", all, p.count(0), layout.Short(grain))
	if spared > 0 {
		p.Note += fmt.Sprintf(" in all but the first %d rows", spared)
	}
	p.Note += ", in the colour that fills most of them. The trace has them all."
}

// each calls f for the rows of every section from the first workgroup of a kernel on.
func (p *panel) each(first int, f func(*row)) {
	for i := range p.Sections {
		rows := p.Sections[i].Rows
		for j := range rows {
			if rows[j].Nth >= first {
				f(&rows[j])
			}
		}
	}
}

func (p *panel) count(first int) (n int) {
	p.each(first, func(r *row) { n += len(r.spans) + len(r.marks) })
	return n
}

func (p *panel) countMerged(grain trace.Time, first int) (n int) {
	p.each(first, func(r *row) {
		for rest := r.spans; len(rest) > 0; n++ {
			rest = rest[mergeable(rest, grain):]
		}
		n += len(thin(slices.Clone(r.marks), grain))
	})
	return n
}

// mergeable is how many segments, at least one, go into one block: those that
// start within a grain of the first and are shorter than it.
func mergeable(s []segment, grain trace.Time) int {
	n := 0
	for n < len(s) && s[n].end-s[n].start < grain && s[n].start-s[0].start < grain {
		n++
	}
	return max(n, 1)
}

// merge joins short neighbours into blocks.
func merge(segments []segment, grain trace.Time, d *dictionary) []segment {
	var out []segment
	for rest := segments; len(rest) > 0; {
		n := mergeable(rest, grain)
		out = append(out, block(rest[:n], d))
		rest = rest[n:]
	}
	return out
}

// block is one segment for several, in the colour that fills most of them.
func block(s []segment, d *dictionary) segment {
	if len(s) == 1 {
		return s[0]
	}
	var time [256]trace.Time
	b := segment{start: s[0].start, end: s[len(s)-1].end, kind: s[0].kind}
	for _, g := range s {
		time[g.kind] += g.end - g.start
		if time[g.kind] > time[b.kind] {
			b.kind = g.kind
		}
	}
	b.name = d.name(fmt.Sprintf("%d spans", len(s)))
	return b
}

// thin keeps the first mark of each kind in a grain.
func thin(marks []segment, grain trace.Time) []segment {
	last := map[uint8]trace.Time{}
	return slices.DeleteFunc(marks, func(m segment) bool {
		at, ok := last[m.kind]
		if ok && m.start-at < grain {
			return true
		}
		last[m.kind] = m.start
		return false
	})
}
