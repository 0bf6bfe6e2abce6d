// Package workloads holds the workload files of this folder for commands that need no
// checkout.
package workloads

import "embed"

// Files are the workload files, by name.
//
//go:embed *.yaml
var Files embed.FS // read only
