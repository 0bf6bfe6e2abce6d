package format

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// shared is the folder beside the checkout with traces that are not in it.
const shared = "../../../shared/data"

// TestJobs opens whole jobs: every rank has every collective, and after
// alignment all ends of one agree within what is stated.
func TestJobs(t *testing.T) {
	if _, err := os.Stat(shared); err != nil {
		t.Skip("the folder shared beside the checkout is absent: no real jobs to open")
	}
	jobs, err := filepath.Glob(filepath.Join(shared, "h200/traces/*"))
	if err != nil || len(jobs) < 40 {
		t.Fatal(len(jobs), err)
	}
	for _, path := range append(jobs, filepath.Join(shared, "traces/astra-sim-mytest/megatron-tp8")) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			run := must.Have(Open(path, Options{}))(t)
			if n := run.Ranks[0].World; n != len(run.Ranks) {
				t.Fatalf("%d ranks of %d", len(run.Ranks), n)
			}
			for i, r := range run.Ranks {
				if r.ID != i || r.Device.Name == "" || r.Device.CUs == 0 {
					t.Errorf("row %d: %+v", i, r)
				}
				if r.Uncertainty > trace.Time(100*time.Microsecond) {
					t.Errorf("rank %d: uncertainty %v", i, time.Duration(r.Uncertainty))
				}
			}
			checkCollectives(t, run)
		})
	}
}

// checkCollectives wants each operation once on every rank, ending together.
func checkCollectives(t *testing.T, run *trace.Run) {
	t.Helper()
	type operation struct {
		group, op string
		seq       int64
	}
	type members struct {
		ranks       map[int]bool
		bytes       map[int64]bool
		first, last trace.Time // ends
	}
	operations := map[operation]*members{}
	for _, s := range run.Spans {
		c := run.Comm(s)
		if c == nil {
			continue
		}
		key := operation{op: c.Op.String(), seq: c.Seq}
		if c.Group != trace.None {
			key.group = fmt.Sprint(run.Groups[c.Group])
		}
		m := operations[key]
		if m == nil {
			m = &members{map[int]bool{}, map[int64]bool{}, s.End, s.End}
			operations[key] = m
		}
		if m.ranks[run.RankOf(s)] {
			t.Errorf("rank %d has %+v twice", run.RankOf(s), key)
		}
		m.ranks[run.RankOf(s)], m.bytes[c.Bytes()] = true, true
		m.first, m.last = min(m.first, s.End), max(m.last, s.End)
	}
	for key, m := range operations {
		if len(m.ranks) != len(run.Ranks) || len(m.bytes) != 1 {
			t.Errorf("%+v: on %d of %d ranks, of sizes %v", key, len(m.ranks), len(run.Ranks), m.bytes)
		}
		if apart := time.Duration(m.last - m.first); apart > 2*time.Millisecond {
			t.Errorf("%+v: ends are %v apart", key, apart)
		}
	}
}
