package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
)

// completions registers the shell completion of flag values.
func completions(root *cobra.Command) {
	words := map[string]cobra.CompletionFunc{
		"strategy": completeStrategies,
		"machine":  completeMachines,
		"base":     completeMachines,
		"retarget": completeMachines,
		"clock":    cli.OneOf("captured", "cool", "sustained"),
		"window":   cli.OneOf(results.Iteration, "all"),
		"what-if":  completeWhatIf,
		"shard":    cli.OneOf("auto"),
	}
	for _, c := range root.Commands() {
		for flag, f := range words {
			if c.Flags().Lookup(flag) != nil {
				_ = c.RegisterFlagCompletionFunc(flag, f) // fails only for a missing flag
			}
		}
	}
}

// completeMachines completes profiles, and paths of YAML files.
func completeMachines(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return machine.Names(), cobra.ShellCompDirectiveDefault
}

// completeWhatIf completes the last property of a list.
func completeWhatIf(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	at := strings.LastIndexByte(typed, ',') + 1
	words := prefixed(typed[:at], machine.PropertyNames())
	for i := range words {
		words[i] += "="
	}
	words = append(words, prefixed(typed[:at], []string{machine.Balanced, machine.Balanced + "=fastest"})...)
	return words, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// completeStrategies completes the last strategy of a list, its settings and their values.
func completeStrategies(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	const more = cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	at := strings.LastIndexByte(typed, ',') + 1
	name, _, settings := strings.Cut(typed[at:], ":")
	i := slices.IndexFunc(engines.All(), func(e plan.Strategy) bool { return e.Name == name })
	if !settings || i < 0 {
		return prefixed(typed[:at], append(engines.Names(), "all")), more
	}
	at = strings.LastIndexByte(typed, ':') + 1
	param, _, valued := strings.Cut(typed[at:], "=")
	var words []string
	for _, p := range engines.All()[i].Params {
		switch {
		case !valued:
			words = append(words, typed[:at]+p.Name+"=")
		case p.Name == param:
			words = prefixed(typed[:at]+p.Name+"=", p.Choices)
		}
	}
	return words, more
}

func prefixed(prefix string, words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = prefix + w
	}
	return out
}
