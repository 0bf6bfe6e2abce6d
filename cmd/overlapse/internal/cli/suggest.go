package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine/profile"
)

// unknownError is a word that is not among the known ones.
type unknownError struct {
	text  string
	typed string
	known []string
}

func (e *unknownError) Error() string { return e.text }

// Choice checks that the value of a flag is one of the words.
func Choice(flag, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return Unknown(fmt.Sprintf("--%s %q is none of %s", flag, value, strings.Join(words, ", ")), value, words)
}

// UnknownCommand is the argument check of the root, whose arguments name no command.
func UnknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return Unknown(fmt.Sprintf("unknown command %q (commands: %s)", args[0], strings.Join(names, ", ")), args[0], names)
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

// Suggest is the error's text, with the nearest known word if there is one.
func Suggest(err error) string {
	typed, known := "", []string(nil)
	var word *unknownError
	var name *plan.UnknownError
	var m *profile.UnknownError
	switch {
	case errors.As(err, &word):
		typed, known = word.typed, word.known
	case errors.As(err, &name):
		typed, known = name.Name, name.Known
	case errors.As(err, &m):
		return suggestMachine(m)
	}
	if near := nearest(typed, known); near != "" {
		return fmt.Sprintf("%v: did you mean %s?", err, near)
	}
	return err.Error()
}

// suggestMachine is the error's text, with the nearest profile's name and the number of
// GPUs that was typed behind ":" or "x".
func suggestMachine(e *profile.UnknownError) string {
	name, count := e.Name, ""
	if i := strings.LastIndexAny(name, ":x"); i > 0 && strings.Trim(name[i+1:], "0123456789") == "" && name[i+1:] != "" {
		name, count = name[:i], ":"+name[i+1:]
	}
	if near := nearest(name, profile.Names()); near != "" && len(e.Readings) == 0 {
		return fmt.Sprintf("%v: did you mean %s%s?", e, near, count)
	}
	return e.Error()
}

// nearest is the known word that differs least from the typed one, or "" if
// all differ by more than a third of its letters.
func nearest(typed string, known []string) string {
	best, edits := profile.Nearest(typed, known)
	if typed == "" || edits > max(1, len([]rune(typed))/3) {
		return ""
	}
	return best
}

// OneOf completes words.
func OneOf(words ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// Unknown is an Error about a word that is not among the known ones.
func Unknown(text, typed string, known []string) error {
	return Wrap(&unknownError{text, typed, known})
}
