package main

import (
	"encoding/csv"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/overlapse/overlapse/engines/verdict"
)

// The printed bands are the 90th percentiles of the errors in the dataset, in
// whole percent, rounded up. A change of the model may move them by a point.
func TestConfidenceBands(t *testing.T) {
	f, err := os.Open("../../samples/measurements/errors.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	col, level := slices.Index(rows[0], "error"), slices.Index(rows[0], "confidence")
	errs := map[verdict.Level][]float64{}
	for _, row := range rows[1:] {
		e, err := strconv.ParseFloat(row[col], 64)
		if err != nil {
			t.Fatal(err)
		}
		errs[verdict.Level(row[level])] = append(errs[verdict.Level(row[level])], 100*math.Abs(e))
	}
	for _, l := range verdict.Levels() {
		slices.Sort(errs[l])
		p90 := math.Ceil(errs[l][len(errs[l])*9/10])
		if math.Abs(p90-float64(verdict.Band(l))) > 1 {
			t.Errorf("confidence %s: the 90th percentile of %d errors is %.0f %%, printed %d %%", l, len(errs[l]), p90, verdict.Band(l))
		}
	}
}
