package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

func clusters(n int) kernelOption { return func(k *program.Kernel) { k.Cluster = n } }

// grouped is small with groups of CUs: pairs of a size and how many groups there are.
func grouped(rows ...[]float64) machine.Machine {
	m := small(1, 1)
	m.GPU.Groups = machine.Table{Rows: rows}
	m.GPU.CUs = q(float64(len(m.GPU.Grouping())))
	return m
}

func TestClusters(t *testing.T) {
	// CUs 0 and 1 are a lone pair; of two groups of four, CUs 2, 4, 6, 8 and 3, 5, 7, 9.
	nine := grouped([]float64{2, 1}, []float64{4, 2})
	hold := func(wgs, times int) program.Stream {
		return program.Stream{Name: "hold", Commands: []program.Command{kernel("H", wgs, work(program.Time(times)*10))}}
	}
	after := func(d program.Time, c program.Command) program.Stream {
		return program.Stream{Name: "main", Commands: []program.Command{{Op: program.Delay, Delay: d}, c}}
	}
	for _, test := range []struct {
		name    string
		m       machine.Machine
		streams []program.Stream
		want    string
	}{
		{
			// Of five clusters four find room; the fifth starts where the first ends.
			"a held CU costs a lone pair",
			nine,
			[]program.Stream{hold(1, 3), after(10, kernel("G", 10, work(10), clusters(2)))},
			`0/000.0 |HHH|
			 0/002.0 |.GG|
			 0/003.0 |.G.|
			 0/004.0 |.GG|
			 0/005.0 |.G.|
			 0/006.0 |.G.|
			 0/007.0 |.G.|
			 0/008.0 |.G.|
			 0/009.0 |.G.|`,
		},
		{
			// One held CU of each group of four leaves three: one cluster of two.
			// Two of one group leave one as well, of any two CUs.
			"what is left of a group holds whole clusters",
			nine,
			[]program.Stream{hold(5, 3), after(10, kernel("G", 4, work(10), clusters(2)))},
			`0/000.0 |HHH|
			 0/001.0 |HHH|
			 0/002.0 |HHH|
			 0/003.0 |HHH|
			 0/004.0 |HHH|
			 0/005.0 |.G.|
			 0/006.0 |.G.|
			 0/007.0 |.G.|
			 0/008.0 |.G.|`,
		},
		{
			"a larger cluster waits for its group",
			nine,
			[]program.Stream{hold(4, 3), after(10, kernel("C", 4, work(10), clusters(4)))},
			`0/000.0 |HHH.|
			 0/001.0 |HHH.|
			 0/002.0 |HHHC|
			 0/003.0 |HHH.|
			 0/004.0 |...C|
			 0/006.0 |...C|
			 0/008.0 |...C|`,
		},
		{
			"plain kernels take what a waiting cluster cannot",
			grouped([]float64{2, 1}),
			[]program.Stream{hold(1, 3), after(10, kernel("G", 2, work(10), clusters(2))), {Name: "late", Commands: []program.Command{{Op: program.Delay, Delay: 20}, kernel("P", 1, work(20))}}},
			`0/000.0 |HHH.G|
			 0/001.0 |..PPG|`,
		},
		{
			// G takes what left CUs 0 and 1, so that P replaces what left CU 2,
			// though there would be room for it alongside G.
			"a cluster takes what was freed from plain kernels",
			nine,
			[]program.Stream{
				{Name: "hold", Commands: []program.Command{kernel("H", 10, work(10))}},
				{Name: "main", Commands: []program.Command{kernel("G", 2, work(10), clusters(2), threads(5), pipe(.1))}},
				{Name: "late", Commands: []program.Command{kernel("P", 1, work(10), threads(3), pipe(.1))}},
			},
			`0/000.0 |HG|
			 0/001.0 |HG|
			 0/002.0 |HP|
			 0/003.0 |H.|
			 0/004.0 |H.|
			 0/005.0 |H.|
			 0/006.0 |H.|
			 0/007.0 |H.|
			 0/008.0 |H.|
			 0/009.0 |H.|`,
		},
		{
			"unknown groups: clusters are no matter",
			small(1, 3),
			[]program.Stream{hold(1, 3), after(10, kernel("G", 4, work(10), clusters(2)))},
			`0/000.0 |HHH|
			 0/001.0 |.GG|
			 0/002.0 |.GG|`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := mustSimulate(t, test.m, prog(test.streams), Options{Level: Workgroups})
			if got := draw(t, r.Run, trace.Slot, trace.Workgroup, 10); got != trim(test.want) {
				t.Errorf("got\n%s\nwant\n%s", got, trim(test.want))
			}
		})
	}
}

// A GEMM of 128 pairs of tiles on an H200 with some CUs held throughout by a
// plain kernel: 62 of its 66 clusters have two rounds, and the four that have
// one are the 49th, 56th, 63rd and 65th to start. Late clusters start when
// others end, so the whole takes, in rounds (measured with 1 to 8, 12, 16, 64
// held: 1.07, 1.5, 1.5, 1.95, ..., 1.95, 1.95, 2.4 times 2):
//
//	held 1    cluster 65 (one round) after an early one: 2
//	held 2, 3 63, 64, 65: two early ones let 64 start after the first round: 3
//	held 4    62 and 63 take the early places, 64 waits for 63: 4
//	held 64   34 late, 32 run: 32 to 63 after two rounds, two more after four: 5
func TestStaticClustersBesideHeldCUs(t *testing.T) {
	h200 := grouped([]float64{2, 4}, []float64{8, 1}, []float64{16, 5}, []float64{18, 2})
	for held, rounds := range map[int]program.Time{0: 2, 1: 2, 2: 3, 3: 3, 4: 4, 8: 4, 12: 4, 16: 4, 24: 4, 64: 5} {
		p := prog([]program.Stream{
			{Name: "hold", Commands: []program.Command{kernel("H", held, work(1000))}},
			{Name: "main", Commands: []program.Command{{Op: program.Delay, Delay: 1}, kernel("G", 132, work(10), clusters(2), persistent(256, -1))}},
		})
		r := mustSimulate(t, h200, p, Options{})
		for _, s := range r.Run.Spans {
			if r.Run.NameOf(s) == "G" && s.End-s.Start != rounds*10 {
				t.Errorf("%d CUs held: %d, want %d rounds of 10", held, s.End-s.Start, rounds)
			}
		}
	}
}

// The workgroups of a cluster start in the same nanosecond in one group.
func TestClustersStartTogetherInOneGroup(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		m := drawMachine(t, len(p.GPUs))
		if !m.GPU.Groups.Known() {
			return
		}
		if err := program.Check(&m, p); err != nil {
			t.Fatal(err)
		}
		s := newSim(&m, p, Options{})
		for more := true; more; more = s.next() {
			s.instant()
			members := map[string]int{}
			for g := range s.gpus {
				for c := range s.gpus[g].cus {
					for _, id := range s.gpus[g].cus[c].wgs {
						w := s.wgs.at(id)
						if l := s.kernels.at(w.launch); l.cluster > 1 && l.placed > 0 {
							members[fmt.Sprintf("%d/%d", w.launch, w.index/int32(l.cluster))] |= 1 << s.groups.of[c]
						}
					}
				}
			}
			for who, in := range members {
				if in&(in-1) != 0 {
					t.Fatalf("cluster %s lies in groups %b", who, in)
				}
			}
			for i := range s.kernels.all {
				if l := s.kernels.at(int32(i)); l.kernel != nil && l.cluster > 1 && l.placed%l.cluster != 0 {
					t.Fatalf("%s: %d workgroups placed, of clusters of %d", l.kernel.Name, l.placed, l.cluster)
				}
			}
		}
	})
}

// A captured kernel holds no CUs, so its workgroups start in the order of their
// numbers, whatever groups there are: tile i puts i bytes.
func TestCapturedClustersAreNotDealt(t *testing.T) {
	m := grouped([]float64{2, 1}, []float64{4, 2})
	m.GPUs = 2
	m.Fabric.Egress = q(1e9)
	k := kernel("k", 10, nil, clusters(2), persistent(10, -1), func(k *program.Kernel) { k.Free = true })
	k.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
		return append(buf, program.Phase{Op: program.Put, Peer: 1, Bytes: float64(tile + 1)})
	}
	var sizes []int64
	for _, x := range mustSimulate(t, m, prog([]program.Stream{{Commands: []program.Command{k}}}, nil), Options{Level: Phases}).Run.Copies {
		sizes = append(sizes, x.Bytes)
	}
	if want := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(sizes, want) {
		t.Errorf("puts of %v bytes, want %v", sizes, want)
	}
}

// Every cluster has a turn, and its groups take neighbouring ones.
func TestDeal(t *testing.T) {
	gs := newGroups(&machine.GPU{CUs: q(12), Groups: machine.Table{Rows: [][]float64{{2, 1}, {4, 1}, {6, 1}}}})
	for clusters, want := range map[int]string{6: "0 1 3 2 4 5", 5: "0 1 3 2 4", 3: "0 1 2", 7: ""} {
		got := fmt.Sprint(gs.clusterOrder(&program.Kernel{WGs: 2 * clusters, Cluster: 2, Tiles: 1}))
		if got = strings.Trim(got, "[]"); got != want {
			t.Errorf("%d clusters: %q, want %q", clusters, got, want)
		}
	}
	if got := gs.clusterOrder(&program.Kernel{WGs: 12, Cluster: 2}); got != nil {
		t.Errorf("a plain kernel: %v", got)
	}
	h200 := newGroups(&machine.GPU{CUs: q(132), Groups: machine.Table{Rows: [][]float64{{2, 4}, {8, 1}, {16, 5}, {18, 2}}}})
	order := h200.clusterOrder(&program.Kernel{WGs: 132, Cluster: 2, Tiles: 1})
	// As tiles were seen to appear with one pair of CUs free: 4096x2048x4096.
	if seen := []int32{0, 1, 2, 3, 4, 8, 16, 24, 32, 40, 48, 57}; !slices.Equal(order[:12], seen) {
		t.Errorf("%v, want %v", order[:12], seen)
	}
}
