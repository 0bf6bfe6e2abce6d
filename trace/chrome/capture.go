package chrome

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A captureCall is what a call does while graphs are captured.
type captureCall uint8

const (
	otherCall captureCall = iota
	beginCapture
	endCapture
	launchKernel
)

func captureCallOf(name string) captureCall {
	switch {
	case !strings.HasPrefix(name, "cu") && !strings.HasPrefix(name, "hip"):
	case strings.Contains(name, "StreamBeginCapture"):
		return beginCapture
	case strings.Contains(name, "StreamEndCapture"):
		return endCapture
	case strings.Contains(name, "Launch") && strings.Contains(name, "Kernel"):
		return launchKernel
	}
	return otherCall
}

// captureSize finds the size of the batch in the name of a range around a capture: capture_32_FULL or
// graph_capture: batch=32 of vLLM.
var captureSize = regexp.MustCompile(`^(?:capture_|graph_capture: batch=)(\d{1,6})(?:\D|$)`)

// captures lists the launches between the begin and the end of a capture that launched no kernel.
func (d *reader) captures(find func(deviceInfo) (param, bool), groups func(int32) int32) {
	run := &d.Builder.Run
	what := make([]captureCall, len(run.Names))
	for i, name := range run.Names {
		what[i] = captureCallOf(name)
	}
	if !slices.Contains(what, beginCapture) {
		return
	}
	var calls []int32 // rows
	for row, span := range d.calls {
		if s := d.Builder.Span(span); !s.Dropped() && what[s.Name] != otherCall {
			calls = append(calls, int32(row))
		}
	}
	slices.SortStableFunc(calls, func(a, b int32) int {
		x, y := d.Builder.Span(d.calls[a]), d.Builder.Span(d.calls[b])
		return cmp.Or(cmp.Compare(x.Start, y.Start), cmp.Compare(y.End, x.End))
	})
	described := map[int32]*launchInfo{}
	for i := range d.launches {
		described[d.launches[i].call] = &d.launches[i]
	}
	operators := d.operators()
	graph, size, open := int32(-1), int32(0), false
	for _, row := range calls {
		id := d.calls[row]
		s := d.Builder.Span(id)
		switch what[s.Name] {
		case beginCapture:
			graph, size, open = graph+1, d.sizeAround(id), true
		case endCapture:
			open = false
		case launchKernel:
			if !open || s.Kind == trace.Launch || s.Parent != trace.None && what[d.Builder.Span(s.Parent).Name] == launchKernel {
				continue
			}
			info := deviceInfo{span: id, external: run.Calls[row].External, param: trace.None}
			d.setIssuer(&info, id, run.Calls[row].Correlation, operators)
			k := trace.Captured{Rank: d.rankOf(id), Graph: graph, Size: size}
			k.Kernel = trace.Kernel{Launch: id, Comm: trace.None, Op: d.shaped(info.issuer), Origin: trace.None}
			if l := described[row]; l != nil {
				k.Name, k.As = l.kernel, d.geometry(trace.Setup{}, d.Builder.NameOf(s.Name), 0, l)
			}
			k.Launch = trace.None
			if p, ok := find(info); ok {
				c := p.comm
				if c.Group != trace.None {
					c.Group = groups(c.Group)
				}
				k.Comm = d.Builder.AddComm(c)
			}
			run.Captured = append(run.Captured, k)
		}
	}
}

// sizeAround reads the size of the batch from the ranges around a call; 0 if they do not say.
func (d *reader) sizeAround(id trace.SpanID) int32 {
	for p := d.Builder.Span(id).Parent; p != trace.None; p = d.Builder.Span(p).Parent {
		if m := captureSize.FindStringSubmatch(d.Builder.NameOf(d.Builder.Span(p).Name)); m != nil {
			n, _ := strconv.Atoi(m[1])
			return int32(n)
		}
	}
	return 0
}
