//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A pane is a terminal with a shell in it.
type pane struct {
	t      *testing.T
	socket string
	checks int
}

func newPane(t *testing.T, name string) *pane {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux here (apt-get install tmux)")
	}
	self := must.Have(os.Executable())(t)
	bin := t.TempDir()
	must.Do(t, os.Symlink(self, filepath.Join(bin, "overlapse")))
	p := &pane{t: t, socket: fmt.Sprintf("overlapse-cmd-%d-%s", os.Getpid(), name)}
	p.tmux("new-session", "-d", "-x", "100", "-y", "30", "-e", "PATH="+bin+":"+os.Getenv("PATH"), "-e", "LC_ALL=C.UTF-8", "bash --norc --noprofile -i")
	t.Cleanup(func() { _ = exec.Command("tmux", "-L", p.socket, "kill-server").Run() })
	p.sees("bash-")
	return p
}

func (p *pane) tmux(args ...string) string {
	p.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-L", p.socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("tmux %s: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// types enters a line.
func (p *pane) types(line string) {
	p.t.Helper()
	p.tmux("send-keys", "-l", line)
	p.tmux("send-keys", "Enter")
}

func (p *pane) sees(want string) {
	p.t.Helper()
	got := ""
	for range 400 {
		if got = p.tmux("capture-pane", "-p"); strings.Contains(got, want) {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	p.t.Fatalf("no %q on the screen:\n%s", want, got)
}

// restored checks that the shell has its screen and line editing back.
func (p *pane) restored() {
	p.t.Helper()
	if p.tmux("display-message", "-p", "#{alternate_on}#{mouse_any_flag}") != "00" {
		p.t.Error("the alternate screen or the mouse is still on")
	}
	p.checks++
	p.types(fmt.Sprintf("stty -a | grep -ow -e '-*icanon' -e '-*echo' | tr '\\n' ' '; echo answ''er %d", p.checks))
	p.sees(fmt.Sprintf("icanon echo answer %d", p.checks))
}

// child is the process that the shell runs.
func (p *pane) child() int {
	p.t.Helper()
	pid := p.tmux("display-message", "-p", "#{pane_pid}")
	list, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if err != nil {
		p.t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(list)))
	if err != nil {
		p.t.Fatalf("children of the shell: %q", list)
	}
	return n
}

// Whatever ends or suspends the browser gives the shell its terminal back.
func TestTerminalIsRestored(t *testing.T) {
	sample := must.Have(filepath.Abs("../../samples/moe-ep4"))(t)
	for name, signal := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT} {
		t.Run(name, func(t *testing.T) {
			p := newPane(t, name)
			p.types("overlapse view " + sample)
			p.sees("q quit")
			must.Do(t, syscall.Kill(p.child(), signal))
			p.sees("signal received")
			p.types("echo code $?")
			p.sees("code 1")
			p.restored()
		})
	}
	t.Run("Ctrl-Z", func(t *testing.T) {
		p := newPane(t, "suspend")
		p.types("overlapse view " + sample)
		for range 2 {
			p.sees("q quit")
			p.tmux("send-keys", "C-z")
			p.sees("Stopped")
			p.restored()
			p.types("fg")
		}
		p.sees("q quit")
		p.tmux("send-keys", "q")
		for range 400 { // what is typed before would go to the browser
			if p.tmux("display-message", "-p", "#{alternate_on}") == "0" {
				break
			}
			time.Sleep(25 * time.Millisecond)
		}
		p.types("echo left with $?")
		p.sees("left with 0")
		p.restored()
	})
}

// A command that does not look whether to end ends all the same, and leaves no part of a file.
func TestInterruptedReading(t *testing.T) {
	dir := t.TempDir()
	p := newPane(t, "reading")
	pipe := filepath.Join(dir, "pipe.json")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	p.types("overlapse export - --to chrome -o " + filepath.Join(dir, "out.json") + " <>" + pipe)
	time.Sleep(200 * time.Millisecond)
	p.tmux("send-keys", "C-c")
	p.sees("nothing was written")
	if left := unfinished(t, dir); len(left) != 1 {
		t.Errorf("left %v", left)
	}
	for key, code := range map[string]string{"q": "code 0", "C-c": "code 0"} { // the browser looks for keys while it reads
		p.types("clear; echo '[{\"ph\":\"X\",\"ts\":1},' >" + pipe + " & overlapse view - <>" + pipe + "; echo code $?")
		p.sees("reading standard input, ")
		p.tmux("send-keys", key)
		p.sees(code)
		p.restored()
	}
}

// The first locale variable that is set decides.
func TestLocale(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false},
		{"", "", "en_US.UTF-8", true},
		{"", "de_DE.utf8@euro", "C", true},
		{"C", "", "en_US.UTF-8", false},
		{"POSIX", "en_US.UTF-8", "en_US.UTF-8", false},
		{"", "C", "en_US.UTF-8", false},
		{"C.UTF-8", "C", "", true},
		{"", "", "en_US", false},
		{"", "", "ja_JP.eucJP", false},
		{"", "UTF-8", "C", true}, // macOS
	} {
		env := map[string]string{"LC_ALL": c.all, "LC_CTYPE": c.ctype, "LANG": c.lang}
		if got := cli.UTF8(func(name string) string { return env[name] }); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
