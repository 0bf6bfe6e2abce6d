package assemble

import (
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/lex"
)

// MaxRanks is larger than any job.
const MaxRanks = 1 << 20

// Collective reads what PyTorch writes about a collective beside its kernels and in
// record_param_comms: arg returns an argument by its name, or "". The Group and sizes of the
// result are not set.
func Collective(arg func(string) string) (trace.Comm, trace.Group) {
	name := arg("Collective name")
	c := trace.Comm{Op: trace.CollectiveOpIn(name), DType: arg("dtype"), Group: trace.None, Peer: trace.None}
	c.ElemSize = ElemSize(c.DType)
	switch name {
	case "send":
		c.Peer = rankID(arg("Dst Rank"))
	case "recv", "broadcast":
		c.Peer = rankID(arg("Src Rank"))
	}
	g := trace.Group{Name: arg("Process Group Name"), Doc: GroupDoc(arg("Process Group Description")), Ranks: RankList([]byte(arg("Process Group Ranks")))}
	size, _ := lex.Integer([]byte(arg("Group size")))
	g.Size = int(min(max(size, int64(len(g.Ranks))), MaxRanks))
	return c, g
}

func rankID(s string) int32 {
	if n, ok := lex.Integer([]byte(s)); ok && n >= 0 && n < MaxRanks {
		return int32(n)
	}
	return trace.None
}

// Elements reads a number of elements; 0 if it exceeds any memory.
func Elements(b []byte) int64 {
	if n, ok := lex.Integer(b); ok && n > 0 && n < MaxBytes {
		return n
	}
	return 0
}

// GroupDoc is what the program calls a group; "" if it has no word for it.
func GroupDoc(doc string) string {
	if doc == "undefined" { // PyTorch's default
		return ""
	}
	return doc
}

// RankList reads [0, 1], or the same in quotes, ascending. It returns nil for a
// truncated list.
func RankList(b []byte) []int {
	var ranks []int
	for _, e := range lex.Elements(lex.Unquote(b)) {
		n, ok := lex.Integer(e)
		if !ok || n < 0 {
			return nil
		}
		ranks = append(ranks, int(n))
	}
	slices.Sort(ranks)
	return ranks
}
