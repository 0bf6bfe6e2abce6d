package machine

import (
	"strconv"

	"github.com/overlapse/overlapse/trace"
)

// An entry is one number or table of a profile: the place in the file, what
// it measures, and where it lives in a Machine. Parsing, writing and
// calibration all go by the same list, so none can forget one.
type entry struct {
	key      string // "gpu.cus"
	dims     []dimension
	quantity *Quantity // or
	table    *Table    // with len(dims) columns
	needed   bool      // the simulator cannot do without: "unknown" is refused
	part     string    // of a profile that may be left out: all keys that begin so; "" for what every profile has
}

// omitted reports whether the entry is of a part that the profile leaves out.
func (e entry) omitted() bool {
	mark, why := e.mark()
	return e.part != "" && mark == Unknown && why == ""
}

// omit leaves the entry out.
func (e entry) omit() {
	if e.table != nil {
		*e.table = Table{Mark: Unknown}
		return
	}
	*e.quantity = Quantity{Mark: Unknown}
}

// String is the number as the profile writes it, or the size of a table.
func (e entry) String() string {
	switch {
	case e.quantity != nil:
		return e.quantity.String()
	case !e.table.Known():
		return "unknown"
	}
	return strconv.Itoa(len(e.table.Rows)) + " rows"
}

// divides reports whether predictions divide by the number: times and sizes may
// be 0, and so may ratios that a profile can do without.
func (e entry) divides() bool {
	d := e.dims[0]
	return d == count || d == rate || d == flops || d == ratio && e.needed
}

// mark is how far the entry can be trusted, and who says so.
func (e entry) mark() (Mark, string) {
	if e.quantity != nil {
		return e.quantity.Mark, e.quantity.Source
	}
	return e.table.Mark, e.table.Source
}

// text is one word of a profile.
type text struct {
	key     string
	at      *string
	choices []string // nil: any
	part    string   // as of an entry
}

func (m *Machine) texts() []text {
	return []text{
		{key: "profile", at: &m.Profile},
		{key: "gpu.name", at: &m.GPU.Name},
		{key: "fabric.topology", at: (*string)(&m.Fabric.Topology), choices: topologies},
		{key: "network.topology", at: (*string)(&m.Network.Topology), choices: topologies, part: "network."},
		{key: "library.name", at: &m.Library.Name},
	}
}

// entries lists every number of a profile in the order in which it is written.
func (m *Machine) entries() []entry {
	one := func(key string, d dimension, q *Quantity) entry {
		return entry{key: key, dims: []dimension{d}, quantity: q, needed: true}
	}
	option := func(key string, d dimension, q *Quantity) entry {
		return entry{key: key, dims: []dimension{d}, quantity: q}
	}
	within := func(part string, e entry) entry {
		e.part = part
		return e
	}
	table := func(key string, t *Table, dims ...dimension) entry { return entry{key: key, dims: dims, table: t} }
	g, f, w, n, l, mm := &m.GPU, &m.Fabric, &m.Network, &m.Launch, &m.Library, &m.Matmul
	list := []entry{
		one("gpus", count, &m.Most),

		one("gpu.cus", count, &g.CUs),
		one("gpu.threads", count, &g.Threads),
		one("gpu.registers", count, &g.Registers),
		one("gpu.shared", size, &g.Shared),
		one("gpu.shared_spare", size, &g.SharedSpare),
		one("gpu.wgs", count, &g.WGs),
		one("gpu.memory", rate, &g.Memory),
		one("gpu.read", rate, &g.Read),
		within("gpu.cache", option("gpu.cache", size, &g.Cache)),
		within("gpu.cache", option("gpu.cache_rate", rate, &g.CacheRate)),
		within("gpu.update", one("gpu.update", ratio, &g.Update)),
		one("gpu.flops", flops, &g.Flops),
		one("gpu.post", span, &g.Post),
		one("gpu.poll", span, &g.Poll),
		table("gpu.stream", &g.Stream, count, rate),
		table("gpu.gather", &g.Gather, count, rate),
		table("gpu.gather_fused", &g.GatherFused, count, rate),
		within("gpu.sum", table("gpu.sum", &g.Sum, count, rate)),
		within("gpu.groups", table("gpu.groups", &g.Groups, count, count)),
		within("gpu.crowding", table("gpu.crowding", &g.Crowding, ratio, ratio)),

		option("matmul.rate", flops, &mm.Rate),
		option("matmul.tile_start", span, &mm.TileStart),
		option("matmul.exposed", ratio, &mm.Exposed),
		within("matmul.reduce", option("matmul.reduce", span, &mm.Reduce)),
		table("matmul.tiles", &mm.Tiles, count, count, ratio, ratio),
		table("matmul.clusters", &mm.Clusters, count, count, count, count),
		option("matmul.owned", count, &mm.Owned),
		option("matmul.dynamic", ratio, &mm.Dynamic),
		option("matmul.compiled", flops, &mm.Compiled),
		option("matmul.lone", flops, &mm.Lone),
		option("matmul.crowd", ratio, &mm.Crowd),
		table("matmul.shapes", &mm.Shapes, count, count, count, span),
		within("matmul.taken", table("matmul.taken", &mm.Taken, count, count, count, count, count, count)),

		one("fabric.egress", rate, &f.Egress),
		one("fabric.ingress", rate, &f.Ingress),
		one("fabric.pair", rate, &f.Pair),
		one("fabric.latency", span, &f.Latency),
		within("fabric.hop", one("fabric.hop", span, &f.Hop)),
		one("fabric.fence", span, &f.Fence),
		option("fabric.message", span, &f.Message),
		one("fabric.store_cu", rate, &f.StoreCU),
		option("fabric.store_ring", rate, &f.StoreRing),
		option("fabric.store_spread", rate, &f.StoreSpread),
		option("fabric.store_incast", rate, &f.StoreIncast),

		within("network.", one("network.node", count, &w.Node)),
		within("network.", one("network.nics", count, &w.NICs)),
		within("network.", one("network.egress", rate, &w.Egress)),
		within("network.", one("network.ingress", rate, &w.Ingress)),
		within("network.", one("network.pair", rate, &w.Pair)),
		within("network.", one("network.latency", span, &w.Latency)),
		within("network.", one("network.hop", span, &w.Hop)),
		within("network.", one("network.message", span, &w.Message)),

		one("engines.count", count, &m.Engines.Count),
		one("engines.rate", rate, &m.Engines.Rate),
		one("engines.latency", span, &m.Engines.Latency),

		one("launch.gap", span, &n.Gap),
		one("launch.memset_gap", span, &n.MemsetGap),
		one("launch.event", span, &n.Event),
		one("launch.hop", span, &n.Hop),
		one("launch.graph", span, &n.Graph),
		one("launch.timing", span, &n.Timing),
		one("launch.host", span, &n.Host),
		one("launch.compiled", span, &n.Compiled),
		option("launch.call", span, &n.Call),
		one("launch.host_event", span, &n.HostEvent),
		one("launch.host_collective", span, &n.HostCollective),
		one("launch.barrier", span, &n.Barrier),

		option("clock.knee", ratio, &m.Clock.Knee),
		option("clock.exponent", ratio, &m.Clock.Exponent),
		option("clock.memory", ratio, &m.Clock.Memory),
		option("clock.link", ratio, &m.Clock.Link),
		option("clock.hold", span, &m.Clock.Hold),

		one("library.ranks", count, &l.Ranks),
		one("library.threads", count, &l.Threads),
		one("library.registers", count, &l.Registers),
		one("library.shared", size, &l.Shared),
		within("library.cluster", option("library.cluster", count, &l.Cluster)),
		option("library.onset", ratio, &l.Onset),
	}
	for _, op := range recordedOps {
		key, c := "library."+op.String(), l.Of(op)
		list = append(list,
			one(key+".channels", count, &c.Channels),
			option(key+".grain", size, &c.Grain),
			one(key+".alpha", span, &c.Alpha),
			option(key+".hop", span, &c.Hop),
			one(key+".send", rate, &c.Send),
			one(key+".receive", rate, &c.Receive),
			one(key+".link", rate, &c.Link),
			one(key+".smooth", ratio, &c.Smooth),
			option(key+".beside_library", ratio, &c.BesideLibrary),
			option(key+".beside_tiles", ratio, &c.BesideTiles),
			option(key+".beside_memory", ratio, &c.BesideMemory),
			option(key+".beside_latency", span, &c.BesideLatency),
			table(key+".times", &c.Times, count, count, size, span),
		)
	}
	return list
}

// recordedOps are the operations that a profile has an entry for.
var recordedOps = [...]trace.CollectiveOp{trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.AllToAll}
