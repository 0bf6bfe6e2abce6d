package chrome

// Synthetic is for the benchmark that reads a whole job through trace/format.
var Synthetic = synthetic
