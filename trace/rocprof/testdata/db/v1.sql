CREATE TABLE KERN ("Index" INTEGER);
CREATE TABLE OPS (BeginNs INTEGER, EndNs INTEGER, "dev-id" INTEGER, "queue-id" INTEGER, Name TEXT, pid INTEGER, tid INTEGER, "stream-id" INTEGER, "Index" INTEGER);
INSERT INTO OPS VALUES (1100, 1200, 4, 0, 'vector_add', 7, 7, 1, 8);
CREATE TABLE COPY (BeginNs INTEGER, EndNs INTEGER, "dev-id" INTEGER, "queue-id" INTEGER, Name TEXT, pid INTEGER, tid INTEGER, "stream-id" INTEGER, "Index" INTEGER);
INSERT INTO COPY VALUES (1000, 1050, 4, 0, 'CopyHostToDevice', 7, 7, 0, 4);
CREATE TABLE HIP (BeginNs INTEGER, EndNs INTEGER, pid INTEGER, tid INTEGER, Name TEXT, args TEXT, "Index" INTEGER);
INSERT INTO HIP VALUES (900, 1060, 7, 7, 'hipMemcpy', '', 4), (1080, 1090, 7, 7, 'hipLaunchKernel', '', 8);
