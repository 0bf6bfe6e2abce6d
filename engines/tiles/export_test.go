package tiles

// Names exported for tests.
var (
	Threshold = threshold
	Intensity = intensity
)

// Unlimited is a queue that no threshold bounds.
const Unlimited = unlimited
