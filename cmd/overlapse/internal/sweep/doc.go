// Package sweep replays a product of inputs, machines, strategies and settings, and keeps
// the results so that a run that was stopped, or that several processes share, is continued.
//
//	plan file ──Parse──▶ Plan ──Resolve──▶ Axes ──Cells──▶ []Cell ──Run──▶ batches of Records
//	                                                                          │ Folder
//	                                                       Table ◀──Merge─────┘
//
// A cell is one replay. Its id is the hash of what its result depends on: the content of the
// input and of the machine, the strategy with its settings, the seed, the version of the
// program. Names of files do not enter it, so a result is found again after files moved, and
// is not found after their content changed.
//
// A batch is a file of records, a JSON object a line, whose name is the hash of its content.
// It is written as a whole or not at all, and never changed. Any number of processes may
// write batches into one folder.
package sweep
