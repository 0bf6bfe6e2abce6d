package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// manCommand writes the manual pages of a release.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the manual pages of all commands into a folder",
		Hidden: true,
		Args:   onePath,
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			return a.writeManual(c.Root(), args[0])
		},
		ValidArgsFunction: folders,
	}
}

// folders completes folders.
func folders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// writeManual writes the page of a command and those of its commands. Their date is that of
// the release's commit, so that the same commit gives the same bytes.
func (a *app) writeManual(c *cobra.Command, dir string) error {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.Name() == "help" {
			continue
		}
		if err := a.writeManual(sub, dir); err != nil {
			return err
		}
	}
	date, _ := time.Parse(time.RFC3339, releasedDate) // zero for other builds
	version, _, _ := strings.Cut(c.Root().Version, ",")
	c.DisableAutoGenTag = true
	c.Short, c.Long = manualText(c.Short), manualText(c.Long)
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		f.Usage = manualText(f.Usage)
	})
	var page bytes.Buffer
	if err := doc.GenMan(c, &doc.GenManHeader{Section: "1", Date: &date, Source: "overlapse " + version, Manual: "overlapse"}, &page); err != nil {
		return err
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
	return a.files.WriteBytes(filepath.Join(dir, name), page.Bytes())
}

// manualText writes a help text as Markdown: indented lines are examples, and nothing else is
// markup.
func manualText(s string) string {
	markup := strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "`", "\\`", "<", `\<`, "[", `\[`, "#", `\#`, "~", `\~`)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") {
			lines[i] = "    " + line
			continue
		}
		lines[i] = markup.Replace(line)
	}
	return strings.Join(lines, "\n")
}
