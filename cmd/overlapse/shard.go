package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines/plan"
)

// shardsVariable is the number of parts, which Kubernetes does not tell a pod.
const shardsVariable = "OVERLAPSE_SHARDS"

// ShardOf reads --shard: the part, from 0, of how many.
func ShardOf(s string, env func(string) string) (part, parts int, err error) {
	if s == "" {
		return 0, 1, nil
	}
	first := 1 // the number of the first part: 1, or what the cluster counts from
	from := "--shard " + s
	i, n, ok := strings.Cut(s, "/")
	if s == "auto" {
		switch {
		case env("SLURM_ARRAY_TASK_ID") != "":
			from, i, n, ok = "SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT", env("SLURM_ARRAY_TASK_ID"), env("SLURM_ARRAY_TASK_COUNT"), true
			if first, err = strconv.Atoi(cmp.Or(env("SLURM_ARRAY_TASK_MIN"), "0")); err != nil {
				return 0, 0, cli.Errorf("SLURM_ARRAY_TASK_MIN: %q is no number", env("SLURM_ARRAY_TASK_MIN"))
			}
		case env("JOB_COMPLETION_INDEX") != "":
			from, i, n, ok, first = "JOB_COMPLETION_INDEX and "+shardsVariable, env("JOB_COMPLETION_INDEX"), env(shardsVariable), true, 0
		default:
			return 0, 0, cli.Errorf("--shard auto: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set (give --shard I/N)")
		}
	}
	part, err1 := strconv.Atoi(i)
	parts, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || parts < 1 || part < first || part >= first+parts {
		return 0, 0, cli.Errorf("%s: part %q of %q (give I/N with I from 1 to N)", from, i, n)
	}
	return part - first, parts, nil
}

// A Workload is an input as its cells replay it: on a machine, with what changes either. It has a value of each axis.
type Workload [seeds]string

// A Cell is one replay.
type Cell struct {
	Workload
	Seed     int64
	Strategy plan.Selection
}

// Shard is the i-th of n shards, counted from 0: its cells by workload, and their number. Shards have
// equally many cells of each workload, so that they take about equally long.
func (p *Plan) Shard(i, n int) (parts [][]Cell, cells int) {
	list := []Workload{{}}
	for axis, values := range p.Values[:seeds] {
		var next []Workload
		for _, w := range list {
			for _, w[axis] = range values {
				next = append(next, w)
			}
		}
		list = next
	}
	position := 0
	for _, w := range list {
		var part []Cell
		for _, text := range p.Values[seeds] {
			seed, _ := seedOf(text)
			for _, s := range p.Strategies {
				if position%n == i {
					part = append(part, Cell{w, seed, s})
				}
				position++
			}
		}
		if part != nil {
			parts, cells = append(parts, part), cells+len(part)
		}
	}
	return parts, cells
}

// Digest is the hash of what the results depend on: the plan, the version of the program, the options
// that change what is read of the inputs, and the content of inputs and machines. input and machine return
// the hash of a named file; machine is not asked for "".
func (p *Plan) Digest(version, reading string, input, machine func(name string) (string, error)) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q\n", version, reading, p.Values, p.Strategies)
	for axis, of := range []func(string) (string, error){Inputs: input, Machines: machine, Retargets: machine} {
		for _, name := range p.Values[axis] {
			if of == nil || name == "" {
				continue
			}
			sum, err := of(name)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(h, sum)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
