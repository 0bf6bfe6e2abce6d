-- What schema 3.0.4 has beyond 3.0.0: network adapters, graphs, and events. A kernel of queue 17 waits for the one of queue 16, whose
-- event was recorded behind it.
CREATE TABLE rocpd_metadata_a (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
INSERT INTO rocpd_metadata_a VALUES (1, 'schema_version', '3.0.4'), (2, 'guid', 'g');
INSERT INTO rocpd_info_agent_a VALUES (5, 'g', 80, 'NIC', 0, 'mlx5_0', '', '{}');
ALTER TABLE rocpd_kernel_dispatch_a ADD COLUMN graph_exec_id INTEGER;
ALTER TABLE rocpd_kernel_dispatch_a ADD COLUMN graph_node_id INTEGER;
INSERT INTO rocpd_event_a VALUES (10, 'g', 1, 51, 0, 0, '{}'), (11, 'g', 1, 52, 0, 0, '{}'), (12, 'g', 0, 53, 0, 0, '{}'), (13, 'g', 1, 49, 0, 0, '{}'), (14, 'g', 1, 54, 0, 0, '{}');
INSERT INTO rocpd_kernel_dispatch_a VALUES (1, 'g', 9, 80, NULL, 2, 10, 2, 17, 4, 1195, 1199, 0, 0, 64, 1, 1, 64, 1, 1, NULL, 12, 0, 0);
INSERT INTO rocpd_event_a VALUES (15, 'g', 1, 90, 90, 0, '{}'), (16, 'g', 0, 90, 90, 0, '{}'), (17, 'g', 0, 90, 90, 0, '{}'), (18, 'g', 1, 50, 50, 0, '{}');
INSERT INTO rocpd_kernel_dispatch_a VALUES (2, 'g', 9, 80, NULL, 2, 10, 3, 17, 4, 1230, 1240, 0, 0, 64, 1, 1, 64, 1, 1, NULL, 16, 7, 1), (3, 'g', 9, 80, NULL, 2, 10, 4, 17, 4, 1241, 1250, 0, 0, 64, 1, 1, 64, 1, 1, NULL, 17, 7, 2);
CREATE TABLE rocpd_graph_launch_a (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, start BIGINT, "end" BIGINT, graph_exec_id INTEGER, kernel_dispatch_count INTEGER, event_id INTEGER, extdata TEXT);
INSERT INTO rocpd_graph_launch_a VALUES (1, 'g', 9, 80, 1, 2, NULL, 1210, 1215, 7, 2, 15, '{}'), (2, 'g', 9, 80, 1, 2, NULL, 1011, 1012, 7, 2, 18, '{}');
CREATE TABLE rocpd_hip_event_a (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, source_queue_id INTEGER, stream_id INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER, hip_event_handle BIGINT, event_id INTEGER);
INSERT INTO rocpd_hip_event_a VALUES (1, 'g', 9, 80, 1, 2, 17, 16, 4, 1032, 1191, 6, 4096, 11), (2, 'g', 9, 80, 1, 2, 16, 16, 3, 1030, 1190, 6, 4096, 10),
 (3, 'g', 9, 80, 1, 2, 16, 16, 3, 1005, 1006, 6, 8192, 13), (4, 'g', 9, 80, 1, 2, 17, 18, 4, 1040, 1191, 6, 4096, 14);
