// Command kubernetes checks the manifest samples/cluster/sweep.yaml against the types of the
// Kubernetes API: unknown and repeated fields, wrong types and missing values are errors. It is a
// module of its own, so that the program does not depend on Kubernetes.
package main

import (
	"errors"
	"fmt"
	"os"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := check(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func check(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var job batch.Job
	if err := yaml.UnmarshalStrict(text, &job); err != nil {
		return err
	}
	s := &job.Spec
	switch {
	case job.APIVersion != "batch/v1" || job.Kind != "Job" || job.Name == "":
		return errors.New("no named batch/v1 Job")
	case s.CompletionMode == nil || *s.CompletionMode != batch.IndexedCompletion || s.Completions == nil || s.Parallelism == nil || s.BackoffLimitPerIndex == nil:
		return errors.New("no Indexed Job with completions and a limit of retries by index")
	case s.Template.Spec.RestartPolicy != core.RestartPolicyNever:
		return errors.New("backoffLimitPerIndex needs restartPolicy Never")
	case len(s.Template.Spec.Containers) != 1 || s.Template.Spec.Containers[0].Image == "":
		return errors.New("not one container with an image")
	}
	if u := s.Template.Spec.SecurityContext; u == nil || u.RunAsNonRoot == nil || !*u.RunAsNonRoot || u.FSGroup == nil {
		return errors.New("the pod's user is root, or cannot write to its volume")
	}
	c := s.Template.Spec.Containers[0]
	volumes := map[string]bool{}
	for _, v := range s.Template.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			return fmt.Errorf("no volume %s", m.Name)
		}
	}
	for _, e := range c.Env {
		if e.Value != fmt.Sprint(*s.Completions) {
			return fmt.Errorf("%s is %s, completions %d", e.Name, e.Value, *s.Completions)
		}
	}
	return nil
}
