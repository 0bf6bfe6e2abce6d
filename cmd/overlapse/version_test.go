package main

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	b := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v0.3.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "8d10c13"}, {Key: "vcs.modified", Value: "true"}, {Key: "vcs.time", Value: "2026-11-22T00:00:00Z"},
	}}
	bare := &debug.BuildInfo{GoVersion: "go1.26.0"}
	for _, c := range []struct {
		build  *debug.BuildInfo
		linked release
		want   string
	}{
		{b, release{}, "v0.3.0, commit 8d10c13, with local changes, 2026-11-22T00:00:00Z, go1.26.0 "},
		{bare, release{}, "(devel), go1.26.0 "},
		{bare, release{"v0.4.0", "9e21d24", "2026-11-23T00:00:00Z"}, "v0.4.0, commit 9e21d24, 2026-11-23T00:00:00Z, go1.26.0 "},
	} {
		if got := versionOf(c.build, c.linked); !strings.HasPrefix(got, c.want) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
