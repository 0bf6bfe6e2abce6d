package replay

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// A ledger counts, by name of kernels and copies, the bytes through each GPU's resources.
type ledger struct {
	gpus  int
	index map[string]int32
	names []string
	bytes [][]float64 // by name, then GPU and column; nil: none yet
}

// A column of a ledger is a resource, or the part of Memory's that was written.
const (
	written    = numResources
	numColumns = numResources + 1
)

func (t *ledger) row(name string) int32 {
	return trace.Memo(t.index, name, func() int32 {
		t.bytes = append(t.bytes, nil)
		return trace.Push(&t.names, name)
	})
}

func (t *ledger) add(row, gpu int32, r Resource, bytes float64) {
	if bytes == 0 {
		return
	}
	if t.bytes[row] == nil {
		t.bytes[row] = make([]float64, t.gpus*int(numColumns))
	}
	t.bytes[row][int(gpu)*int(numColumns)+int(r)] += bytes
}

// write counts bytes written to a GPU's memory.
func (t *ledger) write(row, gpu int32, bytes float64) {
	t.add(row, gpu, Memory, bytes)
	t.add(row, gpu, written, bytes)
}

// move counts bytes from one GPU's memory to another's.
func (s *sim) move(row, from, to int32, bytes, read float64) {
	t := &s.ledger
	t.add(row, from, Memory, read)
	if to == program.Everyone {
		t.add(row, from, Egress, bytes)
		for to := range int32(len(s.gpus)) {
			if to != from && !s.flows.apart(from, to) {
				t.add(row, to, ingress, bytes)
				t.write(row, to, bytes)
			}
		}
		return
	}
	t.write(row, to, bytes)
	switch {
	case from == to:
	case s.flows.apart(from, to):
		t.add(row, from, NICEgress, bytes)
		t.add(row, to, nicIngress, bytes)
	default:
		t.add(row, from, Egress, bytes)
		t.add(row, to, ingress, bytes)
	}
}

// uncommitted is the bytes of a kernel's phases that the ledger does not count yet.
type uncommitted struct {
	read, written, cached float64 // by Work; written also by Stores, in addition to the bytes sent
	peer                  int32   // of the last Stores
	stored, fetched       float64 // by Stores to peer
}

// charge counts the bytes of a phase (rule M1).
func (s *sim) charge(l *launch, p *program.Phase) {
	b := &l.uncommitted
	switch p.Op {
	case program.Work:
		b.read += p.Read * (1 - p.Hit)
		b.written += p.Write
		b.cached += p.Read + p.Write
	case program.Store:
		if p.Bytes == 0 {
			return // sends nothing that it read here
		}
		if p.Peer != b.peer {
			s.enterStores(l)
			b.peer = p.Peer
		}
		b.stored += p.Bytes
		b.fetched += p.Read
		b.written += p.Write
	case program.Put:
		read := p.Bytes
		if p.Held {
			read = 0
		}
		s.move(l.row, l.gpu, p.Peer, p.Bytes, read)
		if p.DMA {
			s.ledger.add(l.row, l.gpu, dma, p.Bytes)
		}
	}
}

// enter adds a launch's uncommitted bytes to the ledger.
func (s *sim) enter(l *launch) {
	s.enterStores(l)
	b := &l.uncommitted
	s.ledger.add(l.row, l.gpu, Memory, b.read)
	s.ledger.write(l.row, l.gpu, b.written)
	if s.flows.caches != none {
		s.ledger.add(l.row, l.gpu, Cache, b.cached)
	}
}

func (s *sim) enterStores(l *launch) {
	if b := &l.uncommitted; b.stored > 0 {
		s.move(l.row, l.gpu, b.peer, b.stored, b.fetched)
		b.stored, b.fetched = 0, 0
	}
}

// traffics lists the counts by GPU, resource and name.
func (t *ledger) traffics() []traffic {
	var all []traffic
	for row, bytes := range t.bytes {
		for i, b := range bytes {
			gpu, r := i/int(numColumns), Resource(i%int(numColumns))
			if b == 0 || r == written {
				continue
			}
			x := traffic{GPU: gpu, Resource: r, Name: t.names[row], Bytes: b}
			if r == Memory {
				x.Written = bytes[i-int(Memory)+int(written)]
			}
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b traffic) int {
		return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name))
	})
	return all
}
