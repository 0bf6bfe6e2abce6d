package sweep

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
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
