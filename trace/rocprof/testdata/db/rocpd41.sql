-- A process with two GPUs in schema 4.1: records have a track, and categories a table; the second agent's properties are compressed
-- by LZ4: {"cu_count":304}.
CREATE TABLE rocpd_metadata_a (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
INSERT INTO rocpd_metadata_a VALUES (1, 'schema_version', '4.1.0');
CREATE TABLE rocpd_string_a (id INTEGER PRIMARY KEY, guid TEXT, string TEXT);
INSERT INTO rocpd_string_a VALUES (1, 'g', 'hipLaunchKernel'), (2, 'g', 'roctxRangePushA'), (3, 'g', 'MEMORY_COPY_DEVICE_TO_HOST');
CREATE TABLE rocpd_info_category_a (id INTEGER PRIMARY KEY, guid TEXT, name TEXT);
INSERT INTO rocpd_info_category_a VALUES (1, 'g', 'HIP_RUNTIME_API_EXT'), (2, 'g', 'MARKER_CORE_RANGE_API');
CREATE TABLE rocpd_info_process_a (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, environment TEXT);
INSERT INTO rocpd_info_process_a VALUES (1, 'g', 1, 80, '{}');
CREATE TABLE rocpd_info_thread_a (id INTEGER PRIMARY KEY, guid TEXT, tid INTEGER);
INSERT INTO rocpd_info_thread_a VALUES (1, 'g', 77);
CREATE TABLE rocpd_info_agent_a (id INTEGER PRIMARY KEY, guid TEXT, pid INTEGER, type TEXT, type_index INTEGER, name TEXT, product_name TEXT, extdata TEXT);
INSERT INTO rocpd_info_agent_a VALUES (1, 'g', 1, 'CPU', 0, 'EPYC', '', '{}'), (3, 'g', 1, 'GPU', 0, 'gfx942', 'MI300X', '{}'), (4, 'g', 1, 'GPU', 1, 'gfx942', 'MI300X', X'04224D186470B9100000807B2263755F636F756E74223A3330347D000000006D29E2EB');
CREATE TABLE rocpd_info_kernel_symbol_a (id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT, arch_vgpr_count INTEGER, accum_vgpr_count INTEGER);
INSERT INTO rocpd_info_kernel_symbol_a VALUES (10, 'g', '_Z1k.kd', 'k()', 32, 4);
CREATE TABLE rocpd_track_a (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, ppid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER, name_id INTEGER);
INSERT INTO rocpd_track_a VALUES (1, 'g', 1, NULL, 1, 1, NULL, NULL, NULL, NULL), (2, 'g', 1, NULL, 1, 1, 3, 5, 6, NULL), (3, 'g', 1, NULL, 1, 1, 4, 7, 8, NULL);
CREATE TABLE rocpd_event_a (id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, extdata TEXT);
INSERT INTO rocpd_event_a VALUES (1, 'g', 1, 50, 0, 0, '{}'), (2, 'g', NULL, 50, 0, 0, '{}'), (3, 'g', 2, 60, 0, 0, '{"message":"step"}'), (4, 'g', NULL, 51, 0, 0, '{}');
CREATE TABLE rocpd_kernel_dispatch_a (id INTEGER PRIMARY KEY, guid TEXT, track_id INTEGER, kernel_id INTEGER, dispatch_id INTEGER, start BIGINT, "end" BIGINT, group_segment_size INTEGER, workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, event_id INTEGER);
INSERT INTO rocpd_kernel_dispatch_a VALUES (1, 'g', 2, 10, 1, 1100, 1190, 512, 256, 1, 1, 1000, 1, 1, 2), (2, 'g', 3, 10, 2, 1110, 1200, 0, 64, 1, 1, 64, 1, 1, 4);
CREATE TABLE rocpd_memory_copy_a (id INTEGER PRIMARY KEY, guid TEXT, track_id INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, event_id INTEGER);
INSERT INTO rocpd_memory_copy_a VALUES (1, 'g', 3, 1210, 1220, 3, 1, 4, 64, NULL);
CREATE TABLE rocpd_memory_allocate_a (id INTEGER PRIMARY KEY, guid TEXT, track_id INTEGER, type TEXT, level TEXT, start BIGINT, "end" BIGINT);
INSERT INTO rocpd_memory_allocate_a VALUES (1, 'g', 1, 'ALLOC', 'REAL', 1001, 1002);
CREATE TABLE rocpd_region_a (id INTEGER PRIMARY KEY, guid TEXT, track_id INTEGER, name_id INTEGER, start BIGINT, "end" BIGINT, event_id INTEGER);
INSERT INTO rocpd_region_a VALUES (1, 'g', 1, 1, 1010, 1020, 1), (2, 'g', 1, 2, 1000, 1300, 3);
