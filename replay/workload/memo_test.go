package workload

import "testing"

// Values are computed once while they fit into the bound, and again where they do not.
func TestGetBounded(t *testing.T) {
	var m Memo
	computed := map[string]int{}
	get := func(key string, size int) {
		x, err := m.GetBounded(key, 10, func() (any, int, error) {
			computed[key]++
			return key, size, nil
		})
		if x != key || err != nil {
			t.Errorf("%s: %v, %v", key, x, err)
		}
	}
	for range 3 {
		get("first", 6)
		get("large", 5)
		get("small", 4)
	}
	if computed["first"] != 1 || computed["large"] != 3 || computed["small"] != 1 {
		t.Error(computed)
	}
}
