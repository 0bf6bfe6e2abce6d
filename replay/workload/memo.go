package workload

import (
	"sync"
	"sync/atomic"
)

// A Memo keeps what is expensive to compute, by a comparable key. The zero value is empty. It
// may be used from several goroutines.
type Memo struct {
	kept sync.Map
	size atomic.Int64 // of the values of GetBounded
}

// Get returns the value of a key, computed on the first call. A failed computation is not kept.
func (m *Memo) Get(key any, compute func() (any, error)) (any, error) {
	once, _ := m.kept.LoadOrStore(key, sync.OnceValues(compute))
	x, err := once.(func() (any, error))()
	if err != nil {
		m.kept.Delete(key)
	}
	return x, err
}

// GetBounded is Get of a value with a size: it is kept only while the sizes of all such values sum up to at most a bound.
func (m *Memo) GetBounded(key any, most int64, compute func() (x any, size int, err error)) (any, error) {
	return m.Get(key, func() (any, error) {
		x, size, err := compute()
		if err == nil && m.size.Add(int64(size)) > most {
			m.size.Add(-int64(size))
			m.kept.Delete(key)
		}
		return x, err
	})
}
