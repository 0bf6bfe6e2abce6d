// Package samples holds files of this folder for commands that need no checkout.
package samples

import (
	"embed"
	"io/fs"
)

// CaptureScript captures a program's steps, for `overlapse capture`.
//
//go:embed capture/overlapse.py
var CaptureScript []byte

//go:embed workloads/*.yaml
var files embed.FS // read only

// Workloads are the workload files, by name.
func Workloads() fs.FS {
	list, err := fs.Sub(files, "workloads")
	if err != nil {
		panic(err) // no valid path
	}
	return list
}
