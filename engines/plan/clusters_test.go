package plan_test

import (
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// The library starts its channels in fours where four divides them.
func TestClustersOfChannels(t *testing.T) {
	m := plantest.H200(t, 4)
	for channels, want := range map[int]int{1: 0, 2: 0, 4: 4, 6: 0, 8: 4, 24: 4, 32: 4} {
		if got := m.Library.Clusters(channels); got != want {
			t.Errorf("%d channels: clusters of %d, want %d", channels, got, want)
		}
	}
	if v100 := machinetest.Load(t, "v100"); v100.Library.Clusters(8) != 0 {
		t.Error("no clusters before compute capability 9.0")
	}
}
