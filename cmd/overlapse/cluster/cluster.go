// Package cluster hands a sweep to SLURM or Kubernetes: which part a process runs, and the
// script and the manifest that start all parts.
package cluster

import (
	"cmp"
	"embed"
	"encoding/json"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"github.com/spf13/pflag"

	"github.com/overlapse/overlapse/cmd/overlapse/console"
	"github.com/overlapse/overlapse/cmd/overlapse/files"
	"github.com/overlapse/overlapse/cmd/overlapse/usage"
	"github.com/overlapse/overlapse/viz/plain"
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
				return 0, 0, usage.Errorf("SLURM_ARRAY_TASK_MIN: %q is no number", env("SLURM_ARRAY_TASK_MIN"))
			}
		case env("JOB_COMPLETION_INDEX") != "":
			from, i, n, ok, first = "JOB_COMPLETION_INDEX and "+shardsVariable, env("JOB_COMPLETION_INDEX"), env(shardsVariable), true, 0
		default:
			return 0, 0, usage.Errorf("--shard auto: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set (give --shard I/N)")
		}
	}
	part, err1 := strconv.Atoi(i)
	parts, err2 := strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || parts < 1 || part < first || part >= first+parts {
		return 0, 0, usage.Errorf("%s: part %q of %q (give I/N with I from 1 to N)", from, i, n)
	}
	return part - first, parts, nil
}

// A Job is the flags that hand a sweep to the engine of a cluster.
type Job struct {
	slurm, kubernetes string // files to write
	shards            int
	cores             int
	memory            string
	retries           int
	image             string
	claim             string
}

// AddTo adds them to a command.
func (j *Job) AddTo(f *pflag.FlagSet) {
	f.StringVar(&j.slurm, "slurm", "", "write a script for sbatch: an array job of --shards parts")
	f.StringVar(&j.kubernetes, "kubernetes", "", "write the manifest of an Indexed Job of --shards parts")
	usage.IntFlag(f, &j.shards, "shards", 16, usage.Range[int]{Least: 1, Most: 100_000}, "with --slurm, --kubernetes: number of parts")
	usage.IntFlag(f, &j.cores, "cores", 4, usage.Range[int]{Least: 1, Most: 1 << 16}, "with --slurm, --kubernetes: processors of a part")
	f.StringVar(&j.memory, "memory", "8G", "with --slurm, --kubernetes: memory of a part, as 8G")
	usage.IntFlag(f, &j.retries, "retries", 3, usage.Range[int]{Most: 1000}, "with --kubernetes: how often a part is started again; SLURM requeues parts whose node fails")
	f.StringVar(&j.image, "image", "overlapse:latest", "with --kubernetes: the container image, made with the Dockerfile of a release")
	f.StringVar(&j.claim, "claim", "overlapse", "with --kubernetes: the volume claim that holds the folder of the plan, mounted at the same path")
}

// Wanted reports whether there is a script or a manifest to write.
func (j *Job) Wanted() bool { return j.slurm != "" || j.kubernetes != "" }

// Check checks the values of the flags.
func (j *Job) Check() error {
	number := strings.TrimRight(j.memory, "KMGT")
	switch {
	case !j.Wanted():
		return nil
	case strings.HasPrefix(j.slurm, "-") || strings.HasPrefix(j.kubernetes, "-"): // an option of sbatch
		return usage.Errorf("--slurm %q, --kubernetes %q: give the name of a file", j.slurm, j.kubernetes)
	case number == "" || strings.Trim(number, "0123456789") != "" || len(j.memory)-len(number) != 1:
		return usage.Errorf("--memory %q: give a number with K, M, G or T", j.memory)
	}
	return nil
}

// jobView fills the templates below.
type jobView struct {
	Name, Plan, Out, Folder string
	Shards, Cores, Retries  int
	Last                    int
	Memory, Quantity        string // as SLURM and as Kubernetes write it
	Image, Claim, Variable  string
	Reading                 []string // options of reading
}

//go:embed slurm.sh.tmpl kubernetes.yaml.tmpl
var templates embed.FS

// Write writes the script and the manifest of a sweep, whose parts read with the options.
func (j *Job) Write(con *console.Console, set *files.Set, plan, to, options string) error {
	planPath, err := filepath.Abs(plan)
	if err != nil {
		return err
	}
	out := to
	if !strings.HasPrefix(out, "s3://") {
		if out, err = filepath.Abs(out); err != nil {
			return err
		}
	}
	if inside, err := filepath.Rel(filepath.Dir(planPath), out); j.kubernetes != "" && !strings.HasPrefix(out, "s3://") && (err != nil || strings.HasPrefix(inside, "..")) {
		return usage.Errorf("-o %s: pods see the folder of the plan, %s, and s3:// only", to, filepath.Dir(planPath))
	}
	v := jobView{
		Name: jobName(plan), Plan: planPath, Out: out, Folder: filepath.Dir(planPath), Shards: j.shards, Last: j.shards - 1,
		Cores: j.cores, Retries: j.retries, Memory: j.memory, Quantity: j.memory + "i", Image: j.image, Claim: j.claim, Variable: shardsVariable,
		Reading: strings.Fields(options),
	}
	all, err := template.New("").Funcs(template.FuncMap{"shell": shellWord, "json": jsonWord, "comment": plain.Line}).ParseFS(templates, "*")
	if err != nil {
		return err
	}
	for _, f := range [...]struct{ path, template, start string }{
		{j.slurm, "slurm.sh.tmpl", "sbatch"},
		{j.kubernetes, "kubernetes.yaml.tmpl", "kubectl apply -f"},
	} {
		if f.path == "" {
			continue
		}
		if err := set.Write(f.path, func(w io.Writer) error { return all.ExecuteTemplate(w, f.template, v) }); err != nil {
			return err
		}
		con.Notef("wrote %s; start it with: %s %s", f.path, f.start, f.path)
	}
	return nil
}

// jobName is the plan's name as both engines take it: lower case letters, digits and dashes.
func jobName(planPath string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, strings.TrimSuffix(filepath.Base(planPath), filepath.Ext(planPath)))
	return strings.TrimRight("overlapse-"+name[:min(len(name), 40)], "-")
}

// shellWord quotes a word for sh.
func shellWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// jsonWord quotes a word for YAML.
func jsonWord(s string) (string, error) {
	text, err := json.Marshal(s)
	return string(text), err
}
