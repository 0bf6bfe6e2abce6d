package svg

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// segments draws what is seen of the row's spans. Those narrower than a pixel share it: it
// has the colour of the class that fills most of it, as high as it is full.
func (p *painter) segments(i int, top, height float64) {
	run, shift := p.t.Run(i), p.t.Offset(i)
	lo, hi := p.t.Touching(i, p.window.From, p.window.To)
	s := slivers{p: p, top: top + 1, height: height - 2, pixel: -1}
	layout.Flatten(run, p.t.Rows[i].Spans[lo:hi], func(id trace.SpanID, from, to trace.Time) {
		x0, x1 := max(p.x(from+shift), p.left), min(p.x(to+shift), p.right)
		if x1 < p.left || x0 > p.right || to+shift < p.window.From {
			return
		}
		class := p.t.Class(i, id)
		p.seen[class] = true
		if x1-x0 < least {
			s.add(class, x0, x1)
			return
		}
		s.flush()
		width := x1 - x0
		if width > 4 {
			width -= 0.6 // so that equal neighbours can be told apart
		}
		h := s.height * class.Height()
		box(&p.boxes[class], x0, s.top+(s.height-h)/2, width, h)
		if width >= 12 && h > 7 {
			p.caption(i, id, class, x0, top+height/2+3.5, width)
		}
	})
	s.flush()
}

// caption writes on a wide segment what it is, or its letter.
func (p *painter) caption(i int, id trace.SpanID, class layout.Class, x, y, width float64) {
	ink := class.Ink()
	style := "small dark"
	if ink.Dark {
		style = "small light"
	}
	text := p.t.Caption(i, id)
	if width < 50 && textWidth(text, style) > width-6 || text == "" {
		text = string(rune(ink.Letter))
	}
	p.texts = append(p.texts, caption{x + 3, y, width - 6, style, text})
}

// slivers gathers segments narrower than a pixel.
type slivers struct {
	p           *painter
	top, height float64
	pixel       int
	cover       [64]float64 // of the pixel, by class
	run         struct {    // neighbouring pixels that look alike
		class       layout.Class
		level, x, n int
	}
}

func (s *slivers) add(class layout.Class, x0, x1 float64) {
	if s.pixel != int(x0) {
		s.flushPixel()
		s.pixel = int(x0)
	}
	s.cover[class] += max(x1-x0, 1e-3)
}

func (s *slivers) flushPixel() {
	if s.pixel < 0 {
		return
	}
	var most layout.Class
	total := 0.0
	for c, share := range s.cover {
		total += share
		if share > s.cover[most] {
			most = layout.Class(c)
		}
	}
	clear(s.cover[:])
	level := max(1, min(4, int(4*total+0.999)))
	if r := &s.run; r.n > 0 && r.class == most && r.level == level && r.x+r.n == s.pixel {
		r.n++
	} else {
		s.flushRun()
		r.class, r.level, r.x, r.n = most, level, s.pixel, 1
	}
	s.pixel = -1
}

func (s *slivers) flushRun() {
	if r := &s.run; r.n > 0 {
		h := s.height * r.class.Height() * float64(r.level) / 4
		box(&s.p.boxes[r.class], float64(r.x), s.top+(s.height-h)/2, float64(r.n), h)
		r.n = 0
	}
}

func (s *slivers) flush() {
	s.flushPixel()
	s.flushRun()
}

// mark adds a triangle or a diamond.
func (p *painter) mark(k layout.MarkKind, x, y, r float64) {
	b := &p.marks[k]
	b.WriteString("M" + num(x) + " " + num(y-r))
	if k == layout.SliceDone || k == layout.OtherMark {
		b.WriteString("l" + num(r) + " " + num(r) + "l" + num(-r) + " " + num(r) + "l" + num(-r) + " " + num(-r) + "z")
		return
	}
	b.WriteString("l" + num(r) + " " + num(2*r) + "h" + num(-2*r) + "z")
}

func markFill(k layout.MarkKind) string {
	switch k {
	case layout.SliceDone:
		return "ink"
	case layout.OtherMark:
		return layout.Wait.CSS()
	}
	return layout.Put.CSS()
}

// flush draws what was gathered.
func (p *painter) flush() {
	p.d.Path("faint", p.stall.String())
	for _, c := range layout.Classes() {
		p.d.Path(c.CSS(), p.boxes[c].String())
	}
	for _, t := range p.texts {
		p.d.Text(t.x, t.y, t.class, t.text, t.room)
	}
	for k := range layout.NumMarks {
		p.d.Path(markFill(k), p.marks[k].String())
	}
}

// legend names the colours and marks below the rows.
func (p *painter) legend(path bool) {
	x, y := p.left, p.bottom+20
	item := func(name string, draw func()) {
		width := 30 + textWidth(name, "small")
		if x+width > p.right && x > p.left {
			x, y = p.left, y+18
		}
		draw()
		p.d.Text(x+22, y, "small soft", name, 0)
		x += width + 10
	}
	for _, c := range layout.Classes() {
		if p.seen[c] {
			item(c.Ink().Name, func() {
				h := 10 * c.Height()
				p.d.Rect(x, y-4-h/2, 18, h, c.CSS(), "")
			})
		}
	}
	for k := range layout.NumMarks {
		if p.marks[k].Len() > 0 {
			item(k.String(), func() {
				p.marks[k].Reset()
				p.mark(k, x+9, y-4, 5)
				p.d.Path(markFill(k), p.marks[k].String())
			})
		}
	}
	if path {
		item("critical path", func() { p.d.Rect(x, y-5, 18, pathHeight, "path", "") })
	}
	p.d.height = y + 10
}

// base is a line down from the end of the first run of a part, which the others are compared with.
func (p *painter) base() {
	if len(p.rows) == 0 || len(p.t.Rows[p.rows[0]].Largest) == 0 || len(p.t.Views) < 2 {
		return
	}
	_, end := p.extent(p.rows[0])
	if x := p.x(end); x > p.left && x < p.right {
		var b strings.Builder
		for y := axisHeight; y < p.bottom; y += 7 {
			box(&b, x-0.5, y, 1, min(4, p.bottom-y))
		}
		p.d.Path("faint", b.String())
	}
}

const pathHeight = 3.0

// path draws the critical path of every run: a line below what it consists of, thinner where
// nothing ran, and lines from row to row.
func (p *painter) path() {
	tops := map[int]float64{}
	for k, row := range p.rows {
		tops[row] = p.tops[k]
	}
	var b strings.Builder
	for v := range p.t.Views {
		last := -1.0
		for _, hop := range p.t.Hops(v, trace.Time(0.5/p.scale)) {
			top, ok := tops[hop.Row]
			if !ok {
				last = -1
				continue
			}
			x0, x1, y, height := max(p.x(hop.From), p.left), min(p.x(hop.To), p.right), top+p.height(hop.Row)-pathHeight, pathHeight
			if hop.Label != "" {
				height = 1
			}
			if x1 <= x0 {
				continue
			}
			box(&b, x0, y, x1-x0, height)
			if last >= 0 && last != y {
				box(&b, x0, min(last, y), 1, max(last, y)-min(last, y)+pathHeight)
			}
			last = y
		}
	}
	p.d.Path("path", b.String())
}
