package replay

import (
	"cmp"
	"errors"
	goflag "flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

var _ = goflag.Bool("update", false, "rewrite the answers of scripts")

// Scripts of programs and what they do:
//
//	machine 2x3 Fabric.Latency=7e-9     small machine of so many GPUs of so many CUs, with fields set; "memory-only": no links
//	                                    limit; groups=2x1,4x2: a group of two CUs, two of four
//	run slots/10                        simulates the program below it, or the one before, and shows it (see show)
//	: 0 a: A*3 threads=4 [work 20]; delay 5; B*1 [store 1 100, post done]
//	: 1 b priority=1: wait done 3; copy C 1>0 500
//
//	with 0 b: B*2 [work 20]             the program with that stream, in place of one of the same GPU and name, shown alike
//
// A line is a stream of a GPU. NAME*N launches a kernel of N workgroups, with fields, and phases in brackets; a value a/b/c is that
// of every third tile. Of a kernel, "threads" is out of 8 that a CU has, "collective" its kind, and "peers" are those that tiles are for.
func TestScripts(t *testing.T) {
	scripttest.Run(t, "testdata/*.txt", func(testing.TB) scripttest.Handler {
		m, text, shows := small(1, 1), "", []string(nil)
		return func(t testing.TB, c scripttest.Call) string {
			switch c.Name {
			case "machine":
				m = machineOf(t, c)
			case "run":
				if c.Input != "" {
					text = c.Input
				}
				shows = c.Args
				return show(t, m, programOf(t, m.GPUs, text), shows)
			case "with":
				text = with(text, c.Text)
				return show(t, m, programOf(t, m.GPUs, text), shows)
			default:
				t.Fatalf("no call %s", c.Name)
			}
			return ""
		}
	})
}

// with is a program's text with a stream in place of one of the same GPU and name, or behind all.
func with(text, stream string) string {
	of := func(line string) string {
		head, _, _ := strings.Cut(line, ":")
		words := strings.Fields(head)
		return strings.Join(words[:min(2, len(words))], " ")
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if i := slices.IndexFunc(lines, func(line string) bool { return of(line) == of(stream) }); i >= 0 {
		lines[i] = stream
	} else {
		lines = append(lines, stream)
	}
	return strings.Join(lines, "\n")
}

func machineOf(t testing.TB, c scripttest.Call) machine.Machine {
	var gpus, cus int
	if _, err := fmt.Sscanf(c.Args[0], "%dx%d", &gpus, &cus); err != nil {
		t.Fatal(err)
	}
	m := small(gpus, cus)
	if slices.Contains(c.Args, "memory-only") {
		m.Fabric = machine.Fabric{}
	}
	if groups, ok := c.Set["groups"]; ok {
		delete(c.Set, "groups")
		for g := range strings.SplitSeq(groups, ",") {
			row := make([]float64, 2)
			if _, err := fmt.Sscanf(g, "%gx%g", &row[0], &row[1]); err != nil {
				t.Fatal(err)
			}
			m.GPU.Groups.Rows = append(m.GPU.Groups.Rows, row)
		}
		m.GPU.CUs = q(float64(len(m.GPU.Grouping())))
	}
	setAll(t, &m, c.Set)
	return m
}

// programOf reads the streams of a program.
func programOf(t testing.TB, gpus int, text string) *program.Program {
	r := &programReader{TB: t, p: &program.Program{GPUs: make([]program.GPU, gpus)}, flags: map[string]program.Flag{}}
	for line := range strings.Lines(text) {
		head, body, ok := strings.Cut(strings.TrimSpace(line), ":")
		words, set := r.words(head)
		if !ok || len(words) < 2 {
			r.Fatalf("%q is no stream", line)
		}
		if words[1] == "arbiter" {
			r.p.Arbiter.Policy = map[string]program.Policy{"round-robin": program.RoundRobin, "compute-first": program.ComputeFirst}[set["policy"]]
			delete(set, "policy")
			setAll(r, &r.p.Arbiter, titled(set))
			continue
		}
		g := &r.p.GPUs[r.number(words[0])]
		st := program.Stream{Name: words[1], Queue: int64(len(g.Streams)), Host: slices.Contains(words[2:], "host")}
		setAll(r, &st, titled(set))
		for part := range strings.SplitSeq(body, ";") {
			if part = strings.TrimSpace(part); part != "" {
				st.Commands = append(st.Commands, r.command(part))
			}
		}
		g.Streams = append(g.Streams, st)
	}
	return r.p
}

type programReader struct {
	testing.TB
	p     *program.Program
	flags map[string]program.Flag
}

func (r *programReader) words(text string) (words []string, set map[string]string) {
	set = map[string]string{}
	for word := range strings.FieldsSeq(text) {
		if k, v, ok := strings.Cut(word, "="); ok {
			set[k] = v
		} else {
			words = append(words, word)
		}
	}
	return words, set
}

func (r *programReader) number(text string) int {
	return must.Have(strconv.Atoi(text))(r)
}

func (r *programReader) flag(name string) program.Flag {
	f, ok := r.flags[name]
	if !ok {
		f = r.p.NewFlag(name)
		r.flags[name] = f
	}
	return f
}

func (r *programReader) count(words []string, at int) int64 {
	if at < len(words) {
		return int64(r.number(words[at]))
	}
	return 1
}

func (r *programReader) command(text string) program.Command {
	head, phases, _ := strings.Cut(strings.TrimSuffix(text, "]"), "[")
	words, set := r.words(head)
	c := program.Command{}
	switch words[0] {
	case "wait", "post":
		c.Op, c.Flag, c.Count = map[string]program.Op{"wait": program.Wait, "post": program.Post}[words[0]], r.flag(words[1]), r.count(words, 2)
	case "delay":
		c.Op, c.Delay = program.Delay, program.Time(r.number(words[1]))
	case "copy":
		c.Op, c.Copy = program.Start, &program.Copy{Name: words[1]}
		if _, err := fmt.Sscanf(words[2]+" "+words[3], "%d>%d %g", &c.Copy.From, &c.Copy.Peer, &c.Copy.Bytes); err != nil {
			r.Fatal(err)
		}
		setAll(r, c.Copy, titled(set))
		return c
	default:
		name, wgs, _ := strings.Cut(words[0], "*")
		k := &program.Kernel{Name: name, WGs: r.number(wgs), Kind: trace.Compute, Footprint: program.Footprint{Threads: 8}}
		for _, flag := range words[1:] {
			set[flag] = "true"
		}
		if _, ok := set["collective"]; ok {
			k.Kind = trace.Collective
			delete(set, "collective")
		}
		if n, ok := set["threads"]; ok {
			k.Footprint.Threads = r.number(n)
			delete(set, "threads")
		}
		if d, ok := set["delay"]; ok {
			c.Delay = program.Time(r.number(d))
			delete(set, "delay")
		}
		if list, ok := set["peers"]; ok {
			peers := strings.Split(list, "/")
			k.Peer = func(tile int) int { return r.number(peers[tile%len(peers)]) }
			delete(set, "peers")
		}
		setAll(r, k, titled(set))
		var of [][]string // values of every phase by tile
		for part := range strings.SplitSeq(phases, ",") {
			if part = strings.TrimSpace(part); part != "" {
				of = append(of, strings.Fields(part))
				for tile := range 16 { // adds its flags
					r.phase(strings.Fields(part), tile)
				}
			}
		}
		k.Recipe = func(tile int, buf []program.Phase) []program.Phase {
			for _, words := range of {
				buf = append(buf, r.phase(words, tile))
			}
			return buf
		}
		c.Op, c.Kernel = program.Launch, k
		return c
	}
	setAll(r, &c, titled(set))
	return c
}

func (r *programReader) phase(words []string, tile int) program.Phase {
	of := make([]string, len(words))
	for i, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			name, value = "", word
		}
		if values := strings.Split(value, "/"); len(values) > 1 {
			value = values[tile%len(values)]
		}
		if of[i] = value; ok {
			of[i] = name + "=" + value
		}
	}
	words, set := r.words(strings.Join(of, " "))
	p := program.Phase{}
	at := func(i int) int { return r.number(words[i]) }
	switch words[0] {
	case "work", "sleep":
		p.Op, p.Time = map[string]program.PhaseOp{"work": program.Work, "sleep": program.Sleep}[words[0]], program.Time(at(1))
	case "store":
		p.Op, p.Peer, p.Bytes = program.Store, program.Everyone, float64(at(2))
		if words[1] != "all" {
			p.Peer = int32(at(1))
		}
	case "put":
		p.Op, p.Peer, p.Bytes = program.Put, int32(at(1)), float64(at(2))
		if len(words) > 3 {
			p.Flag, p.Count = r.flag(words[3]), 1
		}
	case "post", "wait":
		p.Op, p.Flag, p.Count = map[string]program.PhaseOp{"post": program.PostTo, "wait": program.WaitFor}[words[0]], r.flag(words[1]), r.count(words, 2)
	default:
		r.Fatalf("no phase %s", words[0])
	}
	setAll(r, &p, titled(set))
	return p
}

// titled are fields by names in lower case.
func titled(set map[string]string) map[string]string {
	all := map[string]string{}
	for name, value := range set {
		if name == "dma" {
			name = "DMA"
		}
		all[strings.ToUpper(name[:1])+name[1:]] = value
	}
	return all
}

func setAll(t testing.TB, of any, set map[string]string) {
	for _, path := range slices.Sorted(maps.Keys(set)) {
		must.Do(t, scripttest.SetField(of, path, set[path]))
	}
}

// show simulates a program and shows
//
//	slots/10, persistent/10, streams/10, links/10    workgroups by slot, tiles by workgroup, kernels by stream, transfers, a column
//	                                                 of 10 ns
//	kernels                                          kernels and copies, from and to, ns
//	spans, vacant, idle, path, limits                what is recorded: all spans, slots of GPU 0, idle streams, the critical path, what limits
//	traffic                                          bytes by GPU, resource and name; of memory, also those written
//
// or, if nothing is asked for, how long it takes.
func show(t testing.TB, m machine.Machine, p *program.Program, what []string) string {
	level := Kernels
	for _, w := range what {
		if level < Phases && (strings.HasPrefix(w, "slots") || strings.HasPrefix(w, "persistent") || w == "vacant") {
			level = Workgroups
		} else if w == "spans" || strings.HasPrefix(w, "links") {
			level = Phases
		}
	}
	r, err := Simulate(m, p, Options{Level: level, Causes: slices.Contains(what, "path"), Limits: slices.Contains(what, "limits")})
	var dead *DeadlockError
	switch {
	case errors.As(err, &dead):
		return fmt.Sprintf("deadlock at %d ns\n%s", dead.At, strings.Join(dead.Chain, "\n"))
	case err != nil:
		return "error: " + err.Error()
	case len(what) == 0:
		return fmt.Sprintf("%d ns", r.Makespan)
	}
	var out []string
	for _, w := range what {
		name, column, _ := strings.Cut(w, "/")
		ns, _ := strconv.Atoi(column)
		switch name {
		case "slots":
			out = append(out, draw(t, r.Run, trace.Slot, trace.Workgroup, program.Time(ns)))
		case "persistent":
			out = append(out, draw(t, r.Run, trace.Persistent, trace.Workgroup, program.Time(ns)))
		case "streams":
			out = append(out, draw(t, r.Run, trace.Queue, 0, program.Time(ns)))
		case "links":
			out = append(out, draw(t, r.Run, trace.Link, trace.Transfer, program.Time(ns)))
		case "kernels":
			var all []string
			for _, s := range r.Run.Spans {
				if s.Kind.OnDevice() {
					all = append(all, fmt.Sprintf("%s %d-%d", r.Run.NameOf(s), s.Start, s.End))
				}
			}
			out = append(out, strings.Join(all, ", "))
		case "spans":
			out = append(out, list(r.Run))
		case "vacant":
			out = append(out, slotsOf(r))
		case "path":
			out = append(out, chain(p, r.Path))
		case "idle":
			for _, i := range r.Idle() {
				out = append(out, strings.TrimSuffix(fmt.Sprintf("%d/%d %d-%d %s: %s", i.Rank, i.Stream, i.Start, i.End, i.Cause, i.Note), ": "))
			}
		case "limits":
			for _, l := range r.Limits {
				out = append(out, fmt.Sprintf("%d %d-%d %s", l.GPU, l.Start, l.End, l.By))
			}
		case "traffic":
			for _, x := range r.Traffic {
				line := fmt.Sprintf("%d %s %s %g", x.GPU, x.Resource, x.Name, x.Bytes)
				if x.Resource == Memory {
					line += fmt.Sprintf(", written %g", x.Written)
				}
				out = append(out, line)
			}
		default:
			t.Fatalf("nothing is shown as %s", w)
		}
	}
	return strings.Join(out, "\n")
}

func slotsOf(r *Result) string {
	var got []string
	for _, s := range r.Run.Spans {
		if l := r.Run.Lanes[s.Lane]; l.Kind == trace.Slot && l.Rank == 0 {
			got = append(got, fmt.Sprintf("CU %d.%d %d-%d %s", l.ID, l.Sub, s.Start, s.End, r.Run.NameOf(s)))
		}
	}
	slices.SortStableFunc(got, func(a, b string) int { return cmp.Compare(a[:6], b[:6]) })
	return strings.Join(got, "\n")
}
