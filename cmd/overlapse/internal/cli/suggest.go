package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/overlapse/overlapse/replay/machine"
)

// Unknown is an Error about a word that is not among the known ones, and the nearest of them.
func Unknown(text, typed string, known []string) error {
	return Errorf("%s%s", text, machine.Suggestion(typed, known))
}

// Choice checks that the value of a flag is one of the words.
func Choice(flag, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return Unknown(fmt.Sprintf("--%s %q is none of %s", flag, value, strings.Join(words, ", ")), value, words)
}

// FlagError turns a wrong flag into a usage error.
func FlagError(c *cobra.Command, err error) error {
	var wrong Error // of a ChoiceFlag
	if errors.As(err, &wrong) {
		return wrong
	}
	var unknown *pflag.NotExistError
	var known []string
	typed := ""
	if errors.As(err, &unknown) {
		typed = "--" + unknown.GetSpecifiedName()
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	}
	path := strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), c.Root().Name()))
	return Unknown(fmt.Sprintf("%v (see overlapse %s)", err, strings.TrimSpace(path+" --help")), typed, known)
}

// OneOf completes words.
func OneOf(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}
