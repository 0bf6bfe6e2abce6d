package workload

import "sync"

// A Memo keeps ratios that are expensive to compute, by name. The zero value is empty. It
// may be used from several goroutines.
type Memo struct {
	mu   sync.Mutex
	kept map[string]float64
}

// Get returns the ratio of the name, computed on the first call. A failed computation is
// not kept.
func (m *Memo) Get(name string, compute func() (float64, error)) (float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x, ok := m.kept[name]; ok {
		return x, nil
	}
	x, err := compute()
	if err != nil {
		return 1, err
	}
	if m.kept == nil {
		m.kept = map[string]float64{}
	}
	m.kept[name] = x
	return x, nil
}
