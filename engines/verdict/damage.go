package verdict

import (
	"strings"

	"github.com/overlapse/overlapse/replay/workload"
)

// damageOf says what is damaged of a captured run, if it is more than mostLost; else "".
func damageOf(w *workload.Workload) string {
	if w.Damage.Share() <= mostLost {
		return ""
	}
	return strings.Join(w.Damage.Sentences, "; ")
}
