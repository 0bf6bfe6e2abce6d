package workload

import "sync"

// A Memo keeps what is expensive to compute, by a comparable key. The zero value is empty. It
// may be used from several goroutines.
type Memo struct{ kept sync.Map }

// Get returns the value of a key, computed on the first call. A failed computation is not kept.
func (m *Memo) Get(key any, compute func() (any, error)) (any, error) {
	once, _ := m.kept.LoadOrStore(key, sync.OnceValues(compute))
	x, err := once.(func() (any, error))()
	if err != nil {
		m.kept.Delete(key)
	}
	return x, err
}

// Known returns the value of a key for which Get was called, once it is there; false if there is none.
func (m *Memo) Known(key any) (any, bool) {
	once, ok := m.kept.Load(key)
	if !ok {
		return nil, false
	}
	x, err := once.(func() (any, error))()
	return x, err == nil
}
