package replay

import "github.com/overlapse/overlapse/replay/program"

// command reports whether the stream's command is over.
func (n *naive) command(a *nactor, c *program.Command) bool {
	step := a.step
	a.step++
	switch c.Op {
	case program.Post:
		n.post(c.Flag, c.Count)
		return true
	case program.Wait:
		if step == 0 && n.flags[c.Flag] < c.Count {
			a.copied = false
			n.waiters = append(n.waiters, nwait{a, c.Flag, c.Count})
			return false
		}
		return true
	case program.Delay:
		if step == 0 && c.Delay > 0 {
			a.at = n.now + c.Delay
			return false
		}
		return true
	}
	if step == 0 {
		if c.Delay > 0 {
			a.at = n.now + c.Delay
			return false
		}
		step, a.step = 1, 2
	}
	if c.Op == program.Launch {
		if step == 1 {
			a.copied = false
			n.launch(a, c)
		}
		return step == 2
	}
	return n.copy(a, c, step)
}

func (n *naive) copy(a *nactor, c *program.Command, step int) bool {
	cp := c.Copy
	g := n.gpus[a.gpu]
	engines := int(n.m.Engines.Count.Value)
	latency := nanoseconds(n.m.Engines.Latency.Value)
	if queued := nanoseconds(n.m.Engines.Queued.Value); a.copied && queued > 0 {
		latency = min(latency, queued)
	}
	if n.node(int(cp.From)) != n.node(int(cp.Peer)) {
		latency += n.latency(int(cp.From), int(cp.Peer))
	}
	switch {
	case step == 1 && !cp.Free && !a.engine && engines > 0 && g.taken == engines:
		g.wants = append(g.wants, a)
		a.step = 1
		return false
	case step == 1:
		if !cp.Free && !a.engine {
			g.taken++
			a.engine = true
		}
		a.start = n.now
		wait := latency
		if cp.Free {
			wait = cp.Time
		} else if cp.Bytes == 0 {
			wait = max(latency, cp.Time)
		}
		if wait > 0 {
			a.at = n.now + wait
			return false
		}
		a.step = 3
		fallthrough
	case step == 2:
		if !cp.Free && cp.Bytes > 0 {
			n.ledger.add(a.gpu, dma, cp.Name, cp.Bytes)
			n.charge(cp.Name, int(cp.From), int(cp.Peer), cp.Bytes, cp.Bytes)
			limit := limitOf(cp.Bytes, float64(max(0, cp.Time-latency)))
			if cp.From != cp.Peer && n.m.Engines.Rate.Value > 0 {
				limit = min(limit, perNanosecond(n.m.Engines.Rate.Value))
			}
			n.flow(a, nkey{from: cp.From, to: cp.Peer, cu: none, launch: none, side: "communication", limit: limit, read: 1, write: n.written(cp.Update), beside: 1, slow: 1, weight: n.nicsFirst(cp.From, cp.Peer)}, cp.Bytes)
			return false
		}
	}
	n.write("copy", a.gpu, a.index, cp.Name, a.start)
	n.freeEngine(a)
	a.copied = !cp.Free
	return true
}

// freeEngine hands the actor's engine, if it has one, to who waits longest.
func (n *naive) freeEngine(a *nactor) {
	if !a.engine {
		return
	}
	g := n.gpus[a.gpu]
	a.engine = false
	if len(g.wants) == 0 {
		g.taken--
		return
	}
	g.wants[0].engine = true
	n.queue = append(n.queue, g.wants[0])
	g.wants = g.wants[1:]
}
