package rocprof

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/sqldbtest"
)

func readDB(path string) (*trace.Run, error) {
	db, err := lex.Open(path)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return ReadDB(db)
}

// rocpdScript makes the tables of one process; a second GUID is a second process.
func rocpdScript(suffix, environment string, pid, start int) string {
	return fmt.Sprintf(`
CREATE TABLE "rocpd_string%[1]s" (id INTEGER PRIMARY KEY, guid TEXT, string TEXT);
INSERT INTO "rocpd_string%[1]s" VALUES (1, 'g', 'HIP_RUNTIME_API_EXT'), (2, 'g', 'hipLaunchKernel'), (3, 'g', 'MARKER_CORE_RANGE_API'), (4, 'g', 'roctxThreadRangeA'), (5, 'g', 'MEMORY_COPY_HOST_TO_DEVICE');
CREATE TABLE "rocpd_info_node%[1]s" (id INTEGER PRIMARY KEY, guid TEXT, hostname TEXT);
INSERT INTO "rocpd_info_node%[1]s" VALUES (9, 'g', 'node1');
CREATE TABLE "rocpd_info_process%[1]s" (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, environment TEXT);
INSERT INTO "rocpd_info_process%[1]s" VALUES (%[3]d, 'g', 9, %[3]d, '%[2]s');
CREATE TABLE "rocpd_info_thread%[1]s" (id INTEGER PRIMARY KEY, guid TEXT, tid INTEGER);
INSERT INTO "rocpd_info_thread%[1]s" VALUES (1, 'g', 77);
CREATE TABLE "rocpd_info_agent%[1]s" (id INTEGER PRIMARY KEY, guid TEXT, pid INTEGER, type TEXT, type_index INTEGER, name TEXT, product_name TEXT, extdata TEXT);
INSERT INTO "rocpd_info_agent%[1]s" VALUES (0, 'g', %[3]d, 'CPU', 0, 'EPYC', '', '{}'), (2, 'g', %[3]d, 'GPU', 1, 'gfx942', 'MI300X', '{"cu_count":304,"wave_front_size":64,"max_waves_per_cu":32,"lds_size_in_kb":64}');
CREATE TABLE "rocpd_info_kernel_symbol%[1]s" (id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT, arch_vgpr_count INTEGER, accum_vgpr_count INTEGER);
INSERT INTO "rocpd_info_kernel_symbol%[1]s" VALUES (10, 'g', '_Z1k.kd', 'k()', 32, 4);
CREATE TABLE "rocpd_event%[1]s" (id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, extdata TEXT);
INSERT INTO "rocpd_event%[1]s" VALUES (1, 'g', 1, 50, 0, 0, '{}'), (2, 'g', 0, 50, 50, 0, '{}'), (3, 'g', 3, 60, 0, 0, '{"message":"step"}'), (4, 'g', 0, 61, 0, 0, '{}');
CREATE TABLE "rocpd_kernel_dispatch%[1]s" (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, kernel_id INTEGER, dispatch_id INTEGER, queue_id INTEGER, stream_id INTEGER, start BIGINT, "end" BIGINT, private_segment_size INTEGER, group_segment_size INTEGER, workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, region_name_id INTEGER, event_id INTEGER);
INSERT INTO "rocpd_kernel_dispatch%[1]s" VALUES (0, 'g', 9, %[3]d, NULL, 2, 10, 1, 16, 3, %[4]d + 100, %[4]d + 190, 0, 512, 256, 1, 1, 1000, 1, 1, NULL, 2);
CREATE TABLE "rocpd_memory_copy%[1]s" (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, queue_id INTEGER, stream_id INTEGER, event_id INTEGER);
INSERT INTO "rocpd_memory_copy%[1]s" VALUES (0, 'g', 9, %[3]d, 1, %[4]d + 200, %[4]d + 250, 5, 2, 0, 4096, NULL, NULL, 4), (1, 'g', 9, %[3]d, 1, NULL, 5, 5, 2, 0, 1, NULL, NULL, 4);
CREATE TABLE "rocpd_region%[1]s" (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER, event_id INTEGER);
INSERT INTO "rocpd_region%[1]s" VALUES (0, 'g', 9, %[3]d, 1, %[4]d + 10, %[4]d + 20, 2, 1), (1, 'g', 9, %[3]d, 1, %[4]d, %[4]d + 300, 4, 3);
`, suffix, environment, pid, start)
}

func TestReadRocpd(t *testing.T) {
	path := sqldbtest.Create(t, "one.db", rocpdScript("_a", "{}", 80, 1000)+`CREATE VIEW rocpd_kernel_dispatch AS SELECT * FROM rocpd_kernel_dispatch_a;`)
	run := must.Have(readDB(path))(t)
	checkRun(t, run)
	want := `rank -1 node1 MI300X
-1/0 thread 77.0 marker "step" 0-300
-1/0 thread 77.0 launch "hipLaunchKernel" 10-20 in "step"
-1/1 queue 16.0 compute "k()" 100-190 grid [4 1 1] block [256 1 1] lds 512 vgprs 36 stream 3 corr 50
-1/1 engine 1.0 copy "MEMORY_COPY_HOST_TO_DEVICE" 200-250 host to device bytes 4096 corr 61
skipped ` + path + `: rocpd_memory_copy_a: start or end is not a time ×1 row [2]
`
	if diff := cmp.Diff(want, describe(run)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Arguments of RCCL's calls tell what a generic kernel communicates.
func TestReadRocpdCollective(t *testing.T) {
	path := sqldbtest.Create(t, "one.db", rocpdScript("_a", "{}", 80, 1000)+`
INSERT INTO rocpd_string_a VALUES (6, 'g', 'RCCL_API'), (7, 'g', 'ncclAllGather'), (8, 'g', 'ncclCommInitRank');
UPDATE rocpd_info_kernel_symbol_a SET display_name = 'ncclDevKernel_Generic_1(x)';
INSERT INTO rocpd_event_a VALUES (5, 'g', 6, 70, 0, 0, '{}'), (6, 'g', 6, 71, 0, 0, '{}');
INSERT INTO rocpd_region_a VALUES (2, 'g', 9, 80, 1, 1001, 1003, 8, 5), (3, 'g', 9, 80, 1, 1005, 1025, 7, 6);
CREATE TABLE rocpd_arg_a (id INTEGER PRIMARY KEY, event_id INTEGER, position INTEGER, type TEXT, name TEXT, value TEXT);
INSERT INTO rocpd_arg_a (event_id, name, value) VALUES (5, 'comm', '0x7f10'), (5, 'nranks', '8'),
 (6, 'sendcount', '100'), (6, 'datatype', 'ncclBfloat16'), (6, 'comm', '0x7f10'), (6, 'stream', '0x1');
`)
	run := must.Have(readDB(path))(t)
	checkRun(t, run)
	want := []trace.Comm{{Op: trace.AllGather, In: 200, Out: 1600, DType: "ncclBfloat16", ElemSize: 2, Peer: trace.None}}
	if diff := cmp.Diff(want, run.Comms); diff != "" {
		t.Error(diff)
	}
	if g := run.Groups; len(g) != 1 || g[0].Name != "communicator 0" || g[0].Size != 8 {
		t.Errorf("groups %+v", g)
	}
}

// A merged database has the processes of a job, whose ids mean something only in their GUID.
func TestReadRocpdMerged(t *testing.T) {
	path := sqldbtest.Create(t, "merged.db",
		rocpdScript("_a", `{"RANK":"1","WORLD_SIZE":"2"}`, 80, 1000)+rocpdScript("_b", `{"OMPI_COMM_WORLD_RANK":"0","OMPI_COMM_WORLD_SIZE":"2"}`, 80, 1005))
	run := must.Have(readDB(path))(t)
	checkRun(t, run)
	if len(run.Ranks) != 2 || run.Ranks[0].ID != 0 || run.Ranks[1].ID != 1 || run.Ranks[1].World != 2 || len(run.Spans) != 8 {
		t.Fatalf("%d spans, ranks %+v", len(run.Spans), run.Ranks)
	}
	for _, s := range run.Spans {
		if s.Kind == trace.Compute && s.Start != trace.Time(100+5*(1-run.Ranks[run.RankOf(s)].ID)) {
			t.Errorf("kernel of rank row %d at %d", run.RankOf(s), s.Start)
		}
	}
}

const rpdScript = `
CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);
INSERT INTO rocpd_string VALUES (1, ''), (2, 'hipExtModuleLaunchKernel'), (3, 'hipLaunchKernel'), (4, 'hipMemcpy'), (5, 'gemm'), (6, 'KernelExecution'), (7, 'CopyHostToDevice'), (8, 'UserMarker'), (9, 'step');
CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start INTEGER, "end" INTEGER, apiName_id INTEGER, args_id INTEGER);
INSERT INTO rocpd_api VALUES (11, 5, 6, 1000, 1010, 2, 1), (12, 5, 6, 1020, 1030, 3, 1), (13, 5, 6, 1040, 1080, 4, 1), (14, 5, 6, 990, 1100, 8, 9);
CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INTEGER, queueId INTEGER, sequenceId INTEGER, start INTEGER, "end" INTEGER, description_id INTEGER, opType_id INTEGER);
INSERT INTO rocpd_op VALUES (1, 2, 0, 0, 1050, 1060, 5, 6), (2, 2, 0, 0, 1060, 1065, 5, 6), (3, 2, 0, 0, 1070, 1079, 1, 7), (4, 2, 1, 0, 1090, 1080, 1, 6);
CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id INTEGER, op_id INTEGER);
INSERT INTO rocpd_api_ops VALUES (1, 11, 1), (2, 12, 2), (3, 13, 3);
CREATE TABLE rocpd_kernelapi (api_ptr_id INTEGER, stream TEXT, gridX INTEGER, gridY INTEGER, gridZ INTEGER, workgroupX INTEGER, workgroupY INTEGER, workgroupZ INTEGER, groupSegmentSize INTEGER);
INSERT INTO rocpd_kernelapi VALUES (11, '0x10', 1024, 1, 1, 256, 1, 1, 64), (12, '0x0', 7, 2, 1, 128, 1, 1, 0);
CREATE TABLE rocpd_copyapi (api_ptr_id INTEGER, stream TEXT, size INTEGER);
INSERT INTO rocpd_copyapi VALUES (13, '0x0', 4096);
`

func TestReadRPD(t *testing.T) {
	path := sqldbtest.Create(t, "x.rpd", rpdScript)
	run := must.Have(readDB(path))(t)
	checkRun(t, run)
	want := `rank -1
-1/0 thread 6.0 marker "step" 0-110
-1/0 thread 6.0 launch "hipExtModuleLaunchKernel" 10-20 in "step"
-1/0 thread 6.0 launch "hipLaunchKernel" 30-40 in "step"
-1/0 thread 6.0 launch "hipMemcpy" 50-90 in "step"
-1/2 queue 0.0 compute "gemm" 60-70 grid [4 1 1] block [256 1 1] lds 64 vgprs 0 stream 16 corr 11
-1/2 queue 0.0 compute "gemm" 70-75 grid [7 2 1] block [128 1 1] lds 0 vgprs 0 stream 0 corr 12
-1/2 engine 1.0 copy "CopyHostToDevice" 80-89 host to device bytes 4096 corr 13
-1/2 queue 1.0 compute "KernelExecution" 100-100 grid [0 0 0] block [0 0 0] lds 0 vgprs 0 stream 0 corr 0
repaired ` + path + `: rocpd_op: ends before it starts: clamped to zero duration ×1 row [4]
`
	if diff := cmp.Diff(want, describe(run)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDamagedTables damages every table and column. The reader never panics: it returns an
// error about the file, or a valid run.
func TestDamagedTables(t *testing.T) {
	for name, script := range map[string]string{"rocpd": rocpdScript("_a", "{}", 80, 1000) + hipEvents, "rocpd 4.1": script41(t), "rpd": rpdScript, "v1": v1Script} {
		t.Run(name, func(t *testing.T) { sqldbtest.Damage(t, script, checkDamaged) })
	}
}

func checkDamaged(t *testing.T, data []byte, did string) {
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
}

const v1Script = `
CREATE TABLE KERN ("Index" INTEGER);
CREATE TABLE OPS (BeginNs INTEGER, EndNs INTEGER, "dev-id" INTEGER, "queue-id" INTEGER, Name TEXT, pid INTEGER, tid INTEGER, "stream-id" INTEGER, "Index" INTEGER);
INSERT INTO OPS VALUES (1100, 1200, 4, 0, 'vector_add', 7, 7, 1, 8);
CREATE TABLE COPY (BeginNs INTEGER, EndNs INTEGER, "dev-id" INTEGER, "queue-id" INTEGER, Name TEXT, pid INTEGER, tid INTEGER, "stream-id" INTEGER, "Index" INTEGER);
INSERT INTO COPY VALUES (1000, 1050, 4, 0, 'CopyHostToDevice', 7, 7, 0, 4);
CREATE TABLE HIP (BeginNs INTEGER, EndNs INTEGER, pid INTEGER, tid INTEGER, Name TEXT, args TEXT, "Index" INTEGER);
INSERT INTO HIP VALUES (900, 1060, 7, 7, 'hipMemcpy', '', 4), (1080, 1090, 7, 7, 'hipLaunchKernel', '', 8);
`

func TestReadV1(t *testing.T) {
	run := must.Have(readDB(sqldbtest.Create(t, "results.db", v1Script)))(t)
	checkRun(t, run)
	want := `rank -1
-1/0 thread 7.0 launch "hipMemcpy" 0-160
-1/4 engine 1.0 copy "CopyHostToDevice" 100-150 host to device bytes 0 corr 4
-1/0 thread 7.0 launch "hipLaunchKernel" 180-190
-1/4 queue 0.0 compute "vector_add" 200-300 grid [0 0 0] block [0 0 0] lds 0 vgprs 0 stream 1 corr 8
`
	if diff := cmp.Diff(want, describe(run)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// hipprof writes underscores, and numbers in place of names.
func TestReadHipprof(t *testing.T) {
	run, err := readDB(sqldbtest.Create(t, "hip-prof-7.db", `
CREATE TABLE OPS (BeginNs INT, EndNs INT, dev_id INT, queue_id TEXT, Name TEXT, pid INT, tid INT, _Index INT, DurationNs INT);
INSERT INTO OPS VALUES (1100, 1200, 4, '9', '2', 7, 0, 8, 100);
CREATE TABLE COPY (BeginNs INT, EndNs INT, dev_id INT, queue_id TEXT, Kind INT, pid INT, tid INT, _Index INT, DurationNs INT);
INSERT INTO COPY VALUES (1000, 1050, 4, '9', 4615, 7, 0, 4, 50);
CREATE TABLE HIP (BeginNs INT, EndNs INT, pid INT, tid INT, Name INT, args TEXT, _Index INT, State INT, DurationNs INT);
INSERT INTO HIP VALUES (1080, 1090, 7, 7, 205, 'hipLaunchKernel(stream=0)', 8, 0, 10);
CREATE TABLE STR_TABLE (PID INT, STR_ID INT, STR_NAME TEXT);
INSERT INTO STR_TABLE VALUES (7, 2, 'dslash');
`))
	if err != nil {
		t.Fatal(err)
	}
	checkRun(t, run)
	want := `rank -1
-1/4 engine 0.0 copy "Copy" 0-50 unknown bytes 0 corr 4
-1/0 thread 7.0 launch "hipLaunchKernel" 80-90
-1/4 queue 9.0 compute "dslash" 100-200 grid [0 0 0] block [0 0 0] lds 0 vgprs 0 stream 0 corr 8
`
	if diff := cmp.Diff(want, describe(run)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestReadDBErrors(t *testing.T) {
	other := sqldbtest.Create(t, "other.db", "CREATE TABLE people (name TEXT);")
	empty := sqldbtest.Create(t, "empty.db", "CREATE TABLE rocpd_op (id INTEGER);")
	for _, c := range []struct{ path, want string }{
		{other, other + ": not a rocprof database; its tables are people (give one of rocprofv3, rocmProfileData or rocprof)"},
		{empty, empty + ": no kernel, copy or call in the database: nothing with a time (profile with rocprofv3 --kernel-trace, or --sys-trace)"},
	} {
		_, err := readDB(c.path)
		var syntax *trace.SyntaxError
		if !errors.As(err, &syntax) || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// The published databases, against what their manifest counts.
func TestReadDBCaptured(t *testing.T) {
	for _, c := range []struct {
		file                   string
		kernels, copies, calls int
	}{
		{"rocprofv3-att-batched_gemm/37ca13315e70/28_results.db", 151, 0, 629},
		{"rocmProfileData/matmul_result.rpd", 30, 55, 125},
		{"rocm-blogs/HIP_trace/results.db", 1, 6, 135},
		{"rocprof-v1-HIP_Programming/results.db", 1, 3, 13},
	} {
		run, err := readDB(shared(t, "traces", c.file))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		checkRun(t, run)
		n := map[trace.Kind]int{}
		for _, s := range run.Spans {
			n[s.Kind]++
		}
		if n[trace.Compute] != c.kernels || n[trace.Copy] != c.copies || n[trace.HostCall]+n[trace.Launch] != c.calls || run.Ledger.Count(trace.Skipped) != 0 {
			t.Errorf("%s: %v, ledger %v", c.file, n, run.Ledger.Entries)
		}
		if n[trace.Launch] != c.kernels+c.copies && c.file != "rocprof-v1-HIP_Programming/results.db" {
			t.Errorf("%s: %d launches of %d operations", c.file, n[trace.Launch], c.kernels+c.copies)
		}
	}
}

func FuzzReadDB(f *testing.F) {
	for i, script := range []string{rocpdScript("_a", `{"RANK":"1","WORLD_SIZE":"2"}`, 80, 1000) + hipEvents, script41(f), rpdScript, v1Script} {
		data := must.Have(os.ReadFile(sqldbtest.Create(f, fmt.Sprint(i), script)))(f)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		db, err := lex.Load(bytes.NewReader(data), "fuzz.db")
		if err != nil {
			return
		}
		defer db.Close()
		if run, err := ReadDB(db); err == nil {
			checkRun(t, run)
		}
	})
}

func BenchmarkReadRocpd(b *testing.B) {
	const n = 200000
	path := sqldbtest.Create(b, "bench.db", rocpdScript("_a", "{}", 80, 1000)+fmt.Sprintf(`
WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < %d)
INSERT INTO rocpd_kernel_dispatch_a SELECT n, 'g', 9, 80, 1, 2, 10, n, 16, 3, 2000 + n * 100, 2090 + n * 100, 0, 512, 256, 1, 1, 1024, 1, 1, 1, n FROM i;
DELETE FROM rocpd_region_a;
`, n))
	b.ReportAllocs()
	for b.Loop() {
		run, err := readDB(path)
		if err != nil || len(run.Spans) != n+2 {
			b.Fatal(len(run.Spans), err)
		}
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds()/1e6, "Mdispatches/s")
	b.ReportMetric(n*float64(b.N)/1e6/b.Elapsed().Seconds(), "Mdispatches/s")
}
