//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// writeJob writes the Kineto file of a rank: layers of six kernels and an all-reduce on a
// stream of its own, each with its operator and its call, 21 events a layer.
func writeJob(w io.Writer, rank, ranks, layers int) error {
	out := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(out, `{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":%d,"world_size":%d},"baseTimeNanoseconds":1790857026000000000,"traceEvents":[{}`, rank, ranks)
	for layer := range layers {
		for k := range 7 {
			id := 7*layer + k + 1
			host, device := 11*id, 60*id
			name, stream, dur := fmt.Sprintf("Cijk_gemm_%d", k), 7, 50+(id+rank)%9
			if k == 6 {
				name, stream, dur = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", 20, 300-rank
			}
			fmt.Fprintf(out, `,{"ph":"X","cat":"cpu_op","name":"aten::op%d","pid":9,"tid":9,"ts":%d,"dur":9,"args":{"External id":%d}}`, k, host, id)
			fmt.Fprintf(out, `,{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":%d,"dur":5,"args":{"correlation":%d,"External id":%[2]d}}`, host+2, id)
			fmt.Fprintf(out, `,{"ph":"X","cat":"kernel","name":"%s","pid":%d,"tid":%d,"ts":%d,"dur":%d,"args":{"stream":%[3]d,"device":%[2]d,"correlation":%[6]d,"External id":%[6]d}}`,
				name, rank, stream, device, dur, id)
		}
	}
	fmt.Fprint(out, "]}")
	return out.Flush()
}

// BenchmarkFirstStart shows a job of eight ranks and ten million events in a process of its
// own, and reports its CPU time and the most memory that it had.
func BenchmarkFirstStart(b *testing.B) {
	if testing.Short() {
		b.Skip("writes ten million events")
	}
	const ranks, events, perLayer = 8, 10_000_000, 21
	dir, bin := b.TempDir(), filepath.Join(b.TempDir(), "overlapse")
	for r := range ranks {
		f := must.Have(os.Create(filepath.Join(dir, fmt.Sprintf("rank-%d.json.gz", r))))(b)
		z, _ := gzip.NewWriterLevel(f, gzip.BestSpeed) // fails for bad levels only
		must.Do(b, writeJob(z, r, ranks, events/ranks/perLayer))
		must.Do(b, z.Close())
		f.Close()
	}
	self := must.Have(os.Executable())(b)
	must.Do(b, os.Symlink(self, bin))
	var cpu, peak float64
	for b.Loop() {
		c := exec.Command(bin, "view", dir, "--print", "-q")
		if out, err := c.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		usage := c.ProcessState.SysUsage().(*syscall.Rusage)
		cpu += (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
		peak = max(peak, float64(usage.Maxrss)/1024) // in KiB
	}
	b.ReportMetric(cpu/float64(b.N), "CPU-s/op")
	b.ReportMetric(peak, "peak-MiB")
}
