package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/input"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/calibrate"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/regular"
)

// private finds what a shared profile must not have: paths of a file system, hosts, addresses.
var private = regexp.MustCompile(`(?:^|[\s"'(])(?:~|/(?:home|root|mnt|data|scratch|users?|tmp|var|work|opt)/)[\w./-]*|\b\d+\.\d+\.\d+\.\d+\b|\b[\w-]+\.(?:local|internal|lan|corp)\b|\b[\w.]+@[\w.]+\b`)

// checkMachine checks a machine file that is to be shared, with the folder of its rows, as
// capture.py writes it; "": none.
func (a *app) checkMachine(ctx context.Context, file, folder string) error {
	text, err := regular.ReadFile(file)
	if err != nil {
		return err
	}
	m, err := a.MachineNamed(file, 0)
	if err != nil {
		return err
	}
	fix := 0
	say := func(check, cure, format string, args ...any) {
		word := "ok"
		if cure != "" {
			word, fix = "fix", fix+1
		}
		a.Labelled(word, check+": "+fmt.Sprintf(format, args...))
		if cure != "" {
			a.Labelled("", "to do: "+cure)
		}
	}
	o := machine.OriginOf(m)
	cure := ""
	if o.Measured == 0 {
		cure = "torchrun --nproc-per-node N samples/capture/capture.py --out mymachine, then overlapse calibrate mymachine -o " + cli.ShellWord(file)
	}
	say("sources", cure, "%d numbers measured, %d published, %d assumed or unknown (overlapse machines %s lists them)", o.Measured, o.Published, o.Assumed, cli.ShellWord(file))
	cure = ""
	known := machine.ForDevice(trace.Device{Name: m.GPU.Name})
	if known == "" {
		cure = "add a row to replay/machine/detect.go, by which traces of this GPU find the profile"
	}
	say("GPU", cure, "%s, %d in a node", m.GPU.Name, m.PerNode())
	cure = ""
	found := private.FindString(string(text))
	if found != "" {
		cure = "remove it"
	}
	say("private", cure, "%s", map[bool]string{true: "no path, host or address", false: fmt.Sprintf("has %q", strings.Trim(found, " \n\t\"'("))}[found == ""])
	if folder == "" {
		say("rows", "overlapse machines --check "+cli.ShellWord(file)+" FOLDER", "nobody can compute the numbers again without the rows that they were read off")
	} else {
		base, err := a.checkRows(m, folder, say)
		if rows := filepath.Join(folder, "rows.jsonl"); err == nil && input.IsFile(rows) {
			err = a.checkProfile(ctx, rows, base, m)
		}
		if err != nil {
			return err
		}
	}
	if fix > 0 {
		return fmt.Errorf("%s: %s to fix before it is shared", file, cli.Counted(fix, "thing"))
	}
	return nil
}

// checkRows compares a machine with what calibrate reads off its rows, and returns the base of
// that.
func (a *app) checkRows(m machine.Machine, folder string, say func(check, cure, format string, args ...any)) (base machine.Machine, err error) {
	rows, err := readRows(filepath.Join(folder, "calibrate.jsonl"))
	if err != nil {
		return base, err
	}
	if base, err = a.MachineNamed(baseOf(rows), 0); err != nil {
		return base, err
	}
	res, err := calibrate.Calibrate(rows, base)
	if err != nil {
		return base, err
	}
	res.Machine.Profile, res.Machine.GPU.Name = m.Profile, m.GPU.Name
	var want, got bytes.Buffer
	if err := errors.Join(machine.WriteYAML(res.Machine, &want), machine.WriteYAML(m, &got)); err != nil {
		return base, err
	}
	lines := map[string]bool{}
	for _, line := range strings.Split(want.String(), "\n") {
		lines[line] = true
	}
	other, first := 0, ""
	for _, line := range strings.Split(got.String(), "\n") {
		if !lines[line] {
			if other++; first == "" {
				first = strings.TrimSpace(line)
			}
		}
	}
	cure := ""
	if other > 0 {
		cure = "write it with overlapse calibrate " + cli.ShellWord(folder) + " -o, and do not edit it"
	}
	say("rows", cure, "%d of %s read; %s", res.Rows, cli.Counted(len(rows), "row"), map[bool]string{
		true: "calibrate gives the same numbers", false: fmt.Sprintf("calibrate gives other numbers in %s, first: %s", cli.Counted(other, "line"), cli.Shorten(first, 80)),
	}[other == 0])
	return base, nil
}
