package program

import (
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// maxClocks bounds the memory of Coarse: 32 MiB.
const maxClocks = 1 << 23

// Coarse (rule D14) returns a program with the same kernel times in which every compute kernel of some
// GPUs with a Solo phase that nothing can run alongside is that one phase. It is for simulations of
// which only kernels are looked at: the phase holds no compute units, and moves the
// kernel's bytes.
//
// Nothing runs alongside a kernel if each launch and copy of the GPU's other streams ends
// before it or starts behind it, as stream order and the flags that streams post and wait
// for require. Flags that kernels post, or several streams, are taken to order nothing; no
// flag is posted by both. Other kernels for which assume is true become one phase too, and say so
// (Kernel.Assumed); nil: none. A GPU with more than maxClocks commands times streams stays as it
// is: what is known of the order takes an entry for each command and stream.
//
// as is as of streamPosts.
//
//	stream 7  |A post 1|B      |wait 2|C     A and C are alone, B is not
//	stream 20 |wait 1  |D post 2|
func (p *Program) Coarse(of func(gpu int) bool, as func(Flag) (Flag, int64), assume func(gpu, stream, command int) bool) *Program {
	posts := p.streamPosts(of, as)
	coarse := *p
	coarse.GPUs = slices.Clone(p.GPUs)
	for g := range p.GPUs {
		if !of(g) {
			continue
		}
		commands := 0
		for s := range p.GPUs[g].Streams {
			commands += len(p.GPUs[g].Streams[s].Commands)
		}
		if commands*len(p.GPUs[g].Streams) > maxClocks {
			continue
		}
		o := newOrdering(p.GPUs[g].Streams, posts, g)
		if !o.run() {
			return p
		}
		coarse.GPUs[g].Streams = slices.Clone(p.GPUs[g].Streams)
		for s := range coarse.GPUs[g].Streams {
			st := &coarse.GPUs[g].Streams[s]
			st.Commands = o.coarse(s, assume)
		}
	}
	return &coarse
}

// A postAt is a Post command and the flag's value behind it.
type postAt struct {
	gpu, stream, index int
	value              int64
}

// streamPosts lists, by flag, its posts by the one stream that posts it; none if several streams, or
// other GPUs than those asked for, do. as is the flag that stands for a flag, and for how many posts each
// post to it counts; nil: each flag stands for itself.
func (p *Program) streamPosts(of func(gpu int) bool, as func(Flag) (Flag, int64)) [][]postAt {
	posts := make([][]postAt, p.Flags.Len())
	first := make([]Flag, len(posts)) // by the flag that stands for it: the one that is posted, or -1 if several streams do
	for g := range p.GPUs {
		for s := range p.GPUs[g].Streams {
			for i := 0; i < len(p.GPUs[g].Streams[s].Commands) && of(g); i++ {
				c := &p.GPUs[g].Streams[s].Commands[i]
				if c.Op != Post || c.Flag <= NoFlag || int(c.Flag) >= len(posts) {
					continue
				}
				known, value := posts[c.Flag], c.Count
				one, times := c.Flag, int64(1)
				if as != nil {
					one, times = as(c.Flag)
				}
				was := first[one]
				if n := len(known); n > 0 {
					value += known[n-1].value
				}
				if times > 1 || was != NoFlag && was != c.Flag || len(known) > 0 && (known[0].gpu != g || known[0].stream != s) {
					posts[max(was, 0)], posts[c.Flag], first[one] = nil, nil, -1
					continue
				}
				first[one], posts[c.Flag] = c.Flag, append(known, postAt{g, s, i, value})
			}
		}
	}
	return posts
}

// An ordering is what the streams of one GPU know of each other: vector clocks.
type ordering struct {
	streams []Stream
	posts   [][]postAt
	gpu     int
	at      []int     // by stream: next command
	clocks  [][]int32 // by stream: commands of each stream that have ended when the next one starts
	starts  [][]int32 // by stream: the clock of each command, one behind the other
}

func newOrdering(streams []Stream, posts [][]postAt, gpu int) *ordering {
	n := len(streams)
	o := &ordering{
		streams: streams, posts: posts, gpu: gpu,
		at: make([]int, n), clocks: make([][]int32, n), starts: make([][]int32, n),
	}
	for s := range streams {
		o.clocks[s] = make([]int32, n)
		o.starts[s] = make([]int32, n*len(streams[s].Commands))
	}
	return o
}

// run steps all streams to their ends. It returns false if they wait for each other.
func (o *ordering) run() bool {
	for stepped := true; stepped; {
		stepped = false
		for s := range o.streams {
			for o.at[s] < len(o.streams[s].Commands) && o.step(s) {
				stepped = true
			}
		}
	}
	for s := range o.streams {
		if o.at[s] < len(o.streams[s].Commands) {
			return false
		}
	}
	return true
}

// step runs a stream's next command, unless it waits for one that has not run.
func (o *ordering) step(s int) bool {
	i := o.at[s]
	clock := o.clocks[s]
	if c := &o.streams[s].Commands[i]; c.Op == Wait && c.Flag > NoFlag && int(c.Flag) < len(o.posts) {
		of := o.posts[c.Flag]
		k, _ := slices.BinarySearchFunc(of, c.Count, func(p postAt, n int64) int { return int(max(-1, min(1, p.value-n))) })
		if k < len(of) && of[k].gpu == o.gpu {
			if o.at[of[k].stream] <= of[k].index {
				return false
			}
			for t, n := range o.start(of[k].stream, of[k].index) {
				clock[t] = max(clock[t], n)
			}
		}
	}
	copy(o.start(s, i), clock)
	clock[s] = int32(i + 1)
	o.at[s]++
	return true
}

// start is the clock of a command.
func (o *ordering) start(s, i int) []int32 {
	n := len(o.streams)
	return o.starts[s][i*n:][:n]
}

// coarse is a stream's commands with the kernels that are alone as one phase.
func (o *ordering) coarse(s int, assume func(gpu, stream, command int) bool) []Command {
	commands := slices.Clone(o.streams[s].Commands)
	next := make([]int, len(o.streams)) // by stream: first launch or copy that may end behind the last one looked at
	for i := range commands {
		k := commands[i].Kernel
		if commands[i].Op != Launch || k == nil || k.Kind != trace.Compute || k.Free || k.Solo.Time <= 0 {
			continue
		}
		assumed := !o.alone(s, i, next)
		if assumed && (assume == nil || !assume(o.gpu, s, i)) {
			continue
		}
		solo := *k
		solo.Assumed = assumed
		solo.WGs, solo.Tiles, solo.Owned, solo.Cluster, solo.Free, solo.Merged = 1, 0, 0, 0, true, true
		solo.Prologue, solo.Epilogue = nil, nil
		solo.Recipe, solo.Each = nil, []Phase{k.Solo}
		commands[i].Kernel = &solo
	}
	return commands
}

// alone reports whether every launch and copy of other streams ends before command i of
// stream s or starts behind it.
func (o *ordering) alone(s, i int, next []int) bool {
	start := o.start(s, i)
	for t := range o.streams {
		if t == s {
			continue
		}
		j := max(next[t], int(start[t]))
		commands := o.streams[t].Commands
		for j < len(commands) && commands[j].Op != Launch && commands[j].Op != Start {
			j++
		}
		next[t] = j
		if j < len(commands) && o.start(t, j)[s] <= int32(i) {
			return false
		}
	}
	return true
}
