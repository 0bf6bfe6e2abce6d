//go:build unix

package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Suspend returns what stops the process, and all that share its terminal's
// job, until the shell continues it.
func Suspend() func() {
	return func() {
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, syscall.SIGCONT)
		defer signal.Stop(continued)
		if syscall.Kill(0, syscall.SIGTSTP) != nil {
			return
		}
		select { // the signal may take effect after Kill has returned
		case <-continued:
		case <-time.After(time.Second): // no job control: the signal was ignored
		}
	}
}
