package profile

import (
	"strconv"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// An Entry is one number or table of a profile: the place in the file, what
// it measures, and where it lives in a Machine. Parsing, writing and
// calibration all go by the same list, so none can forget one.
type Entry struct {
	Key      string // "gpu.cus"
	Dims     []machine.Dimension
	Quantity *machine.Quantity // or
	Table    *machine.Table    // with len(dims) columns
	needed   bool              // the simulator cannot do without: "unknown" is refused
	part     string            // of a profile that may be left out: all keys that begin so; "" for what every profile has
}

// omitted reports whether the entry is of a part that the profile leaves out.
func (e Entry) omitted() bool {
	mark, why := e.mark()
	return e.part != "" && mark == machine.Unknown && why == ""
}

// Omit leaves the entry out.
func (e Entry) Omit() {
	if e.Table != nil {
		*e.Table = machine.Table{Mark: machine.Unknown}
		return
	}
	*e.Quantity = machine.Quantity{Mark: machine.Unknown}
}

// DropIncomplete omits what a machine has of parts of which it lacks other entries: a file
// has all of a part, or nothing. It returns the keys.
func DropIncomplete(m *machine.Machine) (keys []string) {
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
	return d == machine.Count || d == machine.Rate || d == machine.Flops || d == machine.Ratio && e.needed
}

// mark is how far the entry can be trusted, and who says so.
func (e Entry) mark() (machine.Mark, string) {
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

func texts(m *machine.Machine) []text {
	return []text{
		{key: "profile", at: &m.Profile},
		{key: "gpu.name", at: &m.GPU.Name},
		{key: "fabric.topology", at: (*string)(&m.Fabric.Topology), choices: machine.Topologies},
		{key: "network.topology", at: (*string)(&m.Network.Topology), choices: machine.Topologies, part: "network."},
		{key: "library.name", at: &m.Library.Name},
	}
}

// Entries lists every number of a profile in the order in which it is written.
func Entries(m *machine.Machine) []Entry {
	one := func(key string, d machine.Dimension, q *machine.Quantity) Entry {
		return Entry{Key: key, Dims: []machine.Dimension{d}, Quantity: q, needed: true}
	}
	option := func(key string, d machine.Dimension, q *machine.Quantity) Entry {
		return Entry{Key: key, Dims: []machine.Dimension{d}, Quantity: q}
	}
	within := func(part string, e Entry) Entry {
		e.part = part
		return e
	}
	table := func(key string, t *machine.Table, dims ...machine.Dimension) Entry {
		return Entry{Key: key, Dims: dims, Table: t}
	}
	g, f, w, n, l, mm := &m.GPU, &m.Fabric, &m.Network, &m.Launch, &m.Library, &m.Matmul
	list := []Entry{
		one("gpus", machine.Count, &m.Most),

		one("gpu.cus", machine.Count, &g.CUs),
		one("gpu.threads", machine.Count, &g.Threads),
		one("gpu.registers", machine.Count, &g.Registers),
		one("gpu.shared", machine.Size, &g.Shared),
		one("gpu.shared_spare", machine.Size, &g.SharedSpare),
		one("gpu.wgs", machine.Count, &g.WGs),
		one("gpu.memory", machine.Rate, &g.Memory),
		one("gpu.read", machine.Rate, &g.Read),
		within("gpu.cache", option("gpu.cache", machine.Size, &g.Cache)),
		within("gpu.cache_rate", option("gpu.cache_rate", machine.Rate, &g.CacheRate)),
		within("gpu.memory_queue", option("gpu.memory_queue", machine.Count, &g.MemoryQueue)),
		within("gpu.update", one("gpu.update", machine.Ratio, &g.Update)),
		one("gpu.flops", machine.Flops, &g.Flops),
		within("gpu.clock", option("gpu.clock", machine.Frequency, &g.Clock)),
		one("gpu.post", machine.Span, &g.Post),
		one("gpu.poll", machine.Span, &g.Poll),
		within("gpu.loop_wait", option("gpu.loop_wait", machine.Ratio, &g.LoopWait)),
		table("gpu.stream", &g.Stream, machine.Count, machine.Rate),
		table("gpu.gather", &g.Gather, machine.Count, machine.Rate),
		table("gpu.gather_fused", &g.GatherFused, machine.Count, machine.Rate),
		within("gpu.sum", table("gpu.sum", &g.Sum, machine.Count, machine.Rate)),
		within("gpu.groups", table("gpu.groups", &g.Groups, machine.Count, machine.Count)),
		within("gpu.gather_spread", one("gpu.gather_spread", machine.Ratio, &g.GatherSpread)),
		within("gpu.crowding", table("gpu.crowding", &g.Crowding, machine.Ratio, machine.Ratio)),

		option("matmul.rate", machine.Flops, &mm.Rate),
		option("matmul.tile_start", machine.Span, &mm.TileStart),
		option("matmul.exposed", machine.Ratio, &mm.Exposed),
		within("matmul.reduce", option("matmul.reduce", machine.Span, &mm.Reduce)),
		table("matmul.tiles", &mm.Tiles, machine.Count, machine.Count, machine.Ratio, machine.Ratio),
		table("matmul.clusters", &mm.Clusters, machine.Count, machine.Count, machine.Count, machine.Count),
		within("matmul.persistent", option("matmul.persistent", machine.Ratio, &mm.Persistent)),
		option("matmul.owned", machine.Count, &mm.Owned),
		option("matmul.dynamic", machine.Ratio, &mm.Dynamic),
		option("matmul.compiled", machine.Flops, &mm.Compiled),
		option("matmul.lone", machine.Flops, &mm.Lone),
		within("matmul.least_depth", one("matmul.least_depth", machine.Count, &mm.LeastDepth)),
		within("matmul.run_spread", one("matmul.run_spread", machine.Ratio, &mm.RunSpread)),
		option("matmul.idle_gain", machine.Ratio, &mm.IdleGain),
		table("matmul.shapes", &mm.Shapes, machine.Count, machine.Count, machine.Count, machine.Span),
		within("matmul.taken", table("matmul.taken", &mm.Taken, machine.Count, machine.Count, machine.Count, machine.Count, machine.Count, machine.Count)),

		one("fabric.egress", machine.Rate, &f.Egress),
		one("fabric.ingress", machine.Rate, &f.Ingress),
		one("fabric.pair", machine.Rate, &f.Pair),
		one("fabric.latency", machine.Span, &f.Latency),
		within("fabric.hop", one("fabric.hop", machine.Span, &f.Hop)),
		one("fabric.fence", machine.Span, &f.Fence),
		option("fabric.message", machine.Span, &f.Message),
		one("fabric.store_cu", machine.Rate, &f.StoreCU),
		option("fabric.store_ring", machine.Rate, &f.StoreRing),
		option("fabric.store_spread", machine.Rate, &f.StoreSpread),
		within("fabric.store_uneven", option("fabric.store_uneven", machine.Ratio, &f.StoreUneven)),
		option("fabric.store_incast", machine.Rate, &f.StoreIncast),

		within("network.", one("network.node", machine.Count, &w.Node)),
		within("network.", one("network.nics", machine.Count, &w.NICs)),
		within("network.", one("network.egress", machine.Rate, &w.Egress)),
		within("network.", one("network.ingress", machine.Rate, &w.Ingress)),
		within("network.", one("network.pair", machine.Rate, &w.Pair)),
		within("network.", one("network.latency", machine.Span, &w.Latency)),
		within("network.", one("network.hop", machine.Span, &w.Hop)),
		within("network.", one("network.message", machine.Span, &w.Message)),

		one("engines.count", machine.Count, &m.Engines.Count),
		one("engines.rate", machine.Rate, &m.Engines.Rate),
		one("engines.latency", machine.Span, &m.Engines.Latency),
		within("engines.queued", option("engines.queued", machine.Span, &m.Engines.Queued)),
		within("engines.command", option("engines.command", machine.Span, &m.Engines.Command)),

		one("launch.gap", machine.Span, &n.Gap),
		one("launch.memset_gap", machine.Span, &n.MemsetGap),
		within("launch.blocked", option("launch.blocked", machine.Span, &n.Blocked)),
		one("launch.event", machine.Span, &n.Event),
		one("launch.hop", machine.Span, &n.Hop),
		one("launch.graph", machine.Span, &n.Graph),
		within("launch.graph_", option("launch.graph_gap", machine.Span, &n.GraphGap)),
		within("launch.graph_", option("launch.graph_collective", machine.Span, &n.GraphComm)),
		one("launch.timing", machine.Span, &n.Timing),
		one("launch.host", machine.Span, &n.Host),
		one("launch.compiled", machine.Span, &n.Compiled),
		option("launch.call", machine.Span, &n.Call),
		within("launch.profiled_", option("launch.profiled_op", machine.Span, &n.ProfiledOp)),
		within("launch.profiled_", option("launch.profiled_launch", machine.Span, &n.ProfiledLaunch)),
		within("launch.profiled_", option("launch.profiled_call", machine.Span, &n.ProfiledCall)),
		within("launch.profiled_", option("launch.profiled_node", machine.Span, &n.ProfiledNode)),
		within("launch.sync", option("launch.sync", machine.Span, &n.Sync)),
		one("launch.host_event", machine.Span, &n.HostEvent),
		one("launch.host_collective", machine.Span, &n.HostCollective),
		within("launch.pipelined", option("launch.pipelined", machine.Span, &n.Pipelined)),
		within("launch.pipelined", option("launch.pipelined_shard", machine.Span, &n.PipelinedShard)),
		within("launch.network_call", one("launch.network_call", machine.Span, &n.NetworkCall)),
		within("launch.race_keeps", one("launch.race_keeps", machine.Count, &n.RaceKeeps)),
		within("launch.gather_races", one("launch.gather_races", machine.Count, &n.GatherRaces)),
		one("launch.barrier", machine.Span, &n.Barrier),

		option("clock.knee", machine.Ratio, &m.Clock.Knee),
		option("clock.exponent", machine.Ratio, &m.Clock.Exponent),
		option("clock.memory", machine.Ratio, &m.Clock.Memory),
		option("clock.link", machine.Ratio, &m.Clock.Link),
		within("clock.in_place", option("clock.in_place", machine.Ratio, &m.Clock.InPlace)),
		option("clock.hold", machine.Span, &m.Clock.Hold),

		one("library.ranks", machine.Count, &l.Ranks),
		one("library.threads", machine.Count, &l.Threads),
		one("library.registers", machine.Count, &l.Registers),
		one("library.shared", machine.Size, &l.Shared),
		within("library.cluster", option("library.cluster", machine.Count, &l.Cluster)),
		option("library.onset", machine.Ratio, &l.Onset),
		within("library.host", one("library.host", machine.Count, &l.Host)),
		within("library.switch", option("library.switch", machine.Ratio, &l.Switch)),
		within("library.switch_channels", option("library.switch_channels", machine.Count, &l.SwitchChannels)),
		within("library.ll_nodes", table("library.ll_nodes", &l.LLNodes, machine.Count, machine.Rate)),
	}
	for _, op := range RecordedOps {
		key, c := "library."+op.String(), l.Of(op)
		list = append(list,
			one(key+".channels", machine.Count, &c.Channels),
			option(key+".grain", machine.Size, &c.Grain),
			one(key+".alpha", machine.Span, &c.Alpha),
			option(key+".hop", machine.Span, &c.Hop),
			one(key+".send", machine.Rate, &c.Send),
			one(key+".receive", machine.Rate, &c.Receive),
			one(key+".link", machine.Rate, &c.Link),
			one(key+".smooth", machine.Ratio, &c.Smooth),
			option(key+".beside_library", machine.Ratio, &c.CoRunLibrary),
			option(key+".beside_tiles", machine.Ratio, &c.CoRunTiles),
			option(key+".beside_memory", machine.Ratio, &c.CoRunMemory),
			option(key+".beside_latency", machine.Span, &c.CoRunLatency),
			table(key+".times", &c.Times, machine.Count, machine.Count, machine.Size, machine.Span),
		)
	}
	return list
}

// recordedOps are the operations that a profile has an entry for.
var RecordedOps = [...]trace.CollectiveOp{trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.AllToAll}
