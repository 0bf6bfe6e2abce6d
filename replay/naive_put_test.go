package replay

import "github.com/overlapse/overlapse/replay/program"

func (n *naive) putArrived(a *nactor) {
	p := a.puts[0]
	a.puts = a.puts[1:]
	n.end = max(n.end, n.now)
	n.postLater(n.latency(a.gpu, a.peer), p.Flag, p.Count, a.from[0], a.gpu)
	a.from = a.from[1:]
	n.freeEngine(a)
	n.putNext(a)
}

func (n *naive) putNext(a *nactor) {
	a.sent = false
	if len(a.puts) == 0 {
		return
	}
	if engines, g := int(n.m.Engines.Count.Value), n.gpus[a.gpu]; a.puts[0].DMA && !a.engine {
		if engines > 0 && g.taken == engines {
			g.wants = append(g.wants, a)
			a.wants, a.lastEnd = true, -1
			return
		}
		g.taken++
		a.engine = true
	}
	if n.m.Network.Message.Value > 0 && n.node(a.gpu) != n.node(a.peer) {
		messages := program.Time(1)
		if a.puts[0].Bytes > 0 && a.puts[0].Flag != program.NoFlag {
			messages = 2
		}
		nic := n.nic(a.gpu)
		if n.nics[nic] >= n.now {
			a.lastEnd = -1 // what is left of the nanosecond is lost
		}
		start := max(n.now, n.nics[nic])
		n.nics[nic] = start + messages*nanoseconds(n.m.Network.Message.Value)
		if start > n.now {
			a.at = start
			return
		}
	}
	n.putSend(a)
}

func (n *naive) putSend(a *nactor) {
	a.sent = true
	p := a.puts[0]
	least := p.Time
	if n.node(a.gpu) != n.node(a.peer) {
		least = max(least, nanoseconds(n.m.Network.Message.Value))
	}
	limit := boundless
	if least > 0 && p.Bytes > 0 {
		limit = p.Bytes / float64(least)
	}
	n.flow(a, nkey{from: int32(a.gpu), to: int32(a.peer), cu: none, launch: none, side: "communication", limit: limit, read: readByPut(&p), write: n.written(p.Update), beside: 1, slow: 1, weight: n.nicsFirst(int32(a.gpu), int32(a.peer))}, p.Bytes)
}

// readByPut is the bytes that a put reads from its own GPU's memory, for each that it sends.
func readByPut(p *program.Phase) float64 {
	if p.Held {
		return 0
	}
	return 1
}

// nicsFirst is the weight of what crosses a NIC: kernels hold it up no more than they must.
func (n *naive) nicsFirst(from, to int32) float64 {
	if n.node(int(from)) != n.node(int(to)) {
		return 64
	}
	return 1
}
