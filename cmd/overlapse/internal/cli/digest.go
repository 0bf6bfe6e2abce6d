package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/operator"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/guard"
)

// InputDigest is the hash of all files that are read for an input: of a trace, a file, a
// folder or a glob of ranks, or of a workload file with the machine that it names.
func (r *Reader) InputDigest(name string) (string, error) {
	info, err := os.Stat(name)
	if matches, _ := filepath.Glob(name); err != nil && len(matches) == 0 {
		return "", fmt.Errorf("%s: no such file or folder (inputs of a plan are relative to the plan)", name)
	}
	paths, base := []string{name}, filepath.Dir(name) // the name of a file may hold the rank
	if err == nil && info.IsDir() {
		base = name
	}
	if !IsYAML(name) {
		if paths, err = format.Files(name, format.Options{}); err != nil {
			return "", err
		}
	}
	h := sha256.New()
	for _, p := range paths {
		sum, err := guard.Digest(p)
		if err != nil {
			return "", fmt.Errorf("%s: %w", p, WithoutPath(err))
		}
		rel, err := filepath.Rel(base, p)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %s\n", filepath.ToSlash(rel), sum)
	}
	if IsYAML(name) {
		in, err := guard.Open(name)
		if err != nil {
			return "", err
		}
		defer in.Close()
		f, err := operator.Parse(in, name, nil)
		if err != nil {
			return "", err
		}
		if isPath(f.Machine) {
			sum, err := r.MachineDigest(BesidesMachine(name, f.Machine))
			if err != nil {
				return "", err
			}
			fmt.Fprintln(h, sum)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// MachineDigest is the hash of a machine with all its values, and of its number of GPUs, if
// the name has one.
func (r *Reader) MachineDigest(name string) (string, error) {
	m, sized, err := r.readMachine(name)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintln(h, sized)
	if err := machine.WriteYAML(m, h); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Besides is a path of a plan: relative to the plan's folder.
func Besides(planPath, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(planPath), name)
}

// BesidesMachine is the name of a machine: files are relative to the plan's folder.
func BesidesMachine(planPath, name string) string {
	if isPath(name) {
		return Besides(planPath, name)
	}
	return name
}
