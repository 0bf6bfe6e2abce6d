package main

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// manCommand writes the manual pages of a release. Their date is that of the release's commit, so
// that the same commit gives the same bytes.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the manual pages of all commands into a folder",
		Hidden: true,
		Args:   onePath,
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			asMarkdown(root)
			date, _ := time.Parse(time.RFC3339, releasedDate) // zero for other builds
			name, _, _ := strings.Cut(version(), ",")
			return doc.GenManTree(root, &doc.GenManHeader{
				Section: "1", Date: &date, Source: "overlapse " + name,
				Manual: "overlapse",
			}, args[0])
		},
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	}
}

// asMarkdown makes the help texts of a command and those below it Markdown, as package doc reads
// them: indented lines are examples, and nothing else is markup.
func asMarkdown(c *cobra.Command) {
	markup := strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "<", `\<`, "[", `\[`, "#", `\#`, "~", `\~`)
	c.Short = markup.Replace(c.Short)
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { f.Usage = markup.Replace(f.Usage) })
	c.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Usage = markup.Replace(f.Usage) })
	lines := strings.Split(c.Long, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") {
			lines[i] = "    " + line
		} else {
			lines[i] = markup.Replace(line)
		}
	}
	c.Long = strings.Join(lines, "\n")
	for _, sub := range c.Commands() {
		asMarkdown(sub)
	}
}
