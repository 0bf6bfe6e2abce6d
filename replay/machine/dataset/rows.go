package dataset

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
)

// places are where a row has its fields, by their names in files of rows.
var places = func() map[string][]int {
	all := map[string][]int{}
	row := reflect.TypeFor[Row]()
	for _, name := range []string{"", "Workload", "Params"} {
		part, at := row, []int(nil)
		if f, ok := row.FieldByName(name); ok {
			part, at = f.Type, f.Index
		}
		for _, f := range reflect.VisibleFields(part) {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			all[tag] = slices.Concat(at, f.Index)
		}
	}
	return all
}()

// field is a field of a row.
func field(r *Row, name string) reflect.Value {
	return reflect.ValueOf(r).Elem().FieldByIndex(places[name])
}

// number is a field of a row, 0 where the row does not have it and for false.
func number(r *Row, name string) float64 {
	switch v := field(r, name); {
	case v.CanInt():
		return float64(v.Int())
	case v.CanFloat():
		return v.Float()
	case v.Bool():
		return 1
	}
	return 0
}

// where is the rows that a selection and a further test hold for. A selection is terms between
// commas: a field with what it may be ("what mm or gemm", "channels 0 or from 8", "bytes to 16 MiB"),
// or "with" or "without" a field that is not 0. Without a term for the strategy, rows are isolated
// benchmarks. What stands behind a semicolon is for people. Selections are constants: nothing that a
// row says is part of one.
func (c *calibration) where(selection string, more ...func(r *Row) bool) (list []Row) {
	terms, _, _ := strings.Cut(selection, ";")
	if !strings.Contains(terms, "strategy ") {
		terms += ", strategy isolated"
	}
	for _, term := range strings.Split(terms, ", ") {
		more = append(more, holds(term))
	}
	for i := range c.rows {
		if !slices.ContainsFunc(more, func(test func(r *Row) bool) bool { return !test(&c.rows[i]) }) {
			list = append(list, c.rows[i])
		}
	}
	return list
}

// holds is the test of one term of a selection.
func holds(term string) func(r *Row) bool {
	name, rest, _ := strings.Cut(term, " ")
	if name == "with" || name == "without" {
		return func(r *Row) bool { return number(r, rest) != 0 == (name == "with") }
	}
	if values := strings.Split(rest, " or "); field(&Row{}, name).Kind() == reflect.String {
		return func(r *Row) bool { return slices.Contains(values, field(r, name).String()) }
	}
	var bounds [][2]float64
	for _, value := range strings.Split(rest, " or ") {
		bound, limit, _ := strings.Cut(value, " ")
		if bound != "from" && bound != "to" {
			limit = value
		}
		digits, unit, _ := strings.Cut(limit, " ")
		x, err := strconv.ParseFloat(digits, 64)
		if err != nil {
			panic("calibrate: no selection of rows: " + term)
		}
		x *= machine.ScaleOf(unit)
		between := [2]float64{x, x}
		switch bound {
		case "from":
			between[1] = math.Inf(1)
		case "to":
			between[0] = math.Inf(-1)
		}
		bounds = append(bounds, between)
	}
	return func(r *Row) bool {
		x := number(r, name)
		return slices.ContainsFunc(bounds, func(b [2]float64) bool { return b[0] <= x && x <= b[1] })
	}
}

// seconds is a row's time.
func seconds(_ *calibration, r *Row) float64 { return r.Us * 1e-6 }

// kernel is a row's time in seconds less what timing adds.
func kernel(c *calibration, r *Row) float64 { return max(seconds(c, r)-c.timing(r), 1e-9) }

// timing is what a row has beyond the kernel in seconds: events and launch.
func (c *calibration) timing(r *Row) float64 {
	if r.Params.Kernel {
		return 0
	}
	return c.m.Launch.Timing.Value
}

// recordedID marks rows that stand for what a base profile has in its tables.
const recordedID = "recorded"

// recorded are the base profile's own tables as rows, as far as the new rows do
// not measure the same thing: a few benchmarks more on a machine narrow its
// profile instead of replacing it. None where no new row is of that machine.
func recorded(m *machine.Machine, rows []Row) (out []Row) {
	same, measured := false, map[string]bool{}
	for i := range rows {
		r := &rows[i]
		same = same || len(machine.Readings(r.Machine, []string{m.Profile})) > 0
		if r.Strategy == "isolated" && (r.Workload.Kind != "gemm" || r.Params.Cool) {
			measured[benchmark(&m.Library, r)] = true
		}
	}
	if !same {
		return nil
	}
	add := func(world int, w Workload, p Params, seconds float64) {
		p.Kernel = true
		r := Row{ID: recordedID, Machine: m.Name, World: world, Workload: w, Strategy: "isolated", Params: p, Us: seconds * 1e6}
		if !measured[benchmark(&m.Library, &r)] {
			out = append(out, r)
		}
	}
	for _, s := range m.Matmul.Shapes.Rows {
		w := Workload{Kind: "gemm", M: int64(s[0]), N: int64(s[1]), K: int64(s[2])}
		add(1, w, Params{State: State{Cool: true}}, s[3])
	}
	for _, op := range machine.RecordedOps {
		c := m.Library.Of(op)
		for _, s := range c.Times.Rows {
			p := Params{State: State{Queued: true}}
			if s[1] != c.Channels.Value {
				p.Channels = int(s[1])
			}
			add(int(s[0]), Workload{Kind: "collective", Collective: op.String(), Bytes: int64(s[2])}, p, s[3])
		}
	}
	return out
}

// benchmark is what a row measures of those that profiles record.
func benchmark(l *machine.Library, r *Row) string {
	w := &r.Workload
	if w.Kind == "gemm" {
		return fmt.Sprint(w.Kind, w.M, " ", w.N, " ", w.K)
	}
	return fmt.Sprint(w.Kind, w.op(), " ", r.World, " ", channelsOf(l, r), " ", w.Bytes)
}

// channelsOf is how many channels a row's collective ran on.
func channelsOf(l *machine.Library, r *Row) float64 {
	op := r.Workload.op()
	if r.Params.Channels > 0 {
		return float64(l.Runs(op, r.Params.Channels))
	}
	return l.Of(op).Channels.Value
}

// fresh reports whether any of the rows was measured anew.
func fresh(rows []Row) bool {
	return slices.ContainsFunc(rows, func(r Row) bool { return r.ID != recordedID })
}

// configuration is what a row measures: rows that are alike in it repeat each other.
func configuration(r *Row) string {
	p := r.Params
	var setting Params
	setting.Channels, setting.Programs, setting.GEMM = p.Channels, p.Programs, p.GEMM
	setting.HeldCUs, setting.HoldUs, setting.GapUs, setting.Fill = p.HeldCUs, p.HoldUs, p.GapUs, p.Fill
	s, err := json.Marshal([]any{r.World, r.Strategy, r.Workload, setting})
	if err != nil {
		panic(err) // of strings and finite numbers
	}
	return string(s)
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}

// idList names rows in a source: "c0012 to c0030, c0086 (20 rows)". Rows that
// follow each other in the file are listed as a range.
func idList(rows []Row) string {
	var parts []string
	for i := 0; i < len(rows); {
		j := i + 1
		for j < len(rows) && rows[j].File == rows[j-1].File && rows[j].Line == rows[j-1].Line+1 {
			j++
		}
		if j-i > 2 {
			parts = append(parts, rows[i].ID+" to "+rows[j-1].ID)
		} else {
			for _, r := range rows[i:j] {
				parts = append(parts, r.ID)
			}
		}
		i = j
	}
	if len(parts) > 6 {
		parts = append(parts[:3], "...", parts[len(parts)-1])
	}
	if len(rows) > 2 {
		return fmt.Sprintf("%s (%d rows)", strings.Join(parts, ", "), len(rows))
	}
	return strings.Join(parts, ", ")
}
