package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/overlapse/overlapse/trace/regular"
)

// A release is what the linker sets (-X main.released...) in the programs of a release,
// since they may be built outside of a clone.
type release struct {
	version string // v0.2.0
	commit  string
	date    string // of the commit
}

var releasedVersion, releasedCommit, releasedDate string

// version says which build this is: version, commit, date of the commit, whether files
// were changed since, and the Go version.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		b = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return versionOf(b, release{releasedVersion, releasedCommit, releasedDate})
}

func versionOf(b *debug.BuildInfo, linked release) string {
	set := map[string]string{}
	for _, s := range b.Settings {
		set[s.Key] = s.Value
	}
	words := []string{cmp.Or(linked.version, b.Main.Version, "(devel)")}
	if c := cmp.Or(linked.commit, set["vcs.revision"]); c != "" {
		words = append(words, "commit "+c)
	}
	if set["vcs.modified"] == "true" {
		words = append(words, "with local changes")
	}
	if t := cmp.Or(linked.date, set["vcs.time"]); t != "" {
		words = append(words, t)
	}
	return fmt.Sprintf("%s, %s %s/%s", strings.Join(words, ", "), b.GoVersion, runtime.GOOS, runtime.GOARCH)
}

// programVersion is what results depend on besides their input: the version of a release or a
// clean commit, else the content of the program.
var programVersion = sync.OnceValue(func() string {
	v := version()
	if strings.Contains(v, "commit ") && !strings.Contains(v, "with local changes") {
		return v
	}
	if path, err := os.Executable(); err == nil {
		if sum, err := regular.Digest(path); err == nil {
			return v + " " + sum
		}
	}
	return v
})
