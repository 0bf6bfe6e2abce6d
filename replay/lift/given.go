package lift

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Correction is the user's word on the dependency of an op on an earlier one, or on the sizes of
// a kernel.
//
// Ops are named by kernel, whole or up to its arguments, or by a collective's operation
// (all_reduce). NAME#2 is the second one of each rank. Without a number all are meant;
// what is read is then the last one before.
type Correction struct {
	Op          string
	Reads       string          // it reads what this one wrote
	Independent string          // no data pass between the two
	Shape       workload.Shape  // of the kernels Op, or Op@workgroups for those of that grid; M 0: not given
	Tile        workload.Tiling // their tile; TileM 0: not given
	File        string
	Line        int
}

// ParseCorrections reads a YAML list of {op: NAME, reads: NAME}, {op: NAME, independent: NAME} and
// {op: NAME, shape: MxNxK}. Errors are *trace.SyntaxError with a line.
func ParseCorrections(r io.Reader, file string) ([]Correction, error) {
	body, errs, err := machine.Read(r, file, 1<<20, "a list of dependencies")
	if err = cmp.Or(err, errs.Err()); err != nil || body == nil {
		return nil, err
	}
	items, ok := body.(*ast.SequenceNode)
	if !ok {
		return nil, badCorrection(file, body.GetToken().Position.Line, "no list")
	}
	var list []Correction
	for _, item := range items.Values {
		c, err := parseCorrection(item, file)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

const cureCorrection = "write - {op: NAME, reads: NAME}, - {op: NAME, independent: NAME} or - {op: NAME, shape: MxNxK, groups: 1, type: bf16, tile: 128x128}, of which the last three may be left out; NAME as overlapse inspect lists kernels, NAME#2 for the second of a rank"

func badCorrection(file string, line int, msg string) error {
	return &trace.SyntaxError{File: file, Pos: int64(line), Unit: "line", Msg: msg, Cure: cureCorrection}
}

// parseCorrection reads one item of the list.
func parseCorrection(item ast.Node, file string) (c Correction, err error) {
	c.File, c.Line = file, item.GetToken().Position.Line
	values := machine.Pairs(item)
	if values == nil {
		return c, badCorrection(file, c.Line, "no keys and values")
	}
	var shape, groups, dtype, tile string
	for _, v := range values {
		key, line := machine.Key(v), v.Key.GetToken().Position.Line
		to := map[string]*string{
			"op": &c.Op, "reads": &c.Reads, "independent": &c.Independent, "shape": &shape, "groups": &groups,
			"type": &dtype, "tile": &tile,
		}[key]
		if to == nil {
			return c, badCorrection(file, line, fmt.Sprintf("unknown key %q", key))
		}
		if *to, _ = machine.Word(v.Value); *to == "" {
			return c, badCorrection(file, line, key+" has no value")
		}
	}
	given := 0
	for _, of := range []string{c.Reads, c.Independent, shape} {
		if of != "" {
			given++
		}
	}
	if c.Op == "" || given != 1 || shape == "" && groups+dtype+tile != "" {
		return c, badCorrection(file, c.Line, "give op, and one of reads, independent and shape")
	}
	if shape != "" {
		if why := c.sizes(shape, groups, dtype, tile); why != "" {
			return c, badCorrection(file, c.Line, why)
		}
	}
	return c, nil
}

// An opPattern is a name of ops, and the number of the one meant, from 1; 0: all.
type opPattern struct {
	name string
	n    int
}

func parsePattern(text string) opPattern {
	if i := strings.LastIndexByte(text, '#'); i > 0 {
		if n, err := strconv.Atoi(text[i+1:]); err == nil && n > 0 {
			return opPattern{text[:i], n}
		}
	}
	return opPattern{text, 0}
}

// called reports whether a user means a kernel: by its whole name, or as messages or tables have it.
func called(kernelName, name string) bool {
	return kernelName == name || workload.FunctionName(kernelName) == name || trace.Short(kernelName) == name
}

// find lists the ops of a rank that a pattern means, ascending.
func find(w *workload.Workload, p opPattern, ids []int32) []int32 {
	var list []int32
	for _, id := range ids {
		op := &w.Ops[id]
		name := called(op.Name, p.name)
		if op.Collective >= 0 && w.Collectives[op.Collective].Op.String() == p.name {
			name = true
		}
		if name {
			list = append(list, id)
		}
	}
	switch {
	case p.n == 0:
		return list
	case p.n > len(list):
		return nil
	}
	return list[p.n-1 : p.n]
}

// correct changes the graph as the user says. It is an error if a correction fits no op
// of any rank.
func correct(w *workload.Workload, list []Correction) error {
	for _, c := range list {
		if c.Shape.M > 0 {
			if !sizedOps(w, &c) {
				return badCorrection(c.File, c.Line, fmt.Sprintf("no kernel %s, or another entry gives its shape", c.Op))
			}
			continue
		}
		op, other := parsePattern(c.Op), parsePattern(c.Reads+c.Independent)
		fits := false
		for _, ids := range w.Ranks {
			later, earlier := find(w, op, ids), find(w, other, ids)
			for _, id := range later {
				if c.Independent != "" {
					fits = separate(w, id, earlier) || fits
					continue
				}
				if at, _ := slices.BinarySearch(earlier, id); at > 0 {
					give(w, id, earlier[at-1])
					fits = true
				}
			}
		}
		if !fits {
			return badCorrection(c.File, c.Line, fmt.Sprintf("no %s depends on an earlier %s, or can", c.Op, c.Reads+c.Independent))
		}
	}
	return nil
}

// give adds the edge that an op reads what an earlier one wrote.
func give(w *workload.Workload, id, earlier int32) {
	edges := slices.Clone(w.Flow[id])
	e := workload.Edge{Op: earlier, Kind: workload.ReadAfterWrite, Evidence: workload.Given}
	at, ok := edgeTo(edges, earlier)
	if ok {
		e.Bytes = edges[at].Bytes
		edges[at] = e
	} else {
		edges = slices.Insert(edges, at, e)
	}
	w.Flow[id] = edges
}

// separate removes the edges between an op and others, and reports whether the op and
// one of them exist.
func separate(w *workload.Workload, id int32, others []int32) bool {
	for _, o := range others {
		first, second := min(id, o), max(id, o)
		w.Flow[second] = slices.DeleteFunc(slices.Clone(w.Flow[second]), func(e workload.Edge) bool { return e.Op == first })
	}
	return len(others) > 0
}

// elementBytes is the size of the types that a user may give.
var elementBytes = map[string]int{"fp8": 1, "i8": 1, "bf16": 2, "f16": 2, "f32": 4, "f64": 8}

// sizes reads the sizes of a GEMM that a user gives: rows, columns and depth, the number of
// groups, the type and the tile. It returns what is wrong with them, or "".
func (c *Correction) sizes(shape, groups, dtype, tile string) (why string) {
	dims, ok := sides(shape, 3)
	if _, fits := volume(dims); !ok || !fits {
		return fmt.Sprintf("shape %q is not rows x columns x depth, such as 512x4096x1024", shape)
	}
	dtype = cmp.Or(dtype, "bf16")
	c.Shape = workload.Shape{M: dims[0], N: dims[1], K: dims[2], ElemSize: elementBytes[dtype], DType: dtype}
	if c.Shape.ElemSize == 0 {
		return fmt.Sprintf("type %q is none of fp8, i8, bf16, f16, f32, f64", dtype)
	}
	if groups != "" {
		n, ok := sides(groups, 1)
		if !ok || n[0] > dims[0] {
			return fmt.Sprintf("groups %q is no number up to the %d rows", groups, dims[0])
		}
		c.Shape.Groups = n[0]
	}
	if tile != "" {
		n, ok := sides(tile, 2)
		if !ok {
			return fmt.Sprintf("tile %q is not rows x columns, such as 128x256", tile)
		}
		c.Tile = workload.Tiling{TileM: int(n[0]), TileN: int(n[1])}
	}
	return ""
}

// sides reads n positive numbers with an x between them.
func sides(text string, n int) (list []int64, ok bool) {
	for _, word := range strings.Split(strings.ReplaceAll(text, "×", "x"), "x") {
		v, err := strconv.ParseInt(strings.TrimSpace(word), 10, 64)
		if err != nil || v <= 0 || v > math.MaxInt32 {
			return nil, false
		}
		list = append(list, v)
	}
	return list, len(list) == n
}

// sizesBy are the shapes and tiles that the user gives, by kernel as kernel.newKernelReader takes them.
func sizesBy(list []Correction) (shapes map[string]workload.Shape, tiles map[string]workload.Tiling) {
	shapes, tiles = map[string]workload.Shape{}, map[string]workload.Tiling{}
	for _, c := range list {
		if c.Shape.M > 0 {
			shapes[c.Op] = c.Shape
		}
		if c.Tile.TileM > 0 {
			tiles[c.Op] = c.Tile
		}
	}
	return shapes, tiles
}

// sizedOps reports whether a rank has a kernel of the given sizes.
func sizedOps(w *workload.Workload, c *Correction) bool {
	name, _, _ := strings.Cut(c.Op, "@")
	return slices.ContainsFunc(w.Ops, func(op workload.Op) bool {
		sized := cmp.Or(op.Shape, op.Unfused)
		return op.Kind == trace.Compute && called(op.Name, name) && sized.M == c.Shape.M && sized.K == c.Shape.K
	})
}
