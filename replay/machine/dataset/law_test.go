package dataset

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// besideRows are rows of collectives alongside compute as the machine's law has them. wait
// is what they count of the wait for compute units, in seconds; noise is relative.
func besideRows(m *machine.Machine, kernel bool, wait, noise float64) (rows []Row) {
	rng := rand.New(rand.NewPCG(3, 4))
	for kind, strategy := range coRunNames {
		for _, op := range machine.RecordedOps {
			for _, channels := range []int{4, 8, 16, 24} {
				for _, bytes := range []int64{32 << 20, 128 << 20} {
					alone := m.Library.Time(op, bytes, 4, channels)
					slow := machinetest.Slowdown(&m.Library, op, bytes, 4, channels, machine.CoRunner{Kind: machine.CoRunKind(kind), Load: 1})
					r := Row{
						ID: fmt.Sprint(strategy, op, channels, bytes), World: 4, Strategy: strategy, Line: len(rows) + 1,
						Us:       (alone*slow + wait) * (1 + noise*rng.NormFloat64()) * 1e6,
						Workload: Workload{Kind: "collective", Collective: op.String(), Bytes: bytes},
						Params:   Params{Settings: Settings{Channels: channels}, State: State{Kernel: kernel}, Alongside: Alongside{AloneUs: alone * 1e6}},
					}
					if !kernel {
						r.Us, r.Params.AloneUs = r.Us+m.Launch.Timing.Value*1e6, r.Params.AloneUs+m.Launch.Timing.Value*1e6
					}
					rows = append(rows, r)
				}
			}
		}
	}
	return rows
}

// Collectives that wait for a free compute unit are not slowed down by that.
func TestWaitIsNoSlowdown(t *testing.T) {
	truth := machinetest.Load(t, "h200")
	for _, kernel := range []bool{true, false} {
		wait := 0.0
		if !kernel {
			wait = 1.2e-3
		}
		base := machinetest.Load(t, "h200")
		for _, op := range machine.RecordedOps {
			for n := range coRunNames {
				base.Library.Of(op).CoRunSlowdown(machine.CoRunKind(n)).Value *= 3
			}
		}
		res := must.Have(CalibrateMachine(besideRows(&truth, kernel, wait, 0), base))(t)
		for _, op := range machine.RecordedOps {
			for n := range coRunNames {
				kind := machine.CoRunKind(n)
				got, want := res.Machine.Library.Of(op).CoRunSlowdown(kind).Value, truth.Library.Of(op).CoRunSlowdown(kind).Value
				if off(got, want) > 0.02 {
					t.Errorf("kernel %v, %v %s: %v, made with %v", kernel, op, coRunNames[n], got, want)
				}
			}
		}
	}
}

// Slowdowns that the base does not know are read off rows as others are.
func TestUnknownSlowdownsAreRead(t *testing.T) {
	truth, base := machinetest.Load(t, "h200"), machinetest.Load(t, "h200")
	for _, op := range machine.RecordedOps {
		for n := range coRunNames {
			*base.Library.Of(op).CoRunSlowdown(machine.CoRunKind(n)) = machine.Quantity{Mark: machine.Unknown}
		}
	}
	res := must.Have(CalibrateMachine(besideRows(&truth, true, 0, 0), base))(t)
	for _, op := range machine.RecordedOps {
		for n := range coRunNames {
			kind := machine.CoRunKind(n)
			got, want := res.Machine.Library.Of(op).CoRunSlowdown(kind), truth.Library.Of(op).CoRunSlowdown(kind)
			if !got.Known() || off(got.Value, want.Value) > 0.02 {
				t.Errorf("%v %s: %v, made with %v", op, coRunNames[n], got, want)
			}
		}
	}
}

// Where rows are noise around what the base says, its parameters stay; the choice says so.
func TestNoisyRowsKeepTheBase(t *testing.T) {
	base := machinetest.Load(t, "h200")
	rows := besideRows(&base, true, 0, 0.3)
	res := must.Have(CalibrateMachine(rows, base))(t)
	for _, c := range res.Choices {
		if c.Err > c.Base {
			t.Errorf("%s: %.3f over left-out rows, the base %.3f", c.Law, c.Err, c.Base)
		}
		if c.How == "" != (c.Err == c.Base) {
			t.Errorf("%+v", c)
		}
	}
	if got, want := res.Machine.Library.AllReduce.CoRunMemory.Value, base.Library.AllReduce.CoRunMemory.Value; off(got, want) > 0.5 {
		t.Errorf("slowdown %v of noise, the base has %v", got, want)
	}
}

// What one run of the capture script measures settles every parameter that calibration reads.
func TestCaptureSettlesAll(t *testing.T) {
	rows := setOf(t, "h200x2-capture")
	res := must.Have(CalibrateMachine(rows, machinetest.Load(t, "h100")))(t)
	for _, f := range res.Fits {
		if f.Missing != "" || strings.Contains(f.Kept, "contradict") {
			t.Errorf("%s: missing %q, kept %q", f.Key, f.Missing, f.Kept)
		}
	}
	if res.Rows < len(rows)*8/10 {
		t.Errorf("%d of %d rows read", res.Rows, len(rows))
	}
}

// Part of the rows gives a profile that can be read, even from a base that lacks what they add to.
func TestPartOfTheRowsGivesAProfile(t *testing.T) {
	rows, seeds := setOf(t, "h200x2-capture"), uint64(1)
	if longtest.Asked() {
		seeds = 3
	}
	for _, name := range []string{"h100", "a100", "mi300x"} {
		for seed := range seeds {
			rng := rand.New(rand.NewPCG(seed, 0))
			some := slices.DeleteFunc(slices.Clone(rows), func(Row) bool { return rng.IntN(10) < 3 })
			res := must.Have(CalibrateMachine(some, machinetest.Load(t, name)))(t)
			var text bytes.Buffer
			must.Do(t, machine.WriteYAML(res.Machine, &text))
			if _, err := machine.Parse(&text, "mine.yaml"); err != nil {
				t.Errorf("%s, seed %d: %v", name, seed, err)
			}
		}
	}
}

func BenchmarkCalibrate(b *testing.B) {
	d := must.Have(shipped())(b)
	base := must.Have(machine.Load("h100"))(b)
	rows := d.Sets[slices.IndexFunc(d.Sets, func(s Set) bool { return s.Name == "h200x2-capture" })].Rows
	for b.Loop() {
		if _, err := CalibrateMachine(rows, base); err != nil {
			b.Fatal(err)
		}
	}
}
