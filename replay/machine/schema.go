package machine

import (
	"strconv"

	"github.com/overlapse/overlapse/trace"
)

// An Entry is one number or table of a profile: the place in the file, what
// it measures, and where it lives in a Machine. Parsing, writing and
// calibration all go by the same list, so none can forget one.
type Entry struct {
	Key      string // "gpu.cus"
	Dims     []Dimension
	Quantity *Quantity // or
	Table    *Table    // with len(dims) columns
	needed   bool      // the simulator cannot do without: "unknown" is refused
	part     string    // of a profile that may be left out: all keys that begin so; "" for what every profile has
}

// omitted reports whether the entry is of a part that the profile leaves out.
func (e Entry) omitted() bool {
	mark, why := e.mark()
	return e.part != "" && mark == Unknown && why == ""
}

// Omit leaves the entry out.
func (e Entry) Omit() {
	if e.Table != nil {
		*e.Table = Table{Mark: Unknown}
		return
	}
	*e.Quantity = Quantity{Mark: Unknown}
}

// DropIncomplete omits what a machine has of parts of which it lacks other entries: a file
// has all of a part, or nothing. It returns the keys.
func DropIncomplete(m *Machine) (keys []string) {
	lacking := map[string]bool{}
	for _, e := range Entries(m) {
		if e.omitted() {
			lacking[e.part] = true
		}
	}
	for _, e := range Entries(m) {
		if lacking[e.part] && !e.omitted() {
			e.Omit()
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// String is the number as the profile writes it, or the size of a table.
func (e Entry) String() string {
	switch {
	case e.Quantity != nil:
		return e.Quantity.String()
	case !e.Table.Known():
		return "unknown"
	}
	return strconv.Itoa(len(e.Table.Rows)) + " rows"
}

// divides reports whether predictions divide by the number: times and sizes may
// be 0, and so may ratios that a profile can do without.
func (e Entry) divides() bool {
	d := e.Dims[0]
	return d == Count || d == Rate || d == Flops || d == Ratio && e.needed
}

// mark is how far the entry can be trusted, and who says so.
func (e Entry) mark() (Mark, string) {
	if e.Quantity != nil {
		return e.Quantity.Mark, e.Quantity.Source
	}
	return e.Table.Mark, e.Table.Source
}

// text is one word of a profile.
type text struct {
	key     string
	at      *string
	choices []string // nil: any
	part    string   // as of an entry
}

func texts(m *Machine) []text {
	return []text{
		{key: "profile", at: &m.Profile},
		{key: "gpu.name", at: &m.GPU.Name},
		{key: "fabric.topology", at: (*string)(&m.Fabric.Topology), choices: topologies},
		{key: "network.topology", at: (*string)(&m.Network.Topology), choices: topologies, part: "network."},
		{key: "library.name", at: &m.Library.Name},
	}
}

// Entries lists every number of a profile in the order in which it is written.
func Entries(m *Machine) []Entry {
	one := func(key string, d Dimension, q *Quantity) Entry {
		return Entry{Key: key, Dims: []Dimension{d}, Quantity: q, needed: true}
	}
	option := func(key string, d Dimension, q *Quantity) Entry {
		return Entry{Key: key, Dims: []Dimension{d}, Quantity: q}
	}
	within := func(part string, e Entry) Entry {
		e.part = part
		return e
	}
	table := func(key string, t *Table, dims ...Dimension) Entry {
		return Entry{Key: key, Dims: dims, Table: t}
	}
	g, f, w, n, l, mm := &m.GPU, &m.Fabric, &m.Network, &m.Launch, &m.Library, &m.Matmul
	list := []Entry{
		one("gpus", Count, &m.Most),

		one("gpu.cus", Count, &g.CUs),
		one("gpu.threads", Count, &g.Threads),
		one("gpu.registers", Count, &g.Registers),
		one("gpu.shared", size, &g.Shared),
		one("gpu.shared_spare", size, &g.SharedSpare),
		one("gpu.wgs", Count, &g.WGs),
		one("gpu.memory", Rate, &g.Memory),
		one("gpu.read", Rate, &g.Read),
		within("gpu.cache", option("gpu.cache", size, &g.Cache)),
		within("gpu.cache_rate", option("gpu.cache_rate", Rate, &g.CacheRate)),
		within("gpu.memory_queue", option("gpu.memory_queue", Count, &g.MemoryQueue)),
		within("gpu.update", one("gpu.update", Ratio, &g.Update)),
		one("gpu.flops", Flops, &g.Flops),
		within("gpu.clock", option("gpu.clock", frequency, &g.Clock)),
		one("gpu.post", Span, &g.Post),
		one("gpu.poll", Span, &g.Poll),
		within("gpu.loop_wait", option("gpu.loop_wait", Ratio, &g.LoopWait)),
		table("gpu.stream", &g.Stream, Count, Rate),
		table("gpu.gather", &g.Gather, Count, Rate),
		table("gpu.gather_fused", &g.GatherFused, Count, Rate),
		within("gpu.sum", table("gpu.sum", &g.Sum, Count, Rate)),
		within("gpu.groups", table("gpu.groups", &g.Groups, Count, Count)),
		within("gpu.gather_spread", one("gpu.gather_spread", Ratio, &g.GatherSpread)),
		within("gpu.crowding", table("gpu.crowding", &g.Crowding, Ratio, Ratio)),

		option("matmul.rate", Flops, &mm.Rate),
		option("matmul.tile_start", Span, &mm.TileStart),
		option("matmul.exposed", Ratio, &mm.Exposed),
		within("matmul.reduce", option("matmul.reduce", Span, &mm.Reduce)),
		table("matmul.tiles", &mm.Tiles, Count, Count, Ratio, Ratio),
		table("matmul.clusters", &mm.Clusters, Count, Count, Count, Count),
		within("matmul.persistent", option("matmul.persistent", Ratio, &mm.Persistent)),
		option("matmul.owned", Count, &mm.Owned),
		option("matmul.dynamic", Ratio, &mm.Dynamic),
		option("matmul.compiled", Flops, &mm.Compiled),
		option("matmul.lone", Flops, &mm.Lone),
		within("matmul.least_depth", one("matmul.least_depth", Count, &mm.LeastDepth)),
		within("matmul.run_spread", one("matmul.run_spread", Ratio, &mm.RunSpread)),
		option("matmul.idle_gain", Ratio, &mm.IdleGain),
		table("matmul.shapes", &mm.Shapes, Count, Count, Count, Span),
		within("matmul.taken", table("matmul.taken", &mm.Taken, Count, Count, Count, Count, Count, Count)),

		one("fabric.egress", Rate, &f.Egress),
		one("fabric.ingress", Rate, &f.Ingress),
		one("fabric.pair", Rate, &f.Pair),
		one("fabric.latency", Span, &f.Latency),
		within("fabric.hop", one("fabric.hop", Span, &f.Hop)),
		one("fabric.fence", Span, &f.Fence),
		option("fabric.message", Span, &f.Message),
		one("fabric.store_cu", Rate, &f.StoreCU),
		option("fabric.store_ring", Rate, &f.StoreRing),
		option("fabric.store_spread", Rate, &f.StoreSpread),
		within("fabric.store_uneven", option("fabric.store_uneven", Ratio, &f.StoreUneven)),
		option("fabric.store_incast", Rate, &f.StoreIncast),

		within("network.", one("network.node", Count, &w.Node)),
		within("network.", one("network.nics", Count, &w.NICs)),
		within("network.", one("network.egress", Rate, &w.Egress)),
		within("network.", one("network.ingress", Rate, &w.Ingress)),
		within("network.", one("network.pair", Rate, &w.Pair)),
		within("network.", one("network.latency", Span, &w.Latency)),
		within("network.", one("network.hop", Span, &w.Hop)),
		within("network.", one("network.message", Span, &w.Message)),

		one("engines.count", Count, &m.Engines.Count),
		one("engines.rate", Rate, &m.Engines.Rate),
		one("engines.latency", Span, &m.Engines.Latency),
		within("engines.host", option("engines.host", Rate, &m.Engines.Host)),
		within("engines.queued", option("engines.queued", Span, &m.Engines.Queued)),
		within("engines.command", option("engines.command", Span, &m.Engines.Command)),

		one("launch.gap", Span, &n.Gap),
		one("launch.memset_gap", Span, &n.MemsetGap),
		within("launch.blocked", option("launch.blocked", Span, &n.Blocked)),
		one("launch.event", Span, &n.Event),
		one("launch.hop", Span, &n.Hop),
		one("launch.graph", Span, &n.Graph),
		within("launch.graph_", option("launch.graph_gap", Span, &n.GraphGap)),
		within("launch.graph_", option("launch.graph_collective", Span, &n.GraphComm)),
		one("launch.timing", Span, &n.Timing),
		one("launch.host", Span, &n.Host),
		one("launch.compiled", Span, &n.Compiled),
		option("launch.call", Span, &n.Call),
		within("launch.profiled_", option("launch.profiled_op", Span, &n.ProfiledOp)),
		within("launch.profiled_", option("launch.profiled_launch", Span, &n.ProfiledLaunch)),
		within("launch.profiled_", option("launch.profiled_call", Span, &n.ProfiledCall)),
		within("launch.profiled_", option("launch.profiled_node", Span, &n.ProfiledNode)),
		within("launch.sync", option("launch.sync", Span, &n.Sync)),
		one("launch.host_event", Span, &n.HostEvent),
		one("launch.host_collective", Span, &n.HostCollective),
		within("launch.pipelined", option("launch.pipelined", Span, &n.Pipelined)),
		within("launch.pipelined", option("launch.pipelined_shard", Span, &n.PipelinedShard)),
		within("launch.network_call", one("launch.network_call", Span, &n.NetworkCall)),
		within("launch.gather_races", one("launch.gather_races", Count, &n.GatherRaces)),
		one("launch.barrier", Span, &n.Barrier),

		option("clock.knee", Ratio, &m.Clock.Knee),
		option("clock.exponent", Ratio, &m.Clock.Exponent),
		option("clock.memory", Ratio, &m.Clock.Memory),
		option("clock.link", Ratio, &m.Clock.Link),
		within("clock.in_place", option("clock.in_place", Ratio, &m.Clock.InPlace)),
		option("clock.hold", Span, &m.Clock.Hold),

		one("library.ranks", Count, &l.Ranks),
		one("library.threads", Count, &l.Threads),
		one("library.registers", Count, &l.Registers),
		one("library.shared", size, &l.Shared),
		within("library.cluster", option("library.cluster", Count, &l.Cluster)),
		option("library.onset", Ratio, &l.Onset),
		within("library.host", one("library.host", Count, &l.Host)),
		within("library.switch", option("library.switch", Ratio, &l.Switch)),
		within("library.switch_channels", option("library.switch_channels", Count, &l.SwitchChannels)),
		within("library.ll_nodes", table("library.ll_nodes", &l.LLNodes, Count, Rate)),
	}
	for _, op := range RecordedOps {
		key, c := "library."+op.String(), l.Of(op)
		list = append(list,
			one(key+".channels", Count, &c.Channels),
			option(key+".grain", size, &c.Grain),
			one(key+".alpha", Span, &c.Alpha),
			option(key+".hop", Span, &c.Hop),
			one(key+".send", Rate, &c.Send),
			one(key+".receive", Rate, &c.Receive),
			within(key+".sum", option(key+".sum", Rate, &c.Sum)),
			one(key+".link", Rate, &c.Link),
			one(key+".smooth", Ratio, &c.Smooth),
			option(key+".beside_library", Ratio, &c.CoRunLibrary),
			option(key+".beside_tiles", Ratio, &c.CoRunTiles),
			option(key+".beside_memory", Ratio, &c.CoRunMemory),
			option(key+".beside_latency", Span, &c.CoRunLatency),
			table(key+".times", &c.Times, Count, Count, size, Span),
		)
	}
	return list
}

// recordedOps are the operations that a profile has an entry for.
var RecordedOps = [...]trace.CollectiveOp{trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.AllToAll}
