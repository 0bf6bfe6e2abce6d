// Package dataset reads measurements: rows of benchmarks, of operators under a
// strategy and of whole steps, in one strict schema, and the index of a folder of
// such sets (samples/measurements) with its splits, provenance and checksums.
//
// [ReadRows] reads one file of rows, a user's own too. [Open] reads an index,
// verifies the checksum of every file that it lists and reads all rows. Errors are
// *trace.SyntaxError with file and line; both report all errors of their input at
// once.
package dataset
