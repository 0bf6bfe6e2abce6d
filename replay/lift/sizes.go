package lift

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// elementBytes is the size of the types that a user may give.
var elementBytes = map[string]int{"fp8": 1, "i8": 1, "bf16": 2, "f16": 2, "f32": 4, "f64": 8}

// sizes reads the sizes of a GEMM that a user gives: rows, columns and depth, the number of
// groups, the type and the tile. It returns what is wrong with them, or "".
func (c *Correction) sizes(shape, groups, dtype, tile string) (why string) {
	dims, ok := sides(shape, 3)
	if _, fits := kernel.Volume(dims); !ok || !fits {
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

// sizesBy are the shapes and tiles that the user gives, by kernel as kernel.NewReader takes them.
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
		return op.Kind == trace.Compute && (op.Name == name || kernel.Short(op.Name) == name) && op.Shape.M == c.Shape.M && op.Shape.K == c.Shape.K
	})
}
