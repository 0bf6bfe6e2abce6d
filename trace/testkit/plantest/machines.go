package plantest

import (
	"sync"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

var loadH200 = sync.OnceValues(func() (machine.Machine, error) { return machine.Load("h200") })

// H200 is the shipped profile with a number of GPUs.
func H200(t testing.TB, gpus int) machine.Machine {
	t.Helper()
	m, err := loadH200()
	if err != nil {
		t.Fatal(err)
	}
	return m.Resize(gpus)
}

// Workloads of one GEMM and one collective.
var (
	Scattered = Spec{Ranks: 4, Steps: 3, Op: trace.ReduceScatter, Bytes: 64 << 20, Gemm: 304_000, Comm: 153_000, Channels: 24}
	Gathered  = Spec{Ranks: 4, Steps: 3, Op: trace.AllGather, Bytes: 64 << 20, Gemm: 304_000, Comm: 170_000, Channels: 24, Reverse: true}
	Vector    = Spec{Ranks: 4, Steps: 3, Op: trace.AllReduce, Bytes: 64 << 10, Gemm: 30_000, Comm: 28_000, Channels: 4}
)

// Near reports whether a number is within 0.1 % of another.
func Near(got, want float64) bool { return got > 0.999*want && got < 1.001*want }

// Bare is a machine on which nothing but tiles and links takes time: a shard of
// 16 MiB takes 100 µs between two GPUs.
func Bare(t testing.TB, gpus int, top machine.Topology) machine.Machine {
	m := H200(t, gpus)
	const rate = (16 << 20) / 100e-6
	m.Fabric = machine.Fabric{Topology: top}
	links := 1.0
	if top == machine.Mesh {
		links = float64(gpus - 1)
	}
	m.Fabric.Egress.Value, m.Fabric.Ingress.Value, m.Fabric.Pair.Value = links*rate, links*rate, rate
	m.Fabric.StoreCU.Value, m.Fabric.StoreRing.Value, m.Fabric.StoreSpread.Value, m.Fabric.StoreIncast.Value = rate/4, links*rate, links*rate, links*rate
	m.Engines.Rate.Value, m.Engines.Latency.Value, m.Engines.Count.Value = rate, 0, 4
	m.Engines.Queued.Value, m.Engines.Command.Value = 0, 0
	m.Launch, m.GPU.Stream, m.GPU.Flops.Value, m.GPU.Memory.Value = machine.Launch{}, machine.Table{}, 0, 1e18
	m.Matmul.IdleGain.Value = 0
	return m
}
