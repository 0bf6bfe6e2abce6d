//go:build !unix

package cli

// Suspend is nil where no shell can continue a process.
func Suspend() func() { return nil }
