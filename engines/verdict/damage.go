package verdict

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// damageOf says what is damaged of a run, if it is more than mostLost; else "".
func damageOf(r *trace.Run) string {
	d := r.Damage()
	if d.Share() <= mostLost {
		return ""
	}
	return strings.Join(d.Sentences, "; ")
}
