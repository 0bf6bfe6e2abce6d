package results

import (
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
)

// LateText says how long others wait for a rank, and what takes it longer.
func LateText(late *overlap.LateRank) string {
	said := fmt.Sprintf("%s of an iteration (%.1f %%) for rank %d", text.Micros(late.Cost), 100*late.Share, late.Rank)
	var longer trace.Time
	var words []string
	for i, k := range late.Longer {
		longer += k.Time
		if i < 2 {
			words = append(words, fmt.Sprintf("%s +%s", text.Middle(layout.ShortName(k.Name), 40), text.Micros(k.Time)))
		}
	}
	switch {
	case late.Idle > longer:
		return fmt.Sprintf("%s: its device is idle for %s more than on the median rank (its host, or its data)", said, text.Micros(late.Idle))
	case longer > 0:
		return fmt.Sprintf("%s: its kernels take longer than on the median rank: %s", said, strings.Join(words, ", "))
	}
	return said + ", which arrives last though its kernels take no longer"
}
