package lift

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// collectives draws them: "all_reduce: 0C 1C; arrive 4, depart 8; 64 bytes".
func collectives(w *workload.Workload) string {
	var lines []string
	for i := range w.Collectives {
		c := &w.Collectives[i]
		held := ""
		if c.Sender > 0 {
			held = fmt.Sprintf(", held for %d", w.Ops[c.Members[c.Sender-1]].Rank)
		}
		lines = append(lines, fmt.Sprintf("%s: %s; arrive %d, depart %d; %d bytes%s", c.Op, letters(w, c.Members), c.Arrive/column, c.Depart/column, c.Bytes, held))
	}
	return strings.Join(lines, "\n")
}

func comm(op trace.CollectiveOp, group int32, seq, bytes int64) part {
	return part{comm: &trace.Comm{Op: op, Group: group, Seq: seq, In: bytes, Out: bytes, ElemSize: 2, Peer: trace.None}, grid: 24}
}

// message is a kernel that sends and receives so many bytes.
func message(peer int32, sends, receives int64) part {
	return part{comm: &trace.Comm{Op: trace.SendRecv, Group: 0, In: sends, Out: receives, ElemSize: 2, Peer: peer}, grid: 16}
}

func TestCollect(t *testing.T) {
	copied := trace.Comm{Op: trace.AllGather, Group: 0, Seq: 5, Out: 64, Peer: trace.None, Engines: true}
	world := trace.Group{Name: "world", Ranks: []int{0, 1, 2, 3}, Size: 4}
	left := trace.Group{Name: "left", Ranks: []int{0, 1}, Size: 2}
	right := trace.Group{Name: "right", Ranks: []int{2, 3}, Size: 2}
	for _, c := range []struct {
		name  string
		d     drawing
		want  string
		notes string
	}{
		{
			name: "arrival skew is no transfer",
			d: drawing{
				text: `0 7 |  CCCCCC   |
				       1 7 |    CCCC   |`,
				parts:  map[byte]part{'C': comm(trace.AllReduce, 0, 0, 64)},
				groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
			},
			want: `all_reduce: 0C 1C; arrive 4, depart 8; 64 bytes`,
		},
		{
			name: "by number, whatever the stream",
			d: drawing{
				text: `0 7  | CCC       |
				       0 8  |     DDD   |
				       1 9  |      DD   |
				       1 10 | CCC       |`,
				parts:  map[byte]part{'C': comm(trace.AllReduce, 0, 0, 64), 'D': comm(trace.AllReduce, 0, 1, 32)},
				groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
			},
			want: `all_reduce: 0C 1C; arrive 1, depart 4; 64 bytes
			       all_reduce: 0D 1D; arrive 6, depart 8; 32 bytes`,
		},
		{
			name: "two groups side by side, and the world",
			d: drawing{
				text: `0 7 | CC  WW   |
				       1 7 | CC  WW   |
				       2 7 |  DD WW   |
				       3 7 |  DDD WW  |`,
				parts: map[byte]part{
					'W': comm(trace.AllGather, 0, 0, 128),
					'C': comm(trace.AllReduce, 1, 0, 64), 'D': comm(trace.AllReduce, 2, 0, 64),
				},
				groups: []trace.Group{world, left, right},
			},
			want: `all_reduce: 0C 1C; arrive 1, depart 3; 64 bytes
			       all_reduce: 2D 3D; arrive 2, depart 4; 64 bytes
			       all_gather: 0W 1W 2W 3W; arrive 6, depart 7; 128 bytes`,
		},
		{
			name: "no group named: by operation and order on the stream",
			d: drawing{
				text: `0 7  | CC DD  |
				       0 24 | EE     |
				       1 7  | CC  DD |
				       1 25 |    EE  |`,
				parts: map[byte]part{
					'C': comm(trace.AllReduce, -1, 0, 64), 'D': comm(trace.AllReduce, -1, 0, 32),
					'E': comm(trace.AllReduce, -1, 0, 16),
				},
			},
			want: `all_reduce: 0C 1C; arrive 1, depart 3; 64 bytes
			       all_reduce: 0E; arrive 1, depart 3; 16 bytes
			       all_reduce: 0D 1D; arrive 5, depart 6; 32 bytes
			       all_reduce: 1E; arrive 4, depart 6; 16 bytes`,
			notes: `1 collective never had all ranks in at a time: replayed rank by rank`,
		},
		{
			name: "crosswise on one stream, in times of whole microseconds",
			d: drawing{
				text: `0 7 |CCCDDD|
				       1 7 |DDDCCC|`,
				parts:  map[byte]part{'C': comm(trace.AllReduce, 0, 0, 64), 'D': comm(trace.AllGather, 0, 0, 32)},
				groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
			},
			want: `all_reduce: 0C; arrive 0, depart 3; 64 bytes
			       all_gather: 1D; arrive 0, depart 3; 32 bytes
			       all_gather: 0D; arrive 3, depart 6; 32 bytes
			       all_reduce: 1C; arrive 3, depart 6; 64 bytes`,
			notes: `2 collectives never had all ranks in at a time: replayed rank by rank`,
		},
		{
			name: "of a file with gaps: each rank has the size of its own",
			d: drawing{
				text: `0 7 | CC       |
				       1 7 |     DD   |`,
				parts:  map[byte]part{'C': comm(trace.AllToAll, 0, 0, 64), 'D': comm(trace.AllToAll, 0, 0, 4096)},
				groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
			},
			want: `all_to_all: 0C; arrive 1, depart 3; 64 bytes
			       all_to_all: 1D; arrive 5, depart 7; 4096 bytes`,
			notes: `1 collective never had all ranks in at a time: replayed rank by rank`,
		},
		{
			name: "another operation at the same place is another collective",
			d: drawing{
				text: `0 7 | CC |
				       1 7 | DD |`,
				parts:  map[byte]part{'C': comm(trace.AllReduce, 0, 0, 64), 'D': comm(trace.AllGather, 0, 0, 64)},
				groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
			},
			want: `all_reduce: 0C; arrive 1, depart 3; 64 bytes
			       all_gather: 1D; arrive 1, depart 3; 64 bytes`,
			notes: `2 collectives found on a part of their ranks only`,
		},
		{
			name: "a grid that is no number of channels",
			d: drawing{
				text: `0 7 | CC |
				       1 7 | CC |`,
				parts:  map[byte]part{'C': {comm: &trace.Comm{Op: trace.AllReduce, Group: 0, In: 64, Out: 64, Peer: trace.None}, grid: 2147483647}},
				groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
			},
			want:  `all_reduce: 0C 1C; arrive 1, depart 3; 64 bytes`,
			notes: `2 kernels of collectives have a grid of more than 1024 workgroups, which is no number of channels: ignored`,
		},
		{
			name: "messages meet by sender and receiver",
			d: drawing{
				text: `0 7 | CC  DD   |
				       1 7 | EE       |
				       2 7 |     FF   |`,
				parts: map[byte]part{
					'C': {comm: &trace.Comm{Op: trace.SendRecv, Group: 0, In: 8, Peer: 1}},
					'D': {comm: &trace.Comm{Op: trace.SendRecv, Group: 0, In: 16, Peer: 2, Seq: 1}},
					'E': {comm: &trace.Comm{Op: trace.SendRecv, Group: 0, Out: 8, Peer: 0}},
					'F': {comm: &trace.Comm{Op: trace.SendRecv, Group: 0, Out: 16, Peer: 0}},
				},
				groups: []trace.Group{{Name: "0", Ranks: []int{0, 1, 2}, Size: 3}},
			},
			want: `send_recv: 0C 1E; arrive 1, depart 3; 8 bytes
			       send_recv: 0D 2F; arrive 5, depart 7; 16 bytes`,
		},
		{
			name: "a message that the library holds until its receiver is there",
			d: drawing{
				text: `0 7 | CC       |
				       1 7 |     EE   |`,
				parts:  map[byte]part{'C': message(1, 64, 0), 'E': message(0, 0, 64)},
				groups: []trace.Group{left},
			},
			want: `send_recv: 0C 1E; arrive 5, depart 3; 64 bytes, held for 0`,
		},
		{
			name: "both ways: no rank can leave before the other is there",
			d: drawing{
				text: `0 7 | CC       |
				       1 7 |     EE   |`,
				parts:  map[byte]part{'C': message(1, 64, 64), 'E': message(0, 64, 64)},
				groups: []trace.Group{left},
			},
			want: `send_recv: 0C; arrive 1, depart 3; 64 bytes
			       send_recv: 1E; arrive 5, depart 7; 64 bytes`,
			notes: `1 collective never had all ranks in at a time: replayed rank by rank`,
		},
		{
			// 1F1B of PyTorch, four stages and two micro-batches: a forward message and the backward one that
			// comes next are one kernel where a stage has both to do.
			//
			//	S send forward  R receive forward  s send backward  r receive backward  X S and r  Y s and R
			name: "1F1B: a kernel of two messages is matched by what it receives",
			d: drawing{
				text: `0 7 |  S  XXXXXXXXXXXXX  rrrr      |
				       1 7 |  R R      s      s           |
				       1 8 |    S XXXXX  rrrr             |
				       2 7 |    R R  s     s              |
				       2 8 |      SXX rrrr                |
				       3 7 |      R Y    s                |`,
				parts: map[byte]part{
					'S': message(nextRank, 64, 0), 'R': message(rankBefore, 0, 64), 's': message(rankBefore, 64, 0), 'r': message(nextRank, 0, 64),
					'X': message(nextRank, 64, 64), 'Y': message(rankBefore, 64, 64),
				},
				groups: []trace.Group{world},
			},
			want: `send_recv: 0S 1R; arrive 2, depart 3; 64 bytes, held for 0
			       send_recv: 1R; arrive 4, depart 5; 64 bytes
			       send_recv: 1S 2R; arrive 4, depart 5; 64 bytes, held for 1
			       send_recv: 0X 1s; arrive 11, depart 12; 64 bytes
			       send_recv: 1X 2s; arrive 9, depart 10; 64 bytes
			       send_recv: 2R; arrive 6, depart 7; 64 bytes
			       send_recv: 2S 3R; arrive 6, depart 7; 64 bytes, held for 2
			       send_recv: 2X 3Y; arrive 8, depart 9; 64 bytes
			       send_recv: 2r 3s; arrive 13, depart 14; 64 bytes, held for 3
			       send_recv: 1r 2s; arrive 15, depart 16; 64 bytes, held for 2
			       send_recv: 0r 1s; arrive 20, depart 19; 64 bytes, held for 1`,
			notes: `2 collectives found on a part of their ranks only`,
		},
		{
			name: "the parts of a collective by copy engines",
			d: drawing{
				text: `0 7 | CDDDD   |
				       1 7 | CDDDD   |`,
				parts: map[byte]part{
					'C': {name: "__amd_rocclr_copyBufferBatch.kd", comm: &copied},
					'D': {name: "__amd_rocclr_batchMemOp.kd", comm: &copied},
				},
				groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
			},
			want: `all_gather: 0__amd_rocclr_copyBufferBatch.kd 1__amd_rocclr_copyBufferBatch.kd; arrive 1, depart 2; 0 bytes
			       all_gather: 0__amd_rocclr_batchMemOp.kd 1__amd_rocclr_batchMemOp.kd; arrive 2, depart 6; 64 bytes`,
		},
		{
			name: "a gather of which only the input is known",
			d: drawing{
				text: `0 7 | CC |
				       1 7 | CC |`,
				parts: map[byte]part{'C': {comm: &trace.Comm{Op: trace.AllGather, Group: trace.None, In: 64, Peer: trace.None}}},
			},
			want: `all_gather: 0C 1C; arrive 1, depart 3; 128 bytes`,
		},
		{
			name: "of unknown operation",
			d: drawing{
				text: `0 7 | CC |
				       1 7 | CC |`,
				parts: map[byte]part{'C': {kind: trace.Collective}},
			},
			want: `all_gather: 0C 1C; arrive 1, depart 3; 0 bytes`,
			notes: `1 collective without a name of the operation: guessed from the kernels around them
			        1 collective of unknown size`,
		},
		{
			name: "of unknown operation in front of a norm on its stream, and of one on another",
			d: drawing{
				text: `0 7 | CCN  N |
				       0 8 |    D   |
				       1 7 | CCN  N |
				       1 8 |    D   |`,
				parts: map[byte]part{'C': {kind: trace.Collective}, 'D': {kind: trace.Collective}, 'N': {name: "Rmsnorm2dFwd"}},
			},
			want: `all_reduce: 0C 1C; arrive 1, depart 3; 0 bytes
			       all_gather: 0D 1D; arrive 4, depart 5; 0 bytes`,
			notes: `2 collectives without a name of the operation: guessed from the kernels around them
			        2 collectives of unknown size`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := lift(t, c.d, Options{})
			sameText(t, "collectives", collectives(w), c.want)
			sameText(t, "notes", strings.Join(w.Notes, "\n"), c.notes)
			for i := range w.Collectives {
				if n := w.Collectives[i].Channels; n > mostChannels {
					t.Errorf("collective %d has %d channels", i, n)
				}
			}
		})
	}
}

func TestCollectiveFacts(t *testing.T) {
	w := lift(t, drawing{
		text: `0 7 | CC |
		       1 7 | DD |`,
		parts: map[byte]part{
			'C': {comm: &trace.Comm{Op: trace.ReduceScatter, Group: 0, Seq: 3, In: 128, Out: 64, ElemSize: 2, Peer: trace.None}, grid: 24},
			'D': {comm: &trace.Comm{Op: trace.ReduceScatter, Group: 0, Seq: 3, In: 132, Out: 66, ElemSize: 2, Peer: trace.None}, grid: 24},
		},
		groups: []trace.Group{{Name: "tp", Ranks: []int{0, 1}, Size: 2}},
	}, Options{})
	c := w.Collectives[0]
	if c.Op != trace.ReduceScatter || c.Group != 0 || c.Seq != 3 || c.In != 132 || c.Out != 66 || c.Bytes != 132 ||
		c.ElemSize != 2 || c.Channels != 24 || c.Transfer() != 2*column || c.Evidence != byGroup {
		t.Errorf("got %+v", c)
	}
}

// A sum that a rank left before another arrived, or of which one has no part although its recording is longer, is damage; a
// message or a broadcast is not, nor is what a rank did before another one recorded, or after, unless it is of an iteration.
func TestUnmatched(t *testing.T) {
	pair := []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}}
	for _, c := range []struct {
		name, text string
		op         trace.CollectiveOp
		want       string
	}{
		{"together", "0 7 | CC DD |\n1 7 | CC DD |", trace.AllReduce, "[]"},
		{"apart", "0 7 | CC DDD     |\n1 7 | CC     DDD |", trace.AllReduce, "[1 of 2 collectives that need all ranks, 60 % of their time, never had all ranks in at a time: kernels are missing, or times are wrong]"},
		{"a broadcast", "0 7 | CC DDD     |\n1 7 | CC     DDD |", trace.Broadcast, "[]"},
		{"even parts", "0 7 | CC DDD     |\n1 7 | CC     DDD |", trace.AllToAll, "[1 of 2 collectives that need all ranks, 60 % of their time, never had all ranks in at a time: kernels are missing, or times are wrong]"},
		{"uneven parts", "0 7 | CC DDD     |\n1 7 | CC     DDD |", trace.AllToAll, "[]"},
		{"on one rank", "0 7 | CC DD A |\n1 7 | CC    A |", trace.AllGather, "[1 of 2 collectives that need all ranks, 33 % of their time, never had all ranks in at a time: kernels are missing, or times are wrong]"},
		{"at the end", "0 7 | CC DD |\n1 7 | CC    |", trace.AllGather, "[]"},
		{
			"in front of the iterations",
			"0 mark |      <s#0    ><s#1    >|\n0 host | d    c         a       |\n0 7 |  DD   CC        A      |\n" +
				"1 mark |      <s#0    ><s#1    >|\n1 host |      c         a       |\n1 7 |       CC        A      |",
			trace.AllGather, "[]",
		},
		{
			"at the end of an iteration",
			"0 mark |<s#0    ><s#1    >|\n0 host | c        ad      |\n0 7 |  CC       A DD   |\n" +
				"1 mark |<s#0    ><s#1    >|\n1 host | c        a       |\n1 7 |  CC       A      |",
			trace.AllGather, "[s#0 has 2 kernels and copies instead of 3: a part was not recorded, or steps do other work, so that none stands for the others 1 of 2 collectives that need all ranks, 33 % of their time, never had all ranks in at a time: kernels are missing, or times are wrong]",
		},
	} {
		parts := map[byte]part{'C': comm(c.op, 0, 0, 64), 'D': comm(c.op, 0, 1, 64)}
		for _, p := range parts {
			p.comm.Even = c.name == "even parts"
		}
		w := lift(t, drawing{text: c.text, groups: pair, parts: parts}, Options{})
		if got := fmt.Sprint(w.Damage.Sentences); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// The library holds a message whose bytes fit into the buffers of its channels; of a larger one both
// ranks are there at a time, unless the sender was seen to leave.
func TestHeldMessages(t *testing.T) {
	for _, c := range []struct {
		receiver string
		bytes    int64
		held     bool
	}{{"|CC  |", 64 << 20, true}, {"|CC  |", 64<<20 + 1, false}, {"|   CC|", 1 << 30, true}} {
		w := lift(t, drawing{
			text:   "0 7 |SS  |\n1 7 " + c.receiver,
			parts:  map[byte]part{'S': message(1, c.bytes, 0), 'C': message(0, 0, c.bytes)},
			groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
		}, Options{})
		if len(w.Collectives) != 1 || (w.Collectives[0].Sender == 1) != c.held {
			t.Errorf("%d bytes, receiver %s: %+v", c.bytes, c.receiver, w.Collectives)
		}
	}
}
