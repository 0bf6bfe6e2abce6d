package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// runJob runs a command that may start others, in a process group of its own. A signal that ends overlapse
// reaches the group. What is left after patience, or at a second signal, is killed: no process that the job
// started outlives overlapse then, of whichever group or session it is (torchrun gives each worker its own).
func runJob(ctx context.Context, c *exec.Cmd, patience time.Duration) error {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, endSignals()...)
	defer signal.Stop(signals)
	const setChildSubreaper = 36 // prctl(2): a process whose parent has ended becomes a child of overlapse
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if f, ok := c.Stdin.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 { // a terminal stops another group that reads it
			c.Stdin = nil
			in, err := c.StdinPipe()
			if err != nil {
				return err
			}
			go func() {
				_, _ = io.Copy(in, f)
				_ = in.Close()
			}()
		}
	}
	if err := c.Start(); err != nil {
		return err
	}
	job, ended := c.Process.Pid, make(chan error, 1)
	go func() { ended <- c.Wait() }()
	first, heard := syscall.SIGTERM, true
	select {
	case err := <-ended:
		return err
	case s := <-signals:
		first = s.(syscall.Signal)
	case <-ctx.Done(): // ended by the same signal, which the runtime sends to one channel after the other
		select {
		case s := <-signals:
			first = s.(syscall.Signal)
		case <-time.After(time.Second):
			heard = false
		}
	}
	_ = syscall.Kill(-job, first)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late, running, kill := time.After(patience), true, false
	for {
		select {
		case <-ended: //nolint:errcheck // the signal is the reason
			running = false
		case <-signals:
			kill, heard = heard, true
		case <-late:
			kill = true
		case <-tick.C:
		}
		left := descendants(os.Getpid())
		if !running && len(left) == 0 {
			<-ctx.Done()
			return ctx.Err()
		}
		for _, pid := range left {
			if kill {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			if pid != job { // c.Wait waits for that one
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
}

// descendants are the processes that a process started, those that these started, and so on.
func descendants(of int) (all []int) {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, _ := os.ReadFile(name) // PID (NAME) STATE PARENT ...; nothing of one that has just ended
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parent, _ := strconv.Atoi(string(fields[1]))
		children[parent] = append(children[parent], pid)
	}
	all = children[of]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
