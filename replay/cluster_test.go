package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/must"
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

// The workgroups of a cluster start in the same nanosecond in one group.
func TestClustersStartTogetherInOneGroup(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		m := drawMachine(t, len(p.GPUs))
		if !m.GPU.Groups.Known() {
			return
		}
		must.Do(t, program.Check(&m, p))
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
