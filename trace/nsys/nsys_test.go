package nsys

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/sqldbtest"
)

func read(path string) (*trace.Run, error) {
	db, err := lex.Open(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return ReadDB(db)
}

// Global ids: process 7 and thread 8 of it.
const (
	global7 = 7 << 24
	thread8 = 7<<24 + 8
)

var script = fmt.Sprintf(`
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
INSERT INTO StringIds VALUES (1, 'void gemm<float>(float*)'), (2, 'cudaLaunchKernel_v7000'), (3, 'gemm'), (4, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (5, 'step');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, deviceId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 200, 1, NULL, 7, 11, %[1]d, 1, 3, 32, 4, 2, 1, 256, 1, 1, 16, 1024), (210, 300, 1, NULL, 8, 12, %[1]d, 4, 4, 96, 16, 1, 1, 512, 1, 1, 0, 0), (NULL, 1, 1, NULL, 8, 12, %[1]d, 4, 4, 96, 16, 1, 1, 512, 1, 1, 0, 0);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, "end" INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcDeviceId INTEGER, dstDeviceId INTEGER, srcKind INTEGER, dstKind INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10, 50, 1, 7, 13, %[1]d, 4096, 1, NULL, NULL, 0, 2), (60, 70, 1, 7, 14, %[1]d, 64, 10, 0, 1, NULL, NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, "end" INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (80, 90, %[2]d, 11, 2);
CREATE TABLE NVTX_EVENTS (start INTEGER, "end" INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER);
INSERT INTO NVTX_EVENTS VALUES (5, 310, 59, NULL, %[2]d, 5), (6, NULL, 39, 'MPI Rank 3', %[2]d, NULL), (20, NULL, 34, 'here', %[2]d, NULL);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, threadsPerWarp INTEGER, maxWarpsPerSm INTEGER);
INSERT INTO TARGET_INFO_GPU VALUES (1, 'A100', 108, 32, 64);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1687813257637297504);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);
INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'node1');
`, global7, thread8)

// graphs adds what versions from 2025.5 on have: CUDA graphs as a whole, recorded events and waits, and NVTX payloads.
var graphs = fmt.Sprintf(`
INSERT INTO StringIds VALUES (6, 'cudaGraphLaunch_v10000'), (7, 'cudaStreamWaitEvent_v3020'), (8, 'cudaEventRecord_v3020');
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, "end" INTEGER, deviceId INTEGER, contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (400, 450, 1, 1, NULL, 9, 30, %[1]d, 1, 2);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (310, 312, %[2]d, 20, 8), (320, 322, %[2]d, 21, 7), (350, 360, %[2]d, 30, 6), (370, 380, %[2]d, 31, 6);
CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (timestamp INTEGER, deviceId INTEGER, contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, eventId INTEGER, eventSyncId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0, 1, 1, NULL, 8, 20, %[1]d, 5, 77);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, "end" INTEGER, deviceId INTEGER, contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, deprecatedSyncType INTEGER, syncType INTEGER, eventId INTEGER, eventSyncId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (320, 322, 1, 1, NULL, 9, 21, %[1]d, NULL, 2, 5, 77), (330, 335, 1, 1, NULL, 7, 22, %[1]d, NULL, 3, 0, 0),
	(340, 341, 1, 1, NULL, 9, 23, %[1]d, NULL, 2, 4294967295, 4294967295), (345, 346, 1, 1, NULL, 4294967295, 24, %[1]d, NULL, 1, 5, 77), (345, 346, 1, 1, NULL, 0, 24, %[1]d, NULL, 0, 0, 0);
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER, flags INTEGER, type INTEGER, name TEXT, description TEXT, arrayOrUnionDetail INTEGER, offset INTEGER);
INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, 9, 0, NULL, 18, 'NCCL communicator ID', NULL, NULL, NULL), (1, 9, 1, NULL, 22, 'Message size [bytes]', NULL, NULL, 8), (1, 9, 2, NULL, 5, 'Peer rank', NULL, NULL, 16), (1, 9, 3, NULL, 5, 'Other', NULL, NULL, 20), (1, 9, 3, NULL, 18, 'Root', NULL, NULL, 24);
ALTER TABLE NVTX_EVENTS ADD COLUMN binaryData TEXT;
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (201, 205, %[2]d, 12, 2);
INSERT INTO NVTX_EVENTS (start, "end", eventType, text, globalTid, binaryData) VALUES (200, 206, 59, 'ncclAllReduce', %[2]d, X'0100000000000000090000000000000018000000000000003800000000000000EFBEADDE00000000000400000000000003000000FFFFFFFF'), (400, 401, 59, 'ncclSend', %[2]d, NULL);
`, global7, thread8)

// nodes adds the columns and the table that --cuda-graph-trace=node fills: a launch runs a copy, made when the graph was
// instantiated, of a node that was captured within the range of ncclAllReduce.
var nodes = fmt.Sprintf(`
ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN graphNodeId INTEGER;
ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY ADD COLUMN graphNodeId INTEGER;
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (420, 440, 1, NULL, 8, 31, %[1]d, 4, 4, 96, 16, 1, 1, 512, 1, 1, 0, 0, 12884901893), (441, 442, 1, NULL, 8, 31, %[1]d, 1, 3, 32, 1, 1, 1, 32, 1, 1, 0, 0, 12884901894);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (443, 444, 1, 8, 31, %[1]d, 64, 8, NULL, NULL, 2, 2, 12884901895);
CREATE TABLE CUDA_GRAPH_NODE_EVENTS (start INTEGER, "end" INTEGER, eventClass INTEGER, globalTid INTEGER, nameId INTEGER, graphNodeId INTEGER, originalGraphNodeId INTEGER);
INSERT INTO CUDA_GRAPH_NODE_EVENTS VALUES (203, 203, 99, %[2]d, 5, 4294967301, NULL), (207, 207, 99, %[2]d, 5, 4294967302, NULL), (250, 250, 99, %[2]d, 5, 12884901893, 4294967301), (250, 250, 99, %[2]d, 5, 12884901894, 4294967302),
	(251, 251, 99, %[2]d, 5, 12884901895, 12884901895);
`, global7, thread8)

// A node of a graph has the size of the call in which it was captured, and its number.
func TestReadDBGraphNodes(t *testing.T) {
	run := must.Have(read(sqldbtest.Create(t, "test.sqlite", script+graphs+nodes)))(t)
	if n := len(run.Nodes); n != 3 {
		t.Fatalf("%d nodes", n)
	}
	for i, n := range run.Nodes {
		s := run.Spans[n.Span]
		if n.Graph != 3 || n.Number != uint32(5+i) || s.Start < 415 || run.NameOf(run.Spans[run.LaunchOf(s)]) != "cudaGraphLaunch" {
			t.Errorf("node %+v of %+v", n, s)
		}
	}
	if c := run.Comm(run.Spans[run.Nodes[0].Span]); c == nil || c.Op != trace.AllReduce || c.In != 1024 {
		t.Errorf("collective of a graph: %+v", c)
	}
}

// TestDamagedTables damages every table and column. The reader never panics: it returns an
// error about the file, or a valid run.
func TestDamagedTables(t *testing.T) {
	sqldbtest.Damage(t, script+graphs+nodes, func(t *testing.T, data []byte, did string) {
		t.Helper()
		db := must.Have(lex.Load(bytes.NewReader(data), "damaged"))(t)
		defer db.Close()
		run, err := ReadDB(db)
		var syntax *trace.SyntaxError
		switch {
		case err == nil:
			err = trace.Validate(run)
		case errors.As(err, &syntax) && syntax.File != "":
			err = nil
		}
		if err != nil {
			t.Errorf("%s: %v", did, err)
		}
	})
}

func TestReadDB(t *testing.T) {
	run := must.Have(read(sqldbtest.Create(t, "test.sqlite", script)))(t)
	var b strings.Builder
	for _, s := range run.Spans {
		l := run.Lanes[s.Lane]
		fmt.Fprintf(&b, "%d/%d %s %d %s %q %d-%d", run.Ranks[l.Rank].ID, l.Device, l.Kind, l.ID, s.Kind, run.NameOf(s), s.Start, s.End)
		if k := run.Kernel(s); k != nil {
			u := run.Setup(k)
			fmt.Fprintf(&b, " grid %v block %v shared %d registers %d", u.Grid, u.Block, u.Shared, u.Registers)
		}
		if c := run.Comm(s); c != nil {
			fmt.Fprintf(&b, " %s", c.Op)
		}
		if c := run.Copy(s); c != nil {
			fmt.Fprintf(&b, " %s %d", c.Dir, c.Bytes)
		}
		b.WriteString("\n")
	}
	want := `3/0 thread 8 marker "step" 0-305
3/1 queue 7 copy "Memcpy HtoD (Pageable -> Device)" 5-45 host to device 4096
3/0 thread 8 marker "here" 15-15
3/1 engine 4 copy "Memcpy PtoP" 55-65 peer to peer 64
3/0 thread 8 launch "cudaLaunchKernel" 75-85
3/1 queue 7 compute "void gemm<float>(float*)" 95-195 grid [4 2 1] block [256 1 1] shared 1040 registers 32
3/1 queue 8 collective "ncclDevKernel_AllReduce_Sum_f32_RING_LL" 205-295 grid [16 1 1] block [512 1 1] shared 0 registers 96 all_reduce
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r := run.Ranks[0]; len(run.Ranks) != 1 || r.Host != "node1" || r.Device.Name != "A100" || r.Device.ThreadsPerCU != 2048 || run.Epoch != 1687813257637297504+5 {
		t.Errorf("epoch %d, ranks %+v", run.Epoch, run.Ranks)
	}
	if run.Ledger.Count(trace.Skipped) != 2 { // the thread's name, and the kernel without start
		t.Errorf("ledger %+v", run.Ledger.Entries)
	}
}

// When the profiler held up a thread is a mark there.
func TestReadDBOverhead(t *testing.T) {
	run, err := read(sqldbtest.Create(t, "test.sqlite", script+`
CREATE TABLE PROFILER_OVERHEAD (start INT, end INT, globalTid INT, nameId INT, overheadType INT);
INSERT INTO StringIds VALUES (900, 'CUPTI Buffer flush');
INSERT INTO PROFILER_OVERHEAD SELECT 80, 90, globalTid, 900, 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME LIMIT 1;
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range run.Spans {
		if run.NameOf(s) == "CUPTI Buffer flush" && s.Kind == trace.Marker && s.Dur() == 10 {
			return
		}
	}
	t.Error("the profiler's overhead is no mark")
}

// Processes that use no GPU, of which the profiler's own table tells, are no ranks beside one that does.
func TestReadDBOtherProcesses(t *testing.T) {
	run, err := read(sqldbtest.Create(t, "test.sqlite", script+fmt.Sprintf(`
CREATE TABLE PROFILER_OVERHEAD (start INT, end INT, globalTid INT, nameId INT, overheadType INT);
INSERT INTO PROFILER_OVERHEAD VALUES (80, 90, %[1]d, 1, 1), (80, 90, %[2]d, 1, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (80, 90, %[1]d, 99, 2);
`, 30<<24+31, 40<<24+41)))
	if err != nil || trace.Validate(run) != nil {
		t.Fatal(err, trace.Validate(run))
	}
	if got := run.Ledger.Count(trace.Skipped); len(run.Ranks) != 1 || run.Ranks[0].Process != 7 || got != 2+3 {
		t.Errorf("%d ranks, %d skipped", len(run.Ranks), got)
	}
}

// NCCL's ranges carry the communicator and the bytes of what they launch.
func TestReadDBCollective(t *testing.T) {
	run, err := read(sqldbtest.Create(t, "test.sqlite", script+fmt.Sprintf(`
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (201, 205, %[1]d, 12, 2);
ALTER TABLE NVTX_EVENTS ADD COLUMN jsonText TEXT;
INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, 'ncclCommInitRank', %[1]d, NULL, '{"NCCL communicator ID":10159970886766084423,"No. of ranks":4,"Rank":3}');
INSERT INTO NVTX_EVENTS VALUES (200, 206, 59, 'ncclAllReduce', %[1]d, NULL, '{"NCCL communicator ID":10159970886766084423,"Message size [bytes]":"1024","Reduction operation":0}');
`, thread8)))
	if err != nil {
		t.Fatal(err)
	}
	want := []trace.Comm{{Op: trace.AllReduce, In: 1024, Out: 1024, DType: "f32", ElemSize: 4, Peer: trace.None}}
	if diff := cmp.Diff(want, run.Comms); diff != "" {
		t.Error(diff)
	}
	if g := run.Groups; len(g) != 1 || g[0].Name != "NCCL 10159970886766084423" || g[0].Size != 4 {
		t.Errorf("groups %+v", g)
	}
}

// Graphs that are traced as a whole are one kernel each; a stream's wait names the recording of its event.
func TestReadDBGraphs(t *testing.T) {
	run := must.Have(read(sqldbtest.Create(t, "test.sqlite", script+graphs)))(t)
	i := slices.IndexFunc(run.Spans, func(s trace.Span) bool { return run.NameOf(s) == "CUDA graph 2" })
	if i < 0 {
		t.Fatal("no graph")
	}
	if s := run.Spans[i]; s.Kind != trace.Compute || s.Start != 395 || s.End != 445 || run.Lanes[s.Lane].ID != 9 || run.NameOf(run.Spans[run.LaunchOf(s)]) != "cudaGraphLaunch" {
		t.Errorf("graph %+v", s)
	}
	call := func(correlation int64) trace.SpanID {
		return trace.SpanID(slices.IndexFunc(run.Spans, func(s trace.Span) bool {
			return (s.Kind == trace.HostCall || s.Kind == trace.Launch) && run.Calls[s.Attr].Correlation == correlation
		}))
	}
	want := []trace.Wait{
		{Device: 1, Start: 315, End: 317, Stream: 9, On: 8, Record: 20, Correlation: 21, Call: call(21), Recorded: call(20)},
		{Device: 1, Start: 325, End: 330, Stream: trace.None, On: 7, Correlation: 22, Call: trace.None, Recorded: trace.None},
		{Device: 1, Start: 335, End: 336, Stream: 9, On: trace.None, Correlation: 23, Call: trace.None, Recorded: trace.None},
		{Device: 1, Start: 340, End: 341, Stream: trace.None, On: 8, Record: 20, Correlation: 24, Call: trace.None, Recorded: call(20)},
	}
	if diff := cmp.Diff(want, run.Waits); diff != "" {
		t.Errorf("waits, -want +got:\n%s", diff)
	}
	if c := run.Comms; len(c) != 1 || c[0].In != 1024 || c[0].Peer != 3 || len(run.Groups) != 1 || run.Groups[0].Name != "NCCL 3735928559" {
		t.Errorf("collectives %+v, groups %+v", c, run.Groups)
	}
	noted := map[string]int{}
	for _, e := range run.Ledger.Entries {
		if e.Action == trace.Noted {
			noted[e.Reason[:20]] = e.Kernels
		}
	}
	if diff := cmp.Diff(map[string]int{"recorded as a whole ": 1, "known only by the la": 1, "of NCCL without a si": 1}, noted); diff != "" {
		t.Error(diff)
	}
}

// Sends and receives in PyTorch's range of an all-to-all are one.
func TestReadDBAllToAll(t *testing.T) {
	object := func(peer int) string {
		return fmt.Sprintf(`'{"NCCL communicator ID":7,"Message size [bytes]":512,"Peer rank":%d}'`, peer)
	}
	run, err := read(sqldbtest.Create(t, "test.sqlite", script+fmt.Sprintf(`
UPDATE StringIds SET value = 'ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)' WHERE id = 4;
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (206, 207, %[1]d, 12, 2);
ALTER TABLE NVTX_EVENTS ADD COLUMN jsonText TEXT;
INSERT INTO NVTX_EVENTS (start, "end", eventType, text, globalTid, jsonText) VALUES (200, 209, 59, 'nccl:all_to_all, op_id = 9', %[1]d, NULL),
	(201, 202, 59, 'ncclGroupStart', %[1]d, NULL), (202, 203, 59, 'ncclSend', %[1]d, %[2]s), (203, 204, 59, 'ncclRecv', %[1]d, %[2]s),
	(204, 205, 59, 'ncclSend', %[1]d, %[3]s), (205, 205, 59, 'ncclRecv', %[1]d, %[3]s), (205, 208, 59, 'ncclGroupEnd', %[1]d, NULL);
`, thread8, object(0), object(1))))
	if err != nil {
		t.Fatal(err)
	}
	if c := run.Comms; len(c) != 1 || c[0].Op != trace.AllToAll || c[0].In != 1024 || c[0].Out != 1024 || c[0].Peer != trace.None {
		t.Errorf("collectives %+v", c)
	}
}

func TestReadDBErrors(t *testing.T) {
	_, err := read(sqldbtest.Create(t, "test.sqlite", "CREATE TABLE StringIds (id INTEGER);"))
	if !errors.Is(err, trace.NoTrace("no kernel, copy or call")) {
		t.Errorf("error %v", err)
	}
}

func TestReadDBCaptured(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "data", "traces", "pipit-nsys", "saxpy-mpi-cuda_nsys_perlmutter0.sqlite")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%v: needs the captured traces beside the checkout", err)
	}
	run := must.Have(read(path))(t)
	n := map[trace.Kind]int{}
	for _, s := range run.Spans {
		n[s.Kind]++
	}
	// Each runtime call contains a driver call with its correlation: the outer one is the launch. 16 marks are when the profiler held up a thread.
	if n[trace.Compute] != 5 || n[trace.Copy] != 15 || n[trace.HostCall]+n[trace.Launch] != 95 || n[trace.Launch] != 20 || n[trace.Marker] != 38 {
		t.Errorf("%v, ledger %+v", n, run.Ledger.Entries)
	}
	if r := run.Ranks[0]; len(run.Ranks) != 1 || r.ID != 0 || r.Device.Name != "NVIDIA A100-SXM4-40GB" || r.Device.CUs != 108 || r.Host != "nid001608" {
		t.Errorf("ranks %+v", run.Ranks)
	}
}

func FuzzReadDB(f *testing.F) {
	data := must.Have(os.ReadFile(sqldbtest.Create(f, "test.sqlite", script)))(f)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		db, err := lex.Load(bytes.NewReader(data), "fuzz")
		if err != nil {
			return
		}
		defer db.Close()
		run, err := ReadDB(db)
		if err != nil {
			return
		}
		for _, s := range run.Spans {
			if s.End < s.Start || s.Start < 0 {
				t.Fatalf("span from %d to %d", s.Start, s.End)
			}
			_, _ = run.Ranks[run.RankOf(s)], run.NameOf(s)
		}
	})
}
