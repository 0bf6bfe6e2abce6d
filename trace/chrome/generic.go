package chrome

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// recognise finds the rows of GPUs in traces of other tools: rocprof v1 and
// rocmProfileData name processes GPU0, GPU1, COPY. Their events become kernels
// and copies, API calls become host calls, and everything else remains a marker.
func (d *reader) recognise() {
	for _, u := range d.unread {
		note := d.Builder.Note
		if _, _, gpu := gpuOf(d.processNames[u.pid]); gpu {
			note = d.Builder.NoteKernel
		}
		note(trace.Skipped, d.o.File, u.reason, "byte", u.pos)
	}
	gpus := false
	for i := range d.tracks {
		t := &d.tracks[i]
		if t.place != elsewhere || t.category != "" {
			continue
		}
		n, numbered, gpu := gpuOf(d.processNames[t.pid])
		if numbered && t.device < 0 {
			t.device = int32(n)
		}
		if gpu {
			t.place, gpus = onDevice, true
		}
	}
	if !gpus {
		return
	}
	for i := range d.Builder.Len() {
		id := trace.SpanID(i)
		s := d.Builder.Span(id)
		if s.Kind != trace.Marker {
			continue
		}
		switch t := &d.tracks[s.Lane]; t.place {
		case onDevice:
			d.onGPU(id, s, t)
		case elsewhere:
			if isAPI(d.Builder.NameOf(s.Name)) {
				s.Kind = trace.HostCall
				s.Attr = d.Builder.AddCall(trace.Call{Op: trace.None})
				d.calls = trace.Append(&d.Builder, d.calls, id)
			}
		}
	}
}

// gpuOf is the number of the GPU that a process is named after, and whether it is one's or that
// of copies.
func gpuOf(process string) (n int64, numbered, gpu bool) {
	name := strings.TrimSpace(process)
	n, numbered = trailing(name)
	numbered = numbered && strings.EqualFold(strings.TrimRight(name, "0123456789 "), "GPU")
	return n, numbered, numbered || name == "COPY"
}

// An unread is a skipped event without a category: a kernel or copy if its process, which may be
// named later, is a GPU.
type unread struct {
	pid, reason string
	pos         int64 // byte
}

// onGPU changes the marker on a GPU's row to a kernel or a copy.
func (d *reader) onGPU(id trace.SpanID, s *trace.Span, t *track) {
	name := d.Builder.NameOf(s.Name)
	info := deviceInfo{span: id, issuer: trace.None, param: trace.None}
	if dir := trace.Direction(name); strings.HasPrefix(name, "Copy") || dir != trace.UnknownDir {
		s.Kind = trace.Copy
		s.Attr = d.Builder.AddCopy(trace.CopyAttr{Stream: t.stream, Peer: trace.None, Op: trace.None, Origin: trace.None, Dir: dir})
		d.copies = trace.Append(&d.Builder, d.copies, info)
		return
	}
	s.Kind = trace.Compute
	if d.IsCollective(s.Name) {
		s.Kind = trace.Collective
	}
	s.Attr = d.Builder.AddKernel(trace.Kernel{Setup: d.Builder.AddSetup(trace.Setup{Stream: t.stream}), Comm: trace.None, Op: trace.None, Origin: trace.None})
	d.kernels = trace.Append(&d.Builder, d.kernels, info)
}

// isAPI reports whether a name is a call of a GPU runtime.
func isAPI(name string) bool {
	for _, p := range [...]string{"hip", "hsa_", "cuda", "roctx"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
