package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// version says which build this is: the module's version, the revision that it
// was built from and whether that was changed, and the Go version.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown " + runtime.Version()
	}
	return versionOf(b)
}

func versionOf(b *debug.BuildInfo) string {
	set := map[string]string{}
	for _, s := range b.Settings {
		set[s.Key] = s.Value
	}
	words := []string{b.Main.Version}
	if b.Main.Version == "" {
		words[0] = "(devel)"
	}
	if r := set["vcs.revision"]; r != "" {
		words = append(words, "revision "+r)
	}
	if set["vcs.modified"] == "true" {
		words = append(words, "with local changes")
	}
	if t := set["vcs.time"]; t != "" {
		words = append(words, "of "+t)
	}
	return fmt.Sprintf("%s, %s %s/%s", strings.Join(words, ", "), b.GoVersion, runtime.GOOS, runtime.GOARCH)
}
