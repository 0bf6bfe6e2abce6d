package calibrate

import (
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/replay/dataset"
)

// Calibration reads rows of a dataset.
type (
	Row      = dataset.Row
	Workload = dataset.Workload
	Params   = dataset.Params
)

// idList names rows in a source: "c0012 to c0030, c0086 (20 rows)". Rows that
// follow each other in the file are listed as a range.
func idList(rows []Row) string {
	var parts []string
	for i := 0; i < len(rows); {
		j := i + 1
		for j < len(rows) && rows[j].File == rows[j-1].File && rows[j].Line == rows[j-1].Line+1 {
			j++
		}
		if j-i > 2 {
			parts = append(parts, rows[i].ID+" to "+rows[j-1].ID)
		} else {
			for _, r := range rows[i:j] {
				parts = append(parts, r.ID)
			}
		}
		i = j
	}
	if len(parts) > 6 {
		parts = append(parts[:3], "...", parts[len(parts)-1])
	}
	if len(rows) > 2 {
		return fmt.Sprintf("%s (%d rows)", strings.Join(parts, ", "), len(rows))
	}
	return strings.Join(parts, ", ")
}
