package lift

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

// Scripts of drawn runs (see drawing) and of what is found in them:
//
//	part G gemm=32x64x16              what a letter stands for, until it is said otherwise: a GEMM of two-byte elements,
//	part C all_reduce bytes=64        a collective (group=0 seq=1 in=64 out=64 elem=2 peer=1 or next or before grid=24, even,
//	                                  engines), "unknown" without anything known of it,
//	part M fill bytes=4               a copy,
//	part K name=gelu grid=8           or a kernel (block= regs= lds= op=aten::add dims=32x64,64 types=c10::Half)
//	groups 0,1 2,3                    communicators by their ranks, "x4": of so many; without any, none
//	rank 0 World=8                    a rank of the file, behind those before; "ranks": none, so that they are 0, 1, ...
//	device H200                       of all ranks; without a name, unknown
//	new                               forgets all of these
//	draw                              a run, of the lines that follow
//	: 0 7 | AA |
//	kernels 10 rank=3                 a run of one rank of a node of 8 GPUs, a kernel a line, each of so many us, on one stream
//	serve                             a run of a serving engine, which launches what each line says (see server.serve)
//	issue shapes                      a run of a rank whose host issues what the lines say, from now on with shapes; without any, the
//	                                  same: "kernel NAME"; "in RANGE of SIZE", "gradient NAME SIZE" with a kernel that adds it, and
//	                                  "taken NAME SIZE" without, around what is indented below; "sum SIZE", "sum-here SIZE" on the
//	                                  stream of compute, "gather", "scatter". Sizes are elements
//	uses                              accesses of its kernels (see recordUses)
//	lift world=8                      lifts it, of a job of so many ranks
//	sizes mi300x:8                    guesses sizes of collectives by a machine's law
//	correct                           lifts it with a user's corrections
//
// Any other call asks for something of the workload, as the function of that name in asks. Whatever is lifted is consistent.
func TestScripts(t *testing.T) {
	scripttest.Run(t, "testdata/*.txt", func(testing.TB) scripttest.Handler {
		d := drawing{parts: map[byte]part{}}
		var run *trace.Run
		var w *workload.Workload
		var issued []string // by the last "issue"
		lifted := func(t testing.TB, o Options) string {
			found, err := Workload(run, o)
			if err != nil {
				return err.Error()
			}
			checkInvariants(t, found)
			w = found
			return ""
		}
		return func(t testing.TB, c scripttest.Call) string {
			switch c.Name {
			case "part":
				d.parts[c.Args[0][0]] = partOf(t, c)
			case "groups":
				d.groups = groupsOf(t, c.Args)
			case "ranks":
				d.ranks = nil
			case "new":
				d = drawing{parts: map[byte]part{}}
			case "rank":
				r := trace.Rank{ID: integer(t, c.Args[0])}
				setAll(t, &r, c.Set)
				d.ranks = append(d.ranks, r)
			case "device":
				d.device = map[string]trace.Device{"": {}, "H200": h200}[c.Text]
			case "draw":
				d.text, w = c.Input, nil
				run = d.run(t)
			case "kernels":
				id := trace.None
				if c.Set["rank"] != "" {
					id = integer(t, c.Set["rank"])
				}
				w = nil
				run = sequenceOf(t, id, column*trace.Time(integer(t, c.Args[0])), strings.Split(strings.TrimSpace(c.Input), "\n")...)
			case "serve":
				s := server{now: 10}
				for line := range strings.Lines(c.Input) {
					s.serve(t, strings.TrimSpace(line))
				}
				w, run = nil, s.run(t)
			case "issue":
				if c.Input != "" {
					issued = strings.Split(strings.TrimRight(c.Input, "\n"), "\n")
				}
				k := capture{shapes: slices.Contains(c.Args, "shapes")}
				k.issue(t, issued)
				w, run = nil, k.run(t)
			case "sizes":
				if w == nil {
					lifted(t, Options{})
				}
				m := must.Have(machine.Load(c.Args[0]))(t)
				return GuessSizes(w, &m)
			case "uses":
				recordUses(t, run, c.Input)
			case "lift":
				return lifted(t, Options{World: integer(t, c.Set["world"])})
			case "correct":
				list, err := ParseCorrections(strings.NewReader(c.Input), "flow.yaml")
				if err == nil {
					w, err = Workload(run, Options{Dataflow: list})
				}
				if err != nil {
					return located(t, err)
				}
				checkInvariants(t, w)
				return showFlow(w)
			default:
				ask := asks[c.Name]
				if ask == nil {
					t.Fatalf("no call %s", c.Name)
				}
				if w == nil {
					if text := lifted(t, Options{}); text != "" {
						return text
					}
				}
				return ask(w)
			}
			return ""
		}
	})
}

// asks are the questions to a workload.
var asks = map[string]func(w *workload.Workload) string{
	"after":       func(w *workload.Workload) string { return after(w, 0) },
	"collectives": collectives,
	"damage":      func(w *workload.Workload) string { return strings.Join(w.Damage.Sentences, "\n") },
	"flow":        showFlow,
	"notes":       func(w *workload.Workload) string { return strings.Join(w.Notes, "\n") },
	"pairs":       drawPairs,
	// copies are the ranks of the file that ranks of the job are, "*" if as copies; and whether all wait alike.
	"copies": func(w *workload.Workload) string {
		var rows []string
		for rank, row := range w.Rows {
			rows = append(rows, fmt.Sprint(row)+map[bool]string{true: "*"}[w.Copies[rank]])
			if row == w.Rows[0] && after(w, rank) != after(w, 0) {
				rows = append(rows, "waits otherwise")
			}
		}
		return strings.Join(rows, " ")
	},
	// facts are what kernels say of collectives.
	"facts": func(w *workload.Workload) string {
		var lines []string
		for i := range w.Collectives {
			c := &w.Collectives[i]
			lines = append(lines, fmt.Sprintf("%s of group %d, number %d, %s: in %d, out %d, of %d bytes; %d channels; %d us", c.Op, c.Group, c.Seq, c.Evidence, c.In, c.Out, c.ElemSize, c.Channels, c.Transfer()/column))
		}
		return strings.Join(lines, "\n")
	},
	// guesses are operations and bytes of collectives, and whether they are guessed.
	"guesses": func(w *workload.Workload) string {
		var all []string
		for i := range w.Collectives {
			c := &w.Collectives[i]
			all = append(all, fmt.Sprintf("%s of %d bytes%s", c.Op, c.Bytes, map[bool]string{true: ", guessed"}[c.Guessed]))
		}
		return strings.Join(all, "; ")
	},
	"sums": sumsOf,
	// gradients are the kernels that add to one.
	"gradients": func(w *workload.Workload) string {
		return letters(w, opsOf(w, func(id int32) bool { return w.Ops[id].Gradient && w.Ops[id].Rank == 0 }))
	},
	// in-place are those that communicate in their output.
	"in-place": func(w *workload.Workload) string {
		return letters(w, opsOf(w, func(id int32) bool { return w.Ops[id].InPlace && w.Ops[id].Rank == 0 }))
	},
	"world": func(w *workload.Workload) string { return fmt.Sprint(w.World) },
	// batches are phases of steps, and how many operations each has.
	"batches": func(w *workload.Workload) string {
		var all []string
		for at, step := range w.Steps {
			all = append(all, fmt.Sprintf("%s %d", step.Batch.Phase, len(opsOf(w, func(id int32) bool { return w.Ops[id].Step == int32(at) }))))
		}
		return strings.Join(all, ", ")
	},
	// steps are what is of them, from and to when on each rank.
	"steps": func(w *workload.Workload) string {
		var lines []string
		for at, step := range w.Steps {
			line := step.Name + ": " + letters(w, opsOf(w, func(id int32) bool { return w.Ops[id].Step == int32(at) })) + ";"
			for r := range step.Start {
				line += fmt.Sprintf(" %d..%d", step.Start[r]/column, step.End[r]/column)
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	},
	"iterations": func(w *workload.Workload) string {
		of, n := workload.IterationsOf(w)
		var rounds []string
		for i := range n {
			rounds = append(rounds, letters(w, opsOf(w, func(id int32) bool { return of[id] == int32(i) })))
		}
		return strings.Join(rounds, "; ")
	},
	// apart are operations in marked iterations that are none, missing ones that steps lack.
	"apart":   func(w *workload.Workload) string { return fmt.Sprint(w.Damage.Apart) },
	"missing": func(w *workload.Workload) string { return fmt.Sprint(w.Damage.Missing) },
	// waits are those for ranks that nobody captured, us.
	"waits": func(w *workload.Workload) string {
		var lines []string
		for i := range w.Collectives {
			c := &w.Collectives[i]
			op := &w.Ops[c.Members[0]]
			lines = append(lines, fmt.Sprintf("%s %d", op.Name, c.Late/column))
			if c.Arrive != op.Start+c.Late || c.Transfer() != op.Dur()-c.Late {
				lines = append(lines, "which is not where its bytes begin to move")
			}
		}
		return strings.Join(lines, " ")
	},
	// tiling is of the second operation.
	"tiling": func(w *workload.Workload) string {
		tl := w.Ops[1].Tiling
		text := fmt.Sprintf("%d workgroups", tl.WGs)
		if tl.Cluster > 0 {
			text += fmt.Sprintf(" in clusters of %d", tl.Cluster)
		}
		text += fmt.Sprintf(", %d tiles of %dx%d", tl.Tiles, tl.TileM, tl.TileN)
		if tl.Persistent {
			text += " persistent"
		}
		if tl.Dynamic {
			text += " dynamic"
		}
		return text + " (" + tl.Evidence + ")"
	},
	// twins are the collectives of one size, by number.
	"twins": func(w *workload.Workload) string { return fmt.Sprint(twinsOf(w)) },
	// experts are those of each pair that a token goes to.
	"experts": func(w *workload.Workload) string {
		var experts []string
		for _, p := range w.Pairs {
			experts = append(experts, fmt.Sprint(p.Experts))
		}
		return strings.Join(experts, " ")
	},
}

func opsOf(w *workload.Workload, in func(id int32) bool) (ids []int32) {
	for i := range w.Ops {
		if in(int32(i)) {
			ids = append(ids, int32(i))
		}
	}
	return ids
}

// located is an error of a file of a user, which says where.
func located(t testing.TB, err error) string {
	t.Helper()
	var syntax *trace.SyntaxError
	if !errors.As(err, &syntax) || syntax.File != "flow.yaml" {
		t.Fatalf("%v is not located", err)
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), fmt.Sprintf("flow.yaml:line %d: ", syntax.Pos)), " (write - {")
	return fmt.Sprintf("line %d: %s", syntax.Pos, text)
}

// partOf is what a letter stands for.
func partOf(t testing.TB, c scripttest.Call) part {
	t.Helper()
	p := part{name: strings.ReplaceAll(c.Set["name"], "␣", " ")}
	ints := map[string]int64{}
	for k, v := range c.Set {
		switch k {
		case "name", "gemm", "op", "dims", "types", "peer":
		default:
			ints[k] = must.Have(strconv.ParseInt(v, 10, 64))(t)
		}
	}
	p.grid, p.block, p.regs, p.lds = int32(ints["grid"]), int32(ints["block"]), int32(ints["regs"]), int32(ints["lds"])
	if text := c.Set["gemm"]; text != "" {
		sides := sidesOf(t, text)
		p.op = gemm(sides[0], sides[1], sides[2])
	}
	if name := c.Set["op"]; name != "" {
		p.op = &trace.Operator{Name: name, Types: strings.Split(c.Set["types"], ",")}
		for dims := range strings.SplitSeq(c.Set["dims"], ",") {
			p.op.Dims = append(p.op.Dims, sidesOf(t, dims))
		}
	}
	for _, word := range c.Args[1:] {
		switch word {
		case "unknown":
			p.kind = trace.Collective
		case "fill":
			p.kind, p.copy, p.bytes = trace.Copy, trace.Fill, ints["bytes"]
		case "copy":
			p.kind, p.copy, p.bytes = trace.Copy, trace.DeviceToDevice, ints["bytes"]
		case "even":
			p.comm.Even = true
		case "engines":
			p.comm.Engines = true
		default:
			comm := trace.Comm{Group: trace.None, Peer: trace.None, In: ints["bytes"], Out: ints["bytes"], ElemSize: 2}
			must.Do(t, scripttest.SetField(&comm, "Op", word))
			for path, key := range map[string]string{"Group": "group", "Seq": "seq", "In": "in", "Out": "out", "ElemSize": "elem"} {
				if text := c.Set[key]; text != "" {
					must.Do(t, scripttest.SetField(&comm, path, text))
				}
			}
			switch peer := c.Set["peer"]; peer {
			case "":
			case "next":
				comm.Peer = nextRank
			case "before":
				comm.Peer = rankBefore
			default:
				comm.Peer = int32(integer(t, peer))
			}
			p.comm = &comm
		}
	}
	return p
}

func groupsOf(t testing.TB, texts []string) (groups []trace.Group) {
	t.Helper()
	for i, text := range texts {
		g := trace.Group{Name: fmt.Sprint(i)}
		if size, ok := strings.CutPrefix(text, "x"); ok {
			g.Size = integer(t, size)
		} else {
			for id := range strings.SplitSeq(text, ",") {
				g.Ranks = append(g.Ranks, integer(t, id))
			}
			g.Size = len(g.Ranks)
		}
		groups = append(groups, g)
	}
	return groups
}

// setAll sets fields by their paths.
func setAll(t testing.TB, of any, set map[string]string) {
	t.Helper()
	for path, text := range set {
		must.Do(t, scripttest.SetField(of, path, text))
	}
}

func sidesOf(t testing.TB, text string) (sides []int64) {
	t.Helper()
	for side := range strings.SplitSeq(text, "x") {
		sides = append(sides, int64(integer(t, side)))
	}
	return sides
}

func integer(t testing.TB, text string) int {
	t.Helper()
	return must.Have(strconv.Atoi(text))(t)
}

// collectives draws them: "all_reduce: 0C 1C; arrive 4, depart 8; 64 bytes".
func collectives(w *workload.Workload) string {
	var lines []string
	for i := range w.Collectives {
		c := &w.Collectives[i]
		held := ""
		if c.Sender > 0 {
			held = fmt.Sprintf(", held for %d", w.Ops[c.Members[c.Sender-1]].Rank)
		}
		lines = append(lines, fmt.Sprintf("%s: %s; arrive %d, depart %d; %d bytes%s", c.Op, letters(w, c.Members), c.Arrive/column, c.Depart/column, c.Bytes, held))
	}
	return strings.Join(lines, "\n")
}

// drawPairs draws them: "0G→0C 1G→1C 0.95: evidence; evidence".
func drawPairs(w *workload.Workload) string {
	var lines []string
	for _, p := range w.Pairs {
		var ranks []string
		for k := range p.First {
			ranks = append(ranks, letters(w, p.First[k:k+1])+"→"+letters(w, p.Second[k:k+1]))
		}
		lines = append(lines, fmt.Sprintf("%s %.2f: %s", strings.Join(ranks, " "), p.Confidence, strings.Join(p.Evidence, "; ")))
	}
	return strings.Join(lines, "\n")
}
