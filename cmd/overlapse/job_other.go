//go:build !linux

package main

import (
	"context"
	"os/exec"
	"time"
)

// runJob runs a command, and kills it when the context ends: GPUs are captured on Linux.
func runJob(ctx context.Context, c *exec.Cmd, _ time.Duration) error {
	if err := c.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = c.Process.Kill() })()
	return c.Wait()
}
