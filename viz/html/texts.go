package html

import (
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// texts writes the tooltip of a kernel or copy, once for each.
type texts struct {
	*dictionary
	run     *trace.Run
	names   map[trace.NameID]int32
	details map[attr]int32
	layer   func(trace.Span) string // Named.Layer
}

// An attr is a row of a side table.
type attr struct {
	kind trace.Kind
	row  int32
}

func newTexts(r *trace.Run, d *dictionary) *texts {
	return &texts{dictionary: d, run: r, names: map[trace.NameID]int32{}, details: map[attr]int32{}}
}

func (t *texts) name(s trace.Span) int32 {
	if t.layer != nil {
		if layer := t.layer(s); layer != "" {
			return t.dictionary.name(layer + " · " + trace.Short(t.run.NameOf(s)))
		}
	}
	id, ok := t.names[s.Name]
	if !ok {
		id = t.dictionary.name(t.run.NameOf(s))
		t.names[s.Name] = id
	}
	return id
}

// untold are the facts that a tooltip leaves out: its other lines say them, or they would make
// a text of each of a million kernels.
var untold = []string{"kind", "duration", "start", "end", "on", "correlation", "sequence", "stream", "priority", "launched by", "after launch"}

// detail has the facts of a kernel or copy.
func (t *texts) detail(at *layout.Timeline, row int, span trace.SpanID) int32 {
	s := at.Span(row, span)
	if s.Attr == trace.None {
		return 0
	}
	key := attr{s.Kind, s.Attr}
	id, ok := t.details[key]
	if !ok {
		var words []string
		for _, f := range at.Facts(row, span) {
			if !slices.Contains(untold, f.Name) {
				words = append(words, f.Name+" "+f.Value)
			}
		}
		id = t.dictionary.detail(strings.Join(words, " · "))
		t.details[key] = id
	}
	return id
}
