package machine

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

var update = flag.Bool("update", false, "rewrite profiles and goldens")

// Profiles are kept as WriteYAML writes them, so that a change of one number is a diff of one line.
func TestProfilesAreCanonical(t *testing.T) {
	for _, name := range Names() {
		file := "profiles/" + name + ".yaml"
		text := must.Have(os.ReadFile(file))(t)
		if bytes.Contains(text, []byte("\nbase: ")) {
			continue // what differs from another profile
		}
		m := must.Have(Parse(bytes.NewReader(text), file))(t)
		var b bytes.Buffer
		must.Do(t, WriteYAML(m, &b))
		Golden(t, file, b.String())
		if m.Profile != name {
			t.Errorf("%s holds profile %s", file, m.Profile)
		}
	}
}

// Printing any machine and reading it back gives the same machine, but for the
// number of GPUs, which is the file's reader's to choose.
func TestPrintedMachinesReadBack(t *testing.T) {
	for _, profile := range Names() {
		for _, gpus := range []int{1, 2, 4, 8, 16, 128} {
			m, err := mustLoad(t, profile).Sized(gpus)
			if err != nil {
				continue // a ring or torus that has fewer
			}
			var b bytes.Buffer
			must.Do(t, WriteYAML(m, &b))
			again, err := Parse(&b, profile+".yaml")
			if err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
			if again, err = again.Sized(gpus); err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
			if d := cmp.Diff(m, again); d != "" {
				t.Errorf("%s: printed and read back differs:\n%s", m.Name, d)
			}
		}
	}
}

// A machine's name loads the machine that has it.
func TestNamesLoad(t *testing.T) {
	for _, profile := range Names() {
		for gpus := 1; gpus <= 16; gpus++ {
			m := must.Have(mustLoad(t, profile).Sized(gpus))(t)
			if again := mustLoad(t, m.Name); again.Profile != profile || again.GPUs != gpus {
				t.Errorf("%s loads %s with %d GPUs", m.Name, again.Profile, again.GPUs)
			}
		}
	}
}

func TestAmbiguousNames(t *testing.T) {
	all := []string{"mi250", "mi250x", "h200"}
	if d := cmp.Diff([]Selected{{"mi250", 8}, {"mi250x", 8}}, Readings("mi250x8", all), cmp.AllowUnexported(Selected{})); d != "" {
		t.Error(d)
	}
	err := ambiguous("mi250x8", Readings("mi250x8", all))
	if want := `machine "mi250x8" may mean mi250:8 or mi250x:8: write one of these`; err.Error() != want {
		t.Errorf("got %s", err)
	}
}

// More GPUs than the fabric joins are several nodes, of a network that is assumed where the
// profile has none.
func TestNodesBeyondTheFabric(t *testing.T) {
	bare := mustLoad(t, "h200")
	bare.Network, bare.Library.Network = Network{}, Network{}
	m := must.Have(bare.Sized(16))(t)
	if m.Nodes() != 2 || m.PerNode() != 8 || m.Network.Egress.Value != 50e9 || !m.AssumedNetwork() || m.Library.Network != m.Network {
		t.Errorf("%s: %d nodes of %d, NICs of %s, assumed: %v", m.Name, m.Nodes(), m.PerNode(), m.Network.Egress, m.AssumedNetwork())
	}
	for _, name := range []string{"h200:8", "h200:16", "h800:16"} {
		if m := mustLoad(t, name); m.AssumedNetwork() || m.Nodes() != (m.GPUs+7)/8 {
			t.Errorf("%s: %d nodes, network assumed: %v", name, m.Nodes(), m.AssumedNetwork())
		}
	}
}

// Profiles of NVIDIA and AMD have a network, so that more GPUs are more nodes.
func TestProfilesHaveANetwork(t *testing.T) {
	for _, name := range Names() {
		if m := mustLoad(t, name); name != "t3" && (m.Network.Node.Value == 0 || m.Library.Network != m.Network) {
			t.Errorf("%s has no network", name)
		}
	}
}

// What nobody measured is visible. Of h200 only what no isolated benchmark shows is left.
func TestAssumptions(t *testing.T) {
	var keys []string
	for _, a := range Assumptions(mustLoad(t, "h200")) {
		keys = append(keys, a.Key)
		if a.Why == "" || a.Value == "" {
			t.Errorf("%s: no reason or value", a.Key)
		}
	}
	want := []string{
		"network.pair", "network.latency", "network.hop", "network.message",
		"engines.count", "launch.event", "launch.profiled_node", "launch.network_call",
		"library.all_gather.grain", "library.all_gather.beside_tiles", "library.all_gather.beside_latency",
		"library.reduce_scatter.grain", "library.all_to_all.grain",
	}
	if d := cmp.Diff(want, keys); d != "" {
		t.Error(d)
	}
	absent := slices.ContainsFunc(Assumptions(mustLoad(t, "mi210")), func(a Assumption) bool {
		return a.Key == "clock.knee" && a.Absent && a.Value == "unknown"
	})
	if !absent {
		t.Error("mi210: clock.knee does not show as absent")
	}
}

func mustLoad(t testing.TB, name string) Machine {
	t.Helper()
	return must.Have(Load(name))(t)
}

// Rates of a profile do not contradict each other: a collective's links carry no more than
// the GPU's links, a pair no more than a GPU, and memory no more than a kernel that only
// reads.
func TestProfilesArePhysical(t *testing.T) {
	for _, name := range Names() {
		m := mustLoad(t, name)
		f, l := &m.Fabric, &m.Library
		for _, op := range RecordedOps {
			c := l.Of(op)
			if c.Link.Value > 1.02*f.Egress.Value {
				t.Errorf("%s: %v through links of %v, the GPU has %v", name, op, c.Link, f.Egress)
			}
			if c.Channels.Value > m.GPU.CUs.Value*m.GPU.WGs.Value {
				t.Errorf("%s: %v has more channels than fit", name, op)
			}
		}
		if f.Topology == Switch && (f.Pair.Value > 1.001*f.Egress.Value || m.Engines.Rate.Value > 1.05*f.Egress.Value) {
			t.Errorf("%s: a pair at %v, a copy engine at %v, a GPU at %v", name, f.Pair, m.Engines.Rate, f.Egress)
		}
		if m.GPU.Memory.Value > 1.06*m.GPU.Read.Value { // reads: by the library's GEMVs, on H100 5 % below a copy
			t.Errorf("%s: memory %v, reads %v", name, m.GPU.Memory, m.GPU.Read)
		}
		if w := &m.Network; w.Node.Value > 0 && (w.Egress.Value <= 0 || w.Pair.Value <= 0) {
			t.Errorf("%s: network of %v per NIC, %v per pair of nodes", name, w.Egress, w.Pair)
		}
	}
}

// Numbers of a machine that rows of its own data sets gave are measured; those of a profile
// without measurements never are.
func TestOrigins(t *testing.T) {
	for name, want := range map[string]func(Origin) bool{
		"h200":   func(o Origin) bool { return o.Measured > o.Published+o.Assumed },
		"mi300x": func(o Origin) bool { return o.Measured == 0 && o.Published > 0 },
		"v100":   func(o Origin) bool { return o.Measured == 0 },
		"h800":   func(o Origin) bool { return o.Measured == 0 },
	} {
		m := must.Have(Load(name))(t)
		if o := OriginOf(m); !want(o) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}
