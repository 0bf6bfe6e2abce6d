package trace

// Never is Infinity. It goes when replay and engines no longer use it.
const Never = Infinity

// Beside is SideBySide. It goes when replay and engines no longer use it.
func Beside(runs []*Run, name string) *Run { return SideBySide(runs, name) }
