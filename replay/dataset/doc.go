// Package dataset reads measurements: rows of benchmarks, of operators under a
// strategy and of whole steps, in one strict schema, and the index of a folder of
// such sets (samples/measurements) with its splits, provenance and checksums.
//
// [ReadRows] reads one file of rows, for example a user's measurements. [Open] reads an
// index, verifies the checksum of every listed file and reads all rows. Errors are
// *trace.SyntaxError with file and line. Both functions report all errors of their input.
package dataset
