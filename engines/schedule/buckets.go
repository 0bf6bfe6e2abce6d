package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Data parallel training sums gradients in buckets, in the order in which backward makes
// them. Buckets of another size carry the same gradients in the same order (rule W13).

// A gradient is one of the parts of a bucket that backward makes one after another.
type gradient struct {
	row   int32 // of Collectives: the captured bucket
	bytes int64
	by    []int32 // by member of the bucket: the operation that makes it
}

// firstBucket is the size at which DDP closes the first bucket, so that communication starts early,
// unless bucket_cap_mb was set: then that holds for the first bucket too.
const firstBucket = 1 << 20

// bucketsOf closes a bucket of every iteration's gradients when it reaches size bytes, and the first
// one at firstBucket unless the captured one went on.
func bucketsOf(grads [][]gradient, size int64) (buckets [][]gradient) {
	for _, list := range grads {
		limit := size
		if !goesOn(list) {
			limit = firstBucket
		}
		var bucket []gradient
		var bytes int64
		for i, g := range list {
			bucket, bytes = append(bucket, g), bytes+g.bytes
			if bytes >= limit || i == len(list)-1 {
				buckets, bucket, bytes, limit = append(buckets, bucket), nil, 0, size
			}
		}
	}
	return buckets
}

// goesOn reports whether the captured first bucket of an iteration took another gradient after firstBucket bytes.
func goesOn(list []gradient) bool {
	var bytes int64
	for _, g := range list {
		if g.row != list[0].row {
			continue
		}
		if bytes >= firstBucket {
			return true
		}
		bytes += g.bytes
	}
	return false
}

// hasBuckets reports whether the captured buckets are those that are closed at size bytes.
func (s *step) hasBuckets(size int64) bool {
	grads, why := s.gradients()
	return why == "" && !slices.ContainsFunc(bucketsOf(grads, size), func(b []gradient) bool { return !s.isBucket(b) })
}

// isBucket reports whether gradients are those of one captured bucket.
func (s *step) isBucket(bucket []gradient) bool {
	all := s.w.Collectives[bucket[0].row].Bytes
	return !slices.ContainsFunc(bucket, func(g gradient) bool { return g.row != bucket[0].row }) && bytesOf(bucket) >= all-all/50
}

func bytesOf(bucket []gradient) (sum int64) {
	for _, g := range bucket {
		sum += g.bytes
	}
	return sum
}

// regroup puts gradients into buckets that are closed when they reach size bytes. It
// returns the reason why it cannot, or "".
func (s *step) regroup(size int64) string {
	grads, why := s.gradients()
	if why != "" {
		return why
	}
	taken, flattens := map[int32]bool{}, s.flattens(grads)
	if flattens {
		s.leaveOut(s.copiesBack)
	}
	for _, b := range bucketsOf(grads, size) {
		s.bucket(b, flattens)
		for _, g := range b {
			taken[g.row] = true
		}
	}
	for row := range s.w.Collectives {
		if !taken[int32(row)] {
			s.exchange(row)
		}
	}
	s.shareParts()
	return ""
}

// gradients lists the gradients of every iteration in the order in which they become ready, of each
// set of ranks that reduces some apart: a bucket is of one set.
func (s *step) gradients() ([][]gradient, string) {
	type bucketed struct {
		step  int32
		ranks string
	}
	lists := map[bucketed][]gradient{}
	var order []bucketed
	forward := 0 // sums of activations or their gradients, which the next operations read
	unknown := "which gradients a bucket holds is not known" + recording(s.w)
	for row := range s.w.Collectives {
		c := &s.w.Collectives[row]
		if c.Op != trace.AllReduce {
			continue
		}
		list, ok := s.gradientsOf(int32(row), c)
		if ok && (!s.w.Ops[list[0].by[0]].Backward || s.forProducts(c.Members[0])) {
			forward++
			continue
		}
		if !ok {
			continue
		}
		of := bucketed{s.w.Ops[c.Members[0]].Step, fmt.Sprint(s.pl.RanksOf(c))}
		if len(lists[of]) == 0 {
			order = append(order, of)
		}
		lists[of] = append(lists[of], list...)
	}
	switch reduced := slices.ContainsFunc(s.w.Collectives, func(c workload.Collective) bool { return c.Op == trace.AllReduce }); {
	case !reduced:
		return nil, "no all-reduce of gradients was found"
	case len(order) == 0 && forward > 0:
		return nil, "what all-reduces sum is no gradient of a parameter: buckets hold those"
	case len(order) == 0:
		return nil, unknown
	}
	slices.SortStableFunc(order, func(a, b bucketed) int { return cmp.Compare(a.step, b.step) })
	var all [][]gradient
	for _, of := range order {
		list := lists[of]
		slices.SortStableFunc(list, func(a, b gradient) int { return cmp.Compare(s.at[a.by[0]], s.at[b.by[0]]) })
		all = append(all, list)
	}
	return all, ""
}

// gradientsOf is the parts of one bucket: the operations whose output its all-reduce, or the
// copy in front of it, reads. They are known if their bytes make up the bucket's.
func (s *step) gradientsOf(row int32, c *workload.Collective) ([]gradient, bool) {
	var list []gradient
	for k, id := range c.Members {
		makers := s.makers(row, id)
		var sum int64
		for _, m := range makers {
			sum += m.bytes
		}
		if sum < c.Bytes-c.Bytes/50 || k > 0 && len(makers) != len(list) {
			return nil, false
		}
		for i, m := range makers {
			if k == 0 {
				list = append(list, gradient{row: row, bytes: m.bytes})
			}
			list[i].by = append(list[i].by, m.op)
		}
	}
	return list, len(list) > 0
}

type maker struct {
	op    int32
	bytes int64
}

// makers are the operations that make a collective's input on a rank, by order of issue.
func (s *step) makers(row, id int32) []maker {
	bytes := map[int32]int64{}
	var walk func(id int32)
	walk = func(id int32) {
		for _, e := range s.w.Flow[id] {
			switch {
			case e.Kind != workload.ReadAfterWrite || e.Reused:
			case slices.Contains(s.preps[row], e.Op):
				walk(e.Op)
			case s.at[e.Op] >= 0:
				bytes[e.Op] += e.Bytes
			}
		}
	}
	walk(id)
	var list []maker
	for op, n := range bytes {
		list = append(list, maker{op, n})
	}
	slices.SortFunc(list, func(a, b maker) int { return cmp.Compare(s.at[a.op], s.at[b.op]) })
	return list
}

// bucket adds the exchange of a bucket: a captured one if its gradients are the same.
func (s *step) bucket(grads []gradient, flattens bool) {
	bytes := bytesOf(grads)
	var rows []int32
	share := map[int32]int64{}
	for _, g := range grads {
		if share[g.row] == 0 {
			rows = append(rows, g.row)
		}
		share[g.row] += g.bytes
	}
	first := &s.w.Collectives[rows[0]]
	c := *first
	c.Bytes, c.In, c.Out, c.Alone = bytes, bytes, bytes, 0
	if s.isBucket(grads) {
		c = *first
	} else {
		c.Alone = s.timeOf(&c, rows, share)
		c.Late, c.Serial = s.lateOf(rows, share)
	}
	x := &exchange{coll: &c, carries: rows, name: s.streamName(first), copied: flattens}
	for k, id := range first.Members {
		m := member{rank: s.w.Ops[id].Rank, op: &s.w.Ops[id], place: -1}
		for _, g := range grads {
			m.place = max(m.place, s.at[g.by[k]])
			m.deps = append(m.deps, s.items[m.rank][s.at[g.by[k]]])
		}
		if x.copied && len(grads) > 1 {
			m.preps, m.back = []prep{{op: m.op, bytes: bytes}}, bytes
		}
		x.members = append(x.members, m)
	}
	last := &x.members[0]
	x.placed, x.turn = true, s.turnOf(s.items[last.rank][last.place].op.ID)
	for _, row := range rows {
		s.carriers[row] = append(s.carriers[row], x)
	}
	s.exchanges = append(s.exchanges, x)
}

// timeOf is the duration alone of a bucket's all-reduce: that of each captured bucket with so many bytes, by the
// bytes that it shares with them.
func (s *step) timeOf(c *workload.Collective, rows []int32, share map[int32]int64) trace.Time {
	var sum, bytes float64
	for _, row := range rows {
		alone := s.pl.Laws().Collective(&s.w.Collectives[row], c.Bytes, 0).Alone
		sum += float64(share[row]) * float64(alone)
		bytes += float64(share[row])
	}
	return trace.Time(sum / bytes)
}

// lateOf is how long the captured ranks wait in a bucket for ranks that nobody captured: as long in all buckets together as
// in the captured ones, whose gradients they carry (rule C27).
func (s *step) lateOf(rows []int32, share map[int32]int64) (late trace.Time, serial bool) {
	serial = true
	for _, row := range rows {
		old := &s.w.Collectives[row]
		late += trace.Time(float64(old.Late) * float64(share[row]) / float64(old.Bytes))
		serial = serial && (old.Late == 0 || old.Serial)
	}
	return late, serial && late > 0
}

// flattens reports whether the captured program copies gradients into a bucket where it
// holds several, and only there: then new buckets of several are copied together, and those
// of one are not (rule W13).
func (s *step) flattens(grads [][]gradient) bool {
	parts := map[int32]int{}
	for _, list := range grads {
		for _, g := range list {
			parts[g.row]++
		}
	}
	copies := false
	for row, n := range parts {
		switch has := len(s.preps[row]) > 0; {
		case n == 1 && has:
			return false
		case n > 1:
			copies = copies || has
		}
	}
	return copies
}

// copiesBack reports whether an item copies gradients out of a bucket: all that it reads an
// all-reduce has written. What reads the copy waits for the bucket instead.
func (s *step) copiesBack(it *item) bool {
	from := int32(-1)
	for _, e := range s.w.Flow[it.op.ID] {
		if e.Kind != workload.ReadAfterWrite || e.Reused {
			continue
		}
		c := s.w.Ops[e.Op].Collective
		if c < 0 || s.w.Collectives[c].Op != trace.AllReduce {
			return false
		}
		from = c
	}
	if from < 0 || !workload.Copies(it.op) {
		return false
	}
	s.moved[it.op.ID] = from
	return true
}

// shareParts divides the copies in front of captured buckets among those that carry their
// gradients now.
func (s *step) shareParts() {
	for row, ids := range s.preps {
		n := len(s.carriers[row])
		for _, id := range ids {
			for k, x := range s.carriers[row] {
				if m := x.member(s.w.Ops[id].Rank); m != nil && x.placed && !x.copied {
					m.preps = append(m.preps, prep{op: &s.w.Ops[id], k: k, of: n})
				}
			}
		}
	}
}
