package main

import (
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/viz/plain"
)

// printDependencies prints the dataflow graph in numbers.
func (a *app) printDependencies(w *workload.Workload) {
	s := w.Flows()
	total := 0
	for _, n := range s.Operations {
		total += n
	}
	if total == 0 {
		return
	}
	t := a.Section("dependencies", "operations", "exact", "annotated", "guessed", "given", "edges", "of these by stream order only", "more by reused memory", "longest chain", "of step")
	edges := 0
	for _, n := range s.Edges {
		edges += n
	}
	chain := fmt.Sprintf("%s, %d operations", text.Micros(s.ChainNs), s.ChainOps)
	if s.ChainNs == 0 {
		chain = "unknown"
	}
	t.AppendRow([]any{
		total, s.Operations["exact"], s.Operations["annotated"], s.Operations["guessed"], s.Operations["given"],
		edges, s.Edges[workload.StreamOnly.String()], s.Reused, chain, text.Micros(s.StepNs),
	})
	t.Render()
	for _, e := range w.Run.Ledger.Entries {
		if strings.Contains(e.Reason, "execution trace ") && strings.Contains(e.Reason, "ignored") {
			fmt.Fprintf(a.Out, "note: %s: %s\n", plain.Line(e.File), plain.Line(e.Reason))
		}
	}
	if guessed := s.Operations["guessed"]; 2*guessed > total {
		fmt.Fprintln(a.Out, strings.Join([]string{
			"Most dependencies are guessed from streams, events and names. To record them, profile one more step with",
			"torch.profiler.profile(execution_trace_observer=torch.profiler.ExecutionTraceObserver().register_callback(\"et/rank0.et.json\")),",
			"export its trace to et/rank0.json, and keep the folder et beside these files.",
		}, "\n"))
	}
}
