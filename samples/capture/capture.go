// Package capture holds the script of this folder that captures a program's steps, for
// `overlapse capture`, which needs no checkout.
package capture

import _ "embed"

// Script is overlapse.py.
//
//go:embed overlapse.py
var Script []byte
