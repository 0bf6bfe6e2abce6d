package schedule

import (
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Beside is the chunk of the stage behind (by 1) or before (by -1) a rank's chunk, in the order in
// which data pass, and its rank; false: there is none.
func (p *pipelinePlan) Beside(rank int, c pipelineChunk, by int) (int, pipelineChunk, bool) {
	stages := p.shape.stages
	if c.Part == backwardPart {
		by = -by
	}
	at := c.Group*stages + p.stage[rank] + by
	if c.Part == weights || at < 0 || at >= stages*p.shape.groups {
		return 0, c, false
	}
	c.Group, c.Split = at/stages, false
	return p.ranks[p.chain[rank]][at%stages], c, true
}

// A sentMessage is a message: the rank that sends it, and the chunk that made it.
type sentMessage struct {
	From int
	pipelineChunk
}

// A postedMessage is when a receive is posted: behind so many steps of the receiver, and its turn among all
// messages.
type postedMessage struct{ Steps, Turn int }

// Posts are the receives of an iteration in the order of PyTorch's schedules of several stages on a
// rank, or of halves of backward (_add_send_recv in torch/distributed/pipelining/schedules.py): ranks
// take their next step in turn if its input is posted, and with each message the receiver posts it,
// behind what it has taken until then. All messages of a rank are on one stream, in that order. nil: a
// receive is posted where it is needed.
func (p *pipelinePlan) Posts() map[sentMessage]postedMessage {
	if !p.inTurns {
		return nil
	}
	posts := map[sentMessage]postedMessage{}
	for at, progress := make([]int, len(p.Orders)), true; progress; {
		progress = false
		for rank, order := range p.Orders {
			if at[rank] == len(order) {
				continue
			}
			c := order[at[rank]]
			if from, sent, ok := p.Beside(rank, c, -1); ok {
				if _, posted := posts[sentMessage{from, sent}]; !posted {
					continue
				}
			}
			if to, _, ok := p.Beside(rank, c, 1); ok {
				c.Split = false
				posts[sentMessage{rank, c}] = postedMessage{at[to], len(posts)}
			}
			at[rank]++
			progress = true
		}
	}
	return posts
}

// Message is a captured message of a rank, of an iteration if it has one: what is planned stands
// for it.
func (p *pipelinePlan) Message(round, rank int) *workload.Op {
	i := max(0, slices.IndexFunc(p.messages[rank], func(id int32) bool { return int(p.round[id]) == round }))
	return &p.w.Ops[p.messages[rank][i]]
}

// messageHosts are Hosts.
func (p *pipelinePlan) messageHosts() (hosts []trace.Time) {
	for _, ids := range p.messages {
		costs := make([]trace.Time, 0, len(ids))
		for _, id := range ids {
			costs = append(costs, p.Issues[id])
		}
		hosts = append(hosts, overlap.UpperMedian(costs))
	}
	return hosts
}

// message finds what a message carries and how long it takes: the shortest stay of any captured
// one's kernels, since the others waited.
func (p *pipelinePlan) message() {
	row := 0
	for i := range p.w.Collectives {
		c := &p.w.Collectives[i]
		if c.Op != trace.SendRecv || c.Bytes < p.Bytes {
			continue
		}
		if c.Bytes > p.Bytes || p.Alone == 0 {
			row, p.Bytes, p.Alone = i, c.Bytes, trace.Infinity
		}
		for _, id := range c.Members {
			p.Alone = min(p.Alone, p.w.Ops[id].Dur())
		}
	}
	c := &p.w.Collectives[row]
	held := float64(p.pl.Laws().Channels(c)) / p.pl.Machine.GPU.CUs.Value
	var forward trace.Time // of a group of layers of the first stage
	for g := range p.shape.groups {
		for _, x := range p.pieces[place{0, p.ranks[0][0], pipelineChunk{Part: forwardPart, Group: g}}] {
			forward += x.Part.DurAlone() / trace.Time(p.shape.groups)
		}
	}
	p.Early = held*float64(forward) < float64(p.Alone)
	message := *c
	message.Alone = p.Alone
	message = p.pl.Laws().Cut(slices.Repeat([]*workload.Collective{&message}, p.micros), p.shape.micros, 0)
	p.Alone, p.Bytes = message.Alone, message.Bytes
}
